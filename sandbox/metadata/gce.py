"""Compute Engine's metadata server, with its waits for change (Google, "About VM metadata").

The face leaves the attributes (key -> text) in `vm.extra["metadata"]` and `project` beside them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sandbox.vm import Vm
from sandbox.world import World

_ROOT = "/computeMetadata/v1"
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_PROJECT_NUMBER = "100000000001"
_LOOK_EVERY = 0.02  # real seconds


class MetadataServer:
    """The tree of values of each instance."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def respond(self, vm: Vm, request: Request, path: str) -> Response:
        """One request to an instance's metadata.google.internal."""
        if request.headers.get("Metadata-Flavor") != "Google" or "X-Forwarded-For" in request.headers:
            return PlainTextResponse("Missing Metadata-Flavor:Google header.", 403, headers=_FLAVOR)
        if request.method != "GET":
            return PlainTextResponse("Method not allowed", 405, headers=_FLAVOR)
        if not path.startswith(_ROOT):
            return PlainTextResponse("not found", 404, headers=_FLAVOR)
        name = path.removeprefix(_ROOT)
        query = request.query_params
        text = _read(vm, name, query.get("recursive", "").lower() == "true")
        if text is not None and query.get("wait_for_change", "").lower() == "true":
            text = await self._change(vm, request, name, text)
        if text is None:
            return PlainTextResponse("not found", 404, headers=_FLAVOR)
        kind = "application/json" if text.startswith("{") else "application/text"
        return Response(text, headers=_FLAVOR | {"ETag": _etag(text)}, media_type=kind)

    async def _change(self, vm: Vm, request: Request, name: str, text: str) -> str | None:
        """The value once it is another than `last_etag` (or than it was), or as it is after `timeout_sec`."""
        query = request.query_params
        recursive = query.get("recursive", "").lower() == "true"
        known = query.get("last_etag") or _etag(text)
        limit = query.get("timeout_sec", "")
        until = self._world.clock.monotonic() + float(limit) if limit.isdecimal() and limit != "0" else None
        current: str | None = text
        while current is not None and _etag(current) == known:
            late = until is not None and self._world.clock.monotonic() >= until
            if late or self._world.closing.is_set():
                break
            if vm.state not in ("pending", "running") or await request.is_disconnected():
                return None
            await asyncio.sleep(_LOOK_EVERY)
            current = _read(vm, name, recursive)
        return current


def _etag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(vm: Vm, path: str, recursive: bool) -> str | None:
    """A leaf's text, a folder's listing (its JSON if recursive); None where there is nothing."""
    node: Any = _tree(vm)
    for part in path.strip("/").split("/"):
        if not part:
            continue
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    if not isinstance(node, dict):
        return str(node)
    if recursive:
        return json.dumps(node)
    return "".join(
        f"{key}/\n" if isinstance(value, dict) else f"{key}\n" for key, value in sorted(node.items())
    )


def _tree(vm: Vm) -> dict[str, Any]:
    external = {"0": {"external-ip": vm.public_ip, "type": "ONE_TO_ONE_NAT"}} if vm.public_ip else {}
    instance = {
        "attributes": dict(vm.extra.get("metadata", {})),
        "hostname": f"{vm.name}.{vm.zone}.c.{_project(vm)}.internal",
        "id": vm.id,
        "machine-type": f"projects/{_PROJECT_NUMBER}/machineTypes/{vm.instance_type.partition('+')[0]}",
        "maintenance-event": "NONE",
        "name": vm.name,
        "network-interfaces": {"0": {"ip": vm.private_ip, "access-configs": external}},
        "preempted": "TRUE" if vm.notice_deadline is not None else "FALSE",
        "scheduling": {
            "preemptible": "TRUE" if vm.capacity_type == "spot" else "FALSE",
            "automatic-restart": "FALSE",
            "on-host-maintenance": "TERMINATE",
        },
        "zone": f"projects/{_PROJECT_NUMBER}/zones/{vm.zone}",
    }
    project = {"project-id": _project(vm), "numeric-project-id": _PROJECT_NUMBER}
    return {"instance": instance, "project": project}


def _project(vm: Vm) -> str:
    return str(vm.extra.get("project", "sandbox"))
