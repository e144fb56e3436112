"""Compute Engine's REST API, Cloud Billing's price list and Cloud Quotas' limits over the world."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.catalogue import catalogue
from sandbox.faces.gce import instances, lists
from sandbox.faces.gce.advice import Advice
from sandbox.faces.gce.answers import ApiError, Call, not_found, refuse
from sandbox.faces.gce.creation import PROVIDER, Creation
from sandbox.faces.gce.estate import Estate
from sandbox.faces.gce.inventory import Inventory, known_zone
from sandbox.faces.gce.methods import COMMON, METHODS, Method
from sandbox.faces.gce.operations import Operations
from sandbox.faces.gce.preferences import Preferences
from sandbox.faces.gce.reserved import Reserved
from sandbox.faults import Fault, flatten
from sandbox.vm import Vm
from sandbox.wire import answer
from sandbox.world import World

_ROOT = "/compute/v1/projects/{project}"
Body = dict[str, Any]


def app(world: World) -> Starlette:
    """The API as an ASGI application."""
    face = Face(world)
    routes = []
    for method in METHODS:
        path = method.path if method.path.startswith("/") else f"{_ROOT}/{method.path}"
        routes.append(Route(path.rstrip("/"), _endpoint(face, method), methods=[method.verb]))
    return Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})


async def _unknown(request: Request, error: Exception) -> Response:
    return ApiError(404, "notFound", f"{request.method} {request.url.path} is not served here").response()


def _endpoint(face: Face, method: Method) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            call = await _read(method, request)
        except ApiError as error:
            return error.response()
        params = {**call.path, **call.query, **flatten(call.body)}

        def act(fault: Fault | None) -> Response:
            return face.do(Call(call.method, call.path, call.query, call.body, fault))

        def spell(fault: Fault) -> Response:
            return face.refuse(call, fault)

        return await answer(face.world, PROVIDER, method.id, params, request, act, spell)

    return endpoint


async def _read(method: Method, request: Request) -> Call:
    query = dict(request.query_params)
    unknown = sorted(set(query) - method.query - COMMON)
    if unknown:
        raise ApiError(400, "invalidParameter", f'Unknown name "{unknown[0]}": Cannot bind query parameter.')
    raw = await request.body()
    try:
        body = json.loads(raw) if raw else {}
    except ValueError as error:
        raise ApiError(400, "parseError", f"Parse Error: {error}") from None
    if not isinstance(body, dict):
        raise ApiError(400, "parseError", "Parse Error: expected an object")
    return Call(method.id, dict(request.path_params), query, body)


class Face:
    """Answers calls; keeps nothing but operations. Safe to share between threads."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._table = catalogue(PROVIDER)
        self._operations = Operations(world)
        self._estate = Estate(world, self._table)
        self._creation = Creation(world, self._table, self._operations, self._estate)
        self._handlers: dict[str, Callable[[Call], Body]] = {
            **Inventory(world, self._table).handlers,
            **Preferences(world).handlers,
            "advice.capacity": Advice(world, self._table).capacity,
            **self._estate.handlers,
            **Reserved(world, self._table).handlers,
            "instances.insert": self._insert,
            "instances.bulkInsert": self._bulk_insert,
            "instances.list": self._list,
            "instances.get": self._get,
            "instances.delete": self._delete,
            "instances.aggregatedList": self._aggregated,
            "zoneOperations.list": self._list_operations,
            "zoneOperations.get": self._operation,
            "zoneOperations.wait": self._operation,
        }

    def do(self, call: Call) -> Response:
        """Carry a call out."""
        try:
            return JSONResponse(self._handlers[call.method](call))
        except ApiError as error:
            return error.response()

    def refuse(self, call: Call, fault: Fault) -> Response:
        """Fail a call as scripted. A create fails with an operation's code in its operation."""
        creating = call.method in ("instances.insert", "instances.bulkInsert")
        if creating and fault.action == "error" and fault.code.isupper():
            return JSONResponse(self._creation.fail(call, fault))
        return refuse(fault)

    def _insert(self, call: Call) -> Body:
        known_zone(call, self._table)
        return self._creation.insert(call)

    def _bulk_insert(self, call: Call) -> Body:
        known_zone(call, self._table)
        return self._creation.bulk_insert(call)

    def _visible(self, call: Call, zone: str | None = None) -> list[Vm]:
        now = self.world.now()
        return [vm for vm in self._existing(call, zone) if vm.visible(now)]

    def _existing(self, call: Call, zone: str | None) -> list[Vm]:
        project = call.project
        return self.world.vms(
            PROVIDER, lambda vm: vm.live and vm.extra["project"] == project and zone in (None, vm.zone)
        )

    def _shown(self, call: Call, vm: Vm) -> Body:
        fault = call.faulty("state")
        boot = self.world.timings(PROVIDER).boot_seconds
        return instances.shown(vm, boot, self.world.now(), fault.value if fault else "")

    def _named(self, call: Call, vms: Callable[[Call, str], list[Vm]]) -> Vm:
        zone, name = known_zone(call, self._table), call.path["instance"]
        for vm in vms(call, zone):
            if vm.name == name:
                return vm
        raise not_found(call, "zones", zone, "instances", name)

    def _get(self, call: Call) -> Body:
        return self._shown(call, self._named(call, self._visible))

    def _delete(self, call: Call) -> Body:
        """Only reads lag: what was made can be deleted at once."""
        return self._creation.delete(call, self._named(call, self._existing))

    def _list(self, call: Call) -> Body:
        zone = known_zone(call, self._table)
        return lists.listed(call, "instance", [self._shown(call, vm) for vm in self._visible(call, zone)])

    def _aggregated(self, call: Call) -> Body:
        scopes: dict[str, list[Body]] = {f"zones/{zone}": [] for zone in self._table.zones}
        for vm in self._visible(call):
            scopes[f"zones/{vm.zone}"].append(self._shown(call, vm))
        return lists.aggregated(call, "instance", "instances", scopes)

    def _list_operations(self, call: Call) -> Body:
        zone = known_zone(call, self._table)
        return lists.listed(call, "operation", self._operations.of_zone(call.project, zone))

    def _operation(self, call: Call) -> Body:
        name = call.path["operation"]
        found = self._operations.get(call.project, known_zone(call, self._table), name)
        if found is None or call.faulty("lost"):
            raise not_found(call, "zones", call.path["zone"], "operations", name)
        return found
