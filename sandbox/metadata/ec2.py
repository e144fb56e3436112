"""EC2's instance metadata, version 2 only (AWS, "Use IMDSv2", "Spot Instance interruption notices")."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from datetime import datetime, timedelta

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sandbox.catalogue import catalogue
from sandbox.vm import Vm
from sandbox.world import World

_TTL = "X-aws-ec2-metadata-token-ttl-seconds"
_TOKEN = "X-aws-ec2-metadata-token"  # noqa: S105 - the header's name
_LONGEST = 21_600  # seconds
_MOST_TOKENS = 10_000


class Imds:
    """Session tokens and the values behind them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tokens: dict[str, tuple[str, datetime]] = {}

    async def respond(self, vm: Vm, request: Request, path: str) -> Response:
        """One request to an instance's 169.254.169.254."""
        if path == "/latest/api/token":
            return self._grant(vm, request)
        if request.method != "GET":
            return _page(405, "Method Not Allowed")
        if not self._known(vm, request.headers.get(_TOKEN, "")):
            return _page(401, "Unauthorized")
        text = _value(vm, path.rstrip("/"))
        return PlainTextResponse(text) if text is not None else _page(404, "Not Found")

    def _grant(self, vm: Vm, request: Request) -> Response:
        if request.method != "PUT":
            return _page(405, "Method Not Allowed")
        if "X-Forwarded-For" in request.headers:
            return _page(403, "Forbidden")
        ttl = request.headers.get(_TTL, "")
        if not ttl.isdecimal() or not 1 <= int(ttl) <= _LONGEST:
            return _page(400, "Bad Request")
        now = self._world.now()
        if len(self._tokens) >= _MOST_TOKENS:
            self._tokens = {token: held for token, held in self._tokens.items() if held[1] > now}
        token = secrets.token_urlsafe(40)
        self._tokens[token] = vm.id, now + timedelta(seconds=int(ttl))
        return PlainTextResponse(token, headers={_TTL: ttl})

    def _known(self, vm: Vm, token: str) -> bool:
        owner, until = self._tokens.get(token, ("", self._world.now()))
        return owner == vm.id and until > self._world.now()


def _page(status: int, title: str) -> Response:
    text = f"<html><head><title>{status} - {title}</title></head></html>\n"
    return Response(text, status, media_type="text/html")


def _value(vm: Vm, path: str) -> str | None:
    """What stands at a path; None for nothing (404)."""
    if path == "/latest/user-data":
        return vm.user_data or None
    if path == "/latest/dynamic/instance-identity/document":
        return json.dumps(_identity(vm), indent=2)
    prefix, _, name = path.partition("/latest/meta-data")
    if prefix:
        return None
    if not name:
        return "\n".join(sorted({key.strip("/").split("/")[0] for key in _VALUES}))
    reader = _VALUES.get(name)
    return None if reader is None else reader(vm)


def _identity(vm: Vm) -> dict[str, str | None]:
    return {
        "instanceId": vm.id,
        "instanceType": vm.instance_type,
        "imageId": vm.extra.get("image"),
        "region": vm.region,
        "availabilityZone": _zone_name(vm),
        "privateIp": vm.private_ip,
        "accountId": vm.extra.get("account"),
        "architecture": catalogue("aws").types[vm.instance_type].architecture,
        "version": "2017-09-30",
    }


def _zone_name(vm: Vm) -> str:
    return catalogue("aws").zones[vm.zone].name


def _action(vm: Vm) -> str | None:
    if vm.notice_deadline is None or vm.capacity_type != "spot":
        return None
    action = "stop" if vm.eviction == "stop" else "terminate"
    return json.dumps({"action": action, "time": _time(vm.notice_deadline)})


def _termination(vm: Vm) -> str | None:
    return None if vm.notice_deadline is None or vm.capacity_type != "spot" else _time(vm.notice_deadline)


def _rebalance(vm: Vm) -> str | None:
    if vm.noticed_at is None or vm.capacity_type != "spot":
        return None
    return json.dumps({"noticeTime": _time(vm.noticed_at)})


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


_VALUES: dict[str, Callable[[Vm], str | None]] = {
    "/ami-id": lambda vm: vm.extra.get("image"),
    "/instance-id": lambda vm: vm.id,
    "/instance-type": lambda vm: vm.instance_type,
    "/instance-life-cycle": lambda vm: "spot" if vm.capacity_type == "spot" else "on-demand",
    "/local-ipv4": lambda vm: vm.private_ip,
    "/public-ipv4": lambda vm: vm.public_ip,
    "/placement/availability-zone": _zone_name,
    "/placement/availability-zone-id": lambda vm: vm.zone,
    "/placement/region": lambda vm: vm.region,
    "/spot/instance-action": _action,
    "/spot/termination-time": _termination,
    "/events/recommendations/rebalance": _rebalance,
}
