"""The end of instances, with the spot requests that outlive them for a while and count against the quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.aws import leftovers, placement_groups
from providers.aws.api import Api
from providers.aws.instances import for_known, read_by_id
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceRef

GONE = frozenset({"shutting-down", "terminated"})


def terminate(api: Api, region: str, refs: Sequence[InstanceRef]) -> None:
    """All refs are of the region. Disks and interfaces were launched to go with their instance; a placement
    group goes once the last instance of its gang is gone. A ref may name what was left behind, too.
    """
    left = {ref.provider_id for ref in refs if leftovers.is_one(ref.provider_id)}
    instances = [ref for ref in refs if ref.provider_id not in left]
    for_known([ref.provider_id for ref in instances], lambda ids: _end(api, region, ids))
    spot = {ref.provider_id for ref in refs if ref.capacity_type is CapacityType.SPOT}
    found = _found(api, region, [ref.provider_id for ref in instances], needed=bool(spot))
    _cancel(api, region, [raw for raw in found if raw["InstanceId"] in spot])
    left.update(filter(None, map(placement_groups.of_instance, found)))
    leftovers.end(api, region, sorted(left))


def _found(api: Api, region: str, ids: Sequence[str], *, needed: bool) -> list[Mapping[str, Any]]:
    """The instances as they are now. Without spot requests to cancel it may fail: the end was ordered, and a
    group that is left shows in the listing.
    """
    if not ids:
        return []
    try:
        return list(read_by_id(api, region, ids).values())
    except ProviderError:
        if needed:
            raise
        return []


def _end(api: Api, region: str, ids: Sequence[str]) -> None:
    try:
        api.repeat(lambda: _send(api, region, ids))
    except ProviderError as error:
        # A permission that depends on a tag is refused once the instance, and its tags, are gone.
        if error.kind is not ErrorKind.AUTH or not _all_gone(api, region, ids):
            raise


def _send(api: Api, region: str, ids: Sequence[str]) -> None:
    api.write("ec2", region, "terminate_instances", InstanceIds=list(ids))


def _all_gone(api: Api, region: str, ids: Sequence[str]) -> bool:
    found = read_by_id(api, region, ids)
    return all(instance["State"]["Name"] in GONE for instance in found.values())


def _cancel(api: Api, region: str, instances: Iterable[Mapping[str, Any]]) -> None:
    """A request that is no longer known needs no cancelling."""
    requests = sorted({i["SpotInstanceRequestId"] for i in instances if i.get("SpotInstanceRequestId")})
    for_known(requests, lambda batch: api.repeat(lambda: _send_cancel(api, region, batch)))


def _send_cancel(api: Api, region: str, requests: Sequence[str]) -> None:
    api.write("ec2", region, "cancel_spot_instance_requests", SpotInstanceRequestIds=list(requests))
