"""Azure's instance metadata service and its scheduled events (Microsoft, "Azure Instance Metadata Service",
"Scheduled Events for Linux VMs").

The face leaves `subscription` and `resource_group` in `vm.extra`.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sandbox.catalogue import catalogue
from sandbox.vm import Vm
from sandbox.world import World

_INSTANCE_VERSIONS = (
    *("2017-12-01", "2018-10-01", "2019-06-01", "2019-11-01", "2020-06-01", "2020-09-01", "2020-12-01"),
    *("2021-01-01", "2021-02-01", "2021-05-01", "2021-10-01", "2021-11-01", "2021-12-13", "2023-07-01"),
)
_EVENT_VERSIONS = ("2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01", "2020-07-01")


class Imds:
    """What a VM can ask about itself."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def respond(self, vm: Vm, request: Request, path: str) -> Response:
        """One request to a VM's 169.254.169.254."""
        if request.headers.get("Metadata", "").lower() != "true" or "X-Forwarded-For" in request.headers:
            return _bad("Bad request. Required metadata header not specified")
        parts = [part for part in path.split("/") if part]
        if parts[:1] != ["metadata"] or len(parts) < 2:
            return PlainTextResponse("not found", 404)
        if parts[1] == "scheduledevents":
            return await self._events(vm, request)
        if parts[1] != "instance" or request.method != "GET":
            return PlainTextResponse("not found", 404)
        if request.query_params.get("api-version") not in _INSTANCE_VERSIONS:
            return _version(_INSTANCE_VERSIONS)
        return _leaf(_instance(vm), parts[2:], request.query_params.get("format", "json"))

    async def _events(self, vm: Vm, request: Request) -> Response:
        if request.query_params.get("api-version") not in _EVENT_VERSIONS:
            return _version(_EVENT_VERSIONS)
        if request.method == "GET":
            return JSONResponse(_document(vm))
        try:
            wanted = [str(item["EventId"]) for item in json.loads(await request.body())["StartRequests"]]
        except (ValueError, KeyError, TypeError):
            return _bad("Bad request. StartRequests with EventId expected")
        if vm.notice_deadline is None or wanted != [_event_id(vm)]:
            return _bad("Bad request. No such event")
        self._world.acknowledge(vm)
        return Response(status_code=200)


def _bad(text: str) -> Response:
    return JSONResponse({"error": text}, 400)


def _version(known: tuple[str, ...]) -> Response:
    text = "Bad request. api-version is invalid or was not specified in the request."
    return JSONResponse({"error": text, "newest-versions": list(reversed(known[-3:]))}, 400)


def _document(vm: Vm) -> dict[str, Any]:
    if vm.notice_deadline is None:
        return {"DocumentIncarnation": 1, "Events": []}
    event = {
        "EventId": _event_id(vm),
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [vm.name],
        "NotBefore": vm.notice_deadline.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "Description": "",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }
    return {"DocumentIncarnation": 2, "Events": [event]}


def _event_id(vm: Vm) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, vm.id)).upper()


def _instance(vm: Vm) -> dict[str, Any]:
    address = {"privateIpAddress": vm.private_ip, "publicIpAddress": vm.public_ip or ""}
    spot = vm.capacity_type == "spot"
    compute = {
        "azEnvironment": "AzurePublicCloud",
        "evictionPolicy": ("Deallocate" if vm.eviction == "stop" else "Delete") if spot else "",
        "location": vm.region,
        "name": vm.name,
        "osType": "Linux",
        "priority": "Spot" if spot else "Regular",
        "provider": "Microsoft.Compute",
        "resourceGroupName": vm.extra.get("resource_group", ""),
        "subscriptionId": vm.extra.get("subscription", ""),
        "tags": ";".join(f"{key}:{value}" for key, value in vm.tags.items()),
        "tagsList": [{"name": key, "value": value} for key, value in vm.tags.items()],
        "userData": "",
        "vmId": vm.id,
        "vmSize": vm.instance_type,
        "zone": catalogue("azure").zones[vm.zone].name,
    }
    return {"compute": compute, "network": {"interface": [{"ipv4": {"ipAddress": [address]}}]}}


def _leaf(node: Any, parts: list[str], form: str) -> Response:
    for part in parts:
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdecimal() and int(part) < len(node):
            node = node[int(part)]
        else:
            return JSONResponse({"error": "Not found"}, 404)
    if isinstance(node, dict | list):
        return JSONResponse(node) if form == "json" else _bad("Bad request. format=text is for single values")
    return PlainTextResponse(str(node)) if form == "text" else JSONResponse(node)
