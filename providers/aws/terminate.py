"""The end of instances, with the spot requests that outlive them for a while and count against the quota."""

from __future__ import annotations

from collections.abc import Sequence

from providers.aws.api import Api
from providers.aws.instances import for_known, read_by_id
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceRef

GONE = frozenset({"shutting-down", "terminated"})


def terminate(api: Api, region: str, refs: Sequence[InstanceRef]) -> None:
    """All refs are of the region. Disks and interfaces were launched to go with their instance."""
    for_known([ref.provider_id for ref in refs], lambda ids: _end(api, region, ids))
    spot = [ref.provider_id for ref in refs if ref.capacity_type is CapacityType.SPOT]
    if spot:
        _cancel(api, region, spot)


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


def _cancel(api: Api, region: str, ids: Sequence[str]) -> None:
    """A request that is no longer known needs no cancelling."""
    instances = read_by_id(api, region, ids).values()
    requests = sorted({i["SpotInstanceRequestId"] for i in instances if i.get("SpotInstanceRequestId")})
    for_known(requests, lambda batch: api.repeat(lambda: _send_cancel(api, region, batch)))


def _send_cancel(api: Api, region: str, requests: Sequence[str]) -> None:
    api.write("ec2", region, "cancel_spot_instance_requests", SpotInstanceRequestIds=list(requests))
