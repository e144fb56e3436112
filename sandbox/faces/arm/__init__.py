"""Azure Resource Manager on loopback, with the Retail Prices API and Resource Graph on the same port."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from sandbox import wire
from sandbox.faces.arm.call import ArmError, Call, Route, refused
from sandbox.faces.arm.routes import ROUTES
from sandbox.faces.arm.state import Face
from sandbox.faults import Fault, flatten
from sandbox.world import World

__all__ = ["app"]

_METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH"]


def app(world: World) -> Starlette:
    """The face as an ASGI application; all it keeps of its own are operations, groups and failed creates."""
    face = Face(world)
    table = [(route, _pattern(route.template)) for route in ROUTES]

    async def serve(request: Request) -> Response:
        try:
            route, path = _find(table, request)
            call = await _read(request, route, path)
        except ArmError as error:
            return error.response()

        def act(fault: Fault | None) -> Response:
            try:
                response: Response = route.handler(face, _with(call, fault))
            except ArmError as error:
                return error.response()
            return response

        params = {**call.path, **call.query, **flatten(call.body)}
        return await wire.answer(world, "azure", route.operation, params, request, act, refused)

    return Starlette(routes=[HttpRoute("/{path:path}", serve, methods=_METHODS)])


def _pattern(template: str) -> re.Pattern[str]:
    """A template as an expression; ARM compares paths without case."""
    parts = re.split(r"\{(\w+)\}", template)
    text = "".join(f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.compile(text, re.IGNORECASE)


def _find(table: list[tuple[Route, re.Pattern[str]]], request: Request) -> tuple[Route, dict[str, str]]:
    path = request.url.path.rstrip("/")
    for route, pattern in table:
        found = pattern.fullmatch(path)
        if found is not None and route.method == request.method:
            return route, found.groupdict()
    text = f"The sandbox has no {request.method} {path}."
    raise ArmError(404, "InvalidResourceType", text)


async def _read(request: Request, route: Route, path: dict[str, str]) -> Call:
    if route.private:
        if not request.headers.get("authorization", "").startswith("Bearer "):
            text = "Authentication failed. The 'Authorization' header is missing."
            raise ArmError(401, "AuthenticationFailed", text)
        if not request.query_params.get("api-version"):
            text = "The api-version query parameter (?api-version=) is required for all requests."
            raise ArmError(400, "MissingApiVersionParameter", text)
    return Call(
        path=path,
        query=dict(request.query_params),
        headers={key.lower(): value for key, value in request.headers.items()},
        body=_json(await request.body()),
        base=f"{request.url.scheme}://{request.url.netloc}",
        url=request.url.path,
    )


def _json(content: bytes) -> dict[str, Any]:
    if not content:
        return {}
    try:
        body = json.loads(content)
    except ValueError as error:
        raise ArmError(400, "InvalidRequestContent", f"The request content was invalid: {error}.") from error
    if not isinstance(body, dict):
        raise ArmError(400, "InvalidRequestContent", "The request content must be an object.")
    return body


def _with(call: Call, fault: Fault | None) -> Call:
    return replace(call, fault=fault)
