"""Around every request, as plain ASGI: its id, its size, its time, its line in the log.

Nothing here reads a body or holds one back; `@app.middleware` would do both and cost half the throughput.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.metrics import HttpMetrics
from service.api.problems import Problem

log = structlog.get_logger("service.access")

UNMATCHED = "unmatched"
_GIVEN_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")
_QUIET = frozenset({"/healthz", "/readyz", "/metrics", "/agent/v1/heartbeat", "/agent/v1/logs"})
_ALWAYS = frozenset({"/healthz", "/readyz", "/metrics"})


def route_of(scope: Scope) -> str:
    """The template of the route that matched, with every router's prefix: `/v1/jobs/{job_id}`."""
    context = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    return str(getattr(context, "path", None) or UNMATCHED)


class Observed:
    """Gives each request an id (the caller's X-Request-Id, or a new one), counts it and logs it."""

    def __init__(self, app: ASGIApp, metrics: HttpMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 499  # 499: the caller went away before there was an answer
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id.decode()

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_headers(request_id)]
            await send(message)

        try:
            await self.app(scope, receive, observed)
        finally:
            seconds = time.perf_counter() - started
            route = route_of(scope)
            self.metrics.observe(scope["method"], route, status, seconds)
            write = log.debug if route in _QUIET and status < 500 else log.info
            write("request", **_line(scope, route, status, seconds))


def _headers(request_id: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-request-id", request_id),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _GIVEN_ID.match(value):
            return bytes(value)
    return secrets.token_hex(8).encode()


def _line(scope: Scope, route: str, status: int, seconds: float) -> dict[str, Any]:
    """Never the query or the headers: both may carry what must not be kept."""
    state = scope.get("state", {})
    line: dict[str, Any] = {
        "method": scope["method"],
        "route": route,
        "status": status,
        "ms": round(seconds * 1000, 1),
        "request_id": state.get("request_id"),
    }
    if caller := state.get("caller"):
        line["token"] = caller.token_id
    return line


class Limited:
    """Refuses addresses with a NUL (400), which no database takes, bodies that are too large (413) before or
    while they come, and everything but health and metrics once the service is stopping (503), so that no
    success is claimed that nobody will keep.
    """

    def __init__(self, app: ASGIApp, limit: Callable[[str, str], int], stopping: Callable[[], bool]) -> None:
        self.app = app
        self.limit = limit
        self.stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if self.stopping() and path not in _ALWAYS:
            problem = Problem(503, "the service is stopping; try again", headers={"Retry-After": "5"})
            await problem.response()(scope, receive, send)
            return
        if "\0" in path or b"%00" in scope.get("query_string", b""):
            await Problem(400, "the address holds a NUL").response()(scope, receive, send)
            return
        limit = self.limit(scope["method"], path)
        length = next((value for name, value in scope["headers"] if name == b"content-length"), None)
        if length is not None and (not length.isdigit() or int(length) > limit):
            await _too_large(limit).response()(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:  # of this kind, since FastAPI turns any other into a 400
                raise HTTPException(413, f"the body is larger than {limit} bytes")
            return message

        await self.app(scope, counted, send)


def _too_large(limit: int) -> Problem:
    return Problem(
        413, f"the body is larger than {limit} bytes", headers={"Connection": "close"}, limit=limit
    )
