"""RunInstances: client tokens, then the market, then the market's answer in EC2's words.

Idempotency as in the EC2 developer guide, "Ensuring idempotency": a token holds for the zone that the request
names, else for the region; the same request returns the first reservation, another one
IdempotentParameterMismatch, and a token whose instances are over IdempotentInstanceTerminated. A refused
attempt binds its token too.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.placement import PlacementGroups
from sandbox.faces.ec2.refusals import refused
from sandbox.faces.ec2.shapes import reservation
from sandbox.faces.ec2.site import ACCOUNT
from sandbox.faces.ec2.wanted import Wanted, read
from sandbox.world import Refusal, Vm

_OVER = ("shutting_down", "terminated")
# Where the request goes is the token's scope, not a part of what it asks for.
_PLACE = ("Placement.AvailabilityZone", "Placement.AvailabilityZoneId")
_APART = frozenset({"Action", "Version", "ClientToken", "DryRun", *_PLACE})


@dataclass(slots=True)
class _Record:
    """What a token stands for."""

    digest: str
    vms: list[Vm] = field(default_factory=list)


class Launches:
    """RunInstances with its memory of tokens. One launch at a time, so that a token is used once."""

    def __init__(self, groups: PlacementGroups) -> None:
        self._groups = groups
        self._records: dict[tuple[str, str | None, str], _Record] = {}
        self._lock = threading.Lock()

    def run_instances(self, context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
        """Instances for the request: those it made before, or new ones."""
        wanted = read(context, params)
        self._groups.check(context, wanted.group)
        dry_run(params)
        with self._lock:
            record = self._record(context, params.get("ClientToken"), wanted)
            if not record.vms:
                record.vms = _launch(context, wanted, params.get("ClientToken", ""))
            elif any(vm.state in _OVER for vm in record.vms):
                text = "The instances that this client token launched have been terminated"
                raise AwsError("IdempotentInstanceTerminated", text)
            return reservation(context, record.vms)

    def _record(self, context: Context, token: str | None, wanted: Wanted) -> _Record:
        digest = _digest(context.form)
        if not token:
            return _Record(digest)
        if len(token) > 64 or not token.isascii():
            raise AwsError("InvalidClientToken", "ClientToken may have up to 64 ASCII characters")
        key = context.region, wanted.zone if wanted.zonal else None, token
        record = self._records.setdefault(key, _Record(digest))
        if record.digest != digest:
            text = (
                "The client token you have provided is associated with a request of other parameters; "
                "a token may be used again with the same request only."
            )
            raise AwsError("IdempotentParameterMismatch", text)
        return record


def _digest(form: Mapping[str, str]) -> str:
    kept = {key: value for key, value in form.items() if key not in _APART}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _launch(context: Context, wanted: Wanted, token: str) -> list[Vm]:
    """As many as can be had up to `most`, in the zone that was named or in the first that can give them."""
    reservation_id = f"r-{context.world.chance.getrandbits(68):017x}"
    zones = [wanted.zone] if wanted.zone else [zone.key for zone in context.zones]
    refusal: Refusal | None = None
    for count in range(wanted.most, wanted.least - 1, -1):
        for zone in zones:
            try:
                return _allocate(context, wanted, token, zone, count, reservation_id)
            except Refusal as no:
                refusal = no
    if refusal is None:
        raise AwsError("InternalError", "An internal error has occurred", 500)
    raise refused(context, refusal, zonal=wanted.zone is not None)


def _allocate(
    context: Context, wanted: Wanted, token: str, zone: str, count: int, reservation_id: str
) -> list[Vm]:
    vms = context.world.allocate(
        "aws",
        region=context.region,
        zone=zone,
        instance_type=wanted.instance_type,
        capacity_type=wanted.capacity_type,
        names=[""] * count,
        token=token,
        tags=wanted.tags.get("instance", {}),
        user_data=wanted.user_data,
        public_ip=wanted.public_ip,
        max_price=_ceiling(context, wanted, zone),
        reservation=wanted.reservation,
        matching=wanted.matching,
        poweroff=wanted.poweroff,
        eviction=wanted.eviction,
        keep=wanted.keep,
        objects={
            "disk": ["vol-{hex}"] * len(wanted.disks),
            "nic": ["eni-{hex}"] * len(wanted.interfaces),
        },
        extra={
            "account": ACCOUNT,
            "image": wanted.image,
            "devices": wanted.disks,
            "disk_gib": wanted.disk_gib,
            "groups": wanted.groups,
            "group": wanted.group,
            "interfaces": wanted.interfaces,
            "subnet": context.site.subnet_of(zone).id,
            "volume_tags": wanted.tags.get("volume", {}),
            "request_tags": wanted.tags.get("spot-instances-request", {}),
            "reservation": reservation_id,
            "index": 0,
        },
    )
    for index, vm in enumerate(vms):
        vm.extra["index"] = index
    return vms


def _ceiling(context: Context, wanted: Wanted, zone: str) -> float | None:
    """Without a bid of its own, a spot request pays up to the on-demand price."""
    if wanted.capacity_type != "spot" or wanted.max_price is not None:
        return wanted.max_price
    return context.world.price("aws", context.region, zone, wanted.instance_type, "on_demand")
