"""Instances as EC2 describes them, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from providers.aws.api import Api
from providers.aws.instance_types import quota_family
from providers.aws.state_reason import read_ending
from providers.errors import ProviderError
from providers.vocabulary import (
    CapacityType,
    CloudInstance,
    EndReason,
    InstanceRef,
    InstanceState,
    Scope,
)

BATCH = 100

STATES = {
    "pending": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "shutting-down": InstanceState.STOPPING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.STOPPED,
    "terminated": InstanceState.TERMINATED,
}
LIFECYCLES = {
    "spot": CapacityType.SPOT,
    "capacity-block": CapacityType.RESERVED,
    "interruptible-capacity-reservation": CapacityType.RESERVED,
}
ENDING = frozenset({InstanceState.STOPPING, InstanceState.STOPPED, InstanceState.TERMINATED})

DENIED = frozenset(
    {
        "InvalidInstanceID.NotFound",
        "InvalidInstanceID.Malformed",
        "InvalidSpotInstanceRequestID.NotFound",
        "InvalidSpotInstanceRequestID.Malformed",
    }
)


def parse(
    raw: Mapping[str, Any], region: str, account: Scope, zone_of: Callable[[str], str]
) -> CloudInstance:
    """zone_of: from the zone's name to its id, for answers that hold only the name."""
    placement = raw.get("Placement", {})
    zone = placement.get("AvailabilityZoneId") or zone_of(placement.get("AvailabilityZone", ""))
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    token, node = raw.get("ClientToken", ""), raw.get("AmiLaunchIndex")
    state = STATES.get(raw.get("State", {}).get("Name", ""), InstanceState.UNKNOWN)
    capacity_type = bought(raw)
    reason, error, detail = _ending(raw, state, _subject(raw, account, region, zone, capacity_type))
    return CloudInstance(
        provider_id=raw["InstanceId"],
        region=region,
        zone=zone,
        state=state,
        name=f"corral-{token[:20]}-{node}" if token and node is not None else tags.get("Name", ""),
        node=node,
        tags=tags,
        instance_type=raw.get("InstanceType", ""),
        capacity_type=capacity_type,
        created_at=raw.get("LaunchTime"),
        private_ip=raw.get("PrivateIpAddress") or None,
        public_ip=raw.get("PublicIpAddress") or None,
        end_reason=reason,
        detail=detail,
        error=error,
    )


def bought(raw: Mapping[str, Any]) -> CapacityType:
    """How an instance was bought; one in a capacity reservation says so by its id, not by its lifecycle."""
    if raw.get("CapacityReservationId"):
        return CapacityType.RESERVED
    return LIFECYCLES.get(raw.get("InstanceLifecycle", ""), CapacityType.ON_DEMAND)


def _subject(
    raw: Mapping[str, Any], account: Scope, region: str, zone: str, capacity_type: CapacityType
) -> Scope:
    name = raw.get("InstanceType", "")
    return Scope(
        provider=account.provider,
        account=account.account,
        region=region,
        zone=zone,
        instance_type=name,
        family=quota_family(name),
        capacity_type=capacity_type,
        reservation=raw.get("CapacityReservationId") or None,
        subnet=raw.get("SubnetId"),
        image=raw.get("ImageId"),
    )


def _ending(
    raw: Mapping[str, Any], state: InstanceState, subject: Scope
) -> tuple[EndReason | None, ProviderError | None, str]:
    if state not in ENDING:
        return None, None, ""
    told = raw.get("StateReason") or {}
    code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    reason, error = read_ending(code, message, subject)
    return reason, error, message or str(raw.get("StateTransitionReason", ""))


def read_instances(api: Api, region: str, subject: Scope | None = None, **query: Any) -> list[dict[str, Any]]:
    """The raw instances of all pages of a query, in launch order within a reservation."""
    reservations = api.pages("ec2", region, "describe_instances", "Reservations", subject, **query)
    return [instance for reservation in reservations for instance in in_rank_order(reservation["Instances"])]


def in_rank_order(instances: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """AmiLaunchIndex counts the instances of one RunInstances from 0."""
    return [dict(one) for one in sorted(instances, key=lambda one: int(one.get("AmiLaunchIndex", 0)))]


def read_by_id(api: Api, region: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Raw instances by id; an id that EC2 does not know is left out."""
    found: list[dict[str, Any]] = []

    def read(batch: Sequence[str]) -> None:
        found.extend(read_instances(api, region, InstanceIds=list(batch)))

    for_known(ids, read)
    return {instance["InstanceId"]: instance for instance in found}


def for_known(ids: Sequence[str], call: Callable[[Sequence[str]], None], size: int = BATCH) -> None:
    """Call with batches of ids. One id that EC2 does not know refuses the whole batch: it is then halved
    until the id stands alone, and skipped. [EC2 API Reference, DescribeInstances]
    """
    waiting = list(_batches(list(dict.fromkeys(ids)), size))
    while waiting:
        batch = waiting.pop()
        try:
            call(batch)
        except ProviderError as error:
            if error.code not in DENIED:
                raise
            half = len(batch) // 2
            waiting.extend(part for part in (batch[half:], batch[:half]) if half)


def _batches(ids: list[str], size: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]


def by_region(refs: Sequence[InstanceRef]) -> dict[str, list[InstanceRef]]:
    regions: dict[str, list[InstanceRef]] = {}
    for ref in refs:
        regions.setdefault(ref.region, []).append(ref)
    return regions


def unreadable(ref: InstanceRef, error: ProviderError) -> CloudInstance:
    """The answer for an instance whose region could not be asked."""
    return CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.UNKNOWN, detail=str(error))


def denied(ref: InstanceRef) -> CloudInstance:
    """The answer for an id that EC2 does not know, or not yet."""
    return CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.ABSENT)
