"""What is left of a gang whose instances are gone: disks, spot requests, placement groups. Each goes with its
instance by what the launch asked for; this finds what stayed behind all the same, by the tag that it bears.

An interface goes with its instance, too, and costs nothing. [EC2 API Reference, Volume, SpotInstanceRequest]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from providers.aws import placement_groups
from providers.aws.api import Api
from providers.errors import ProviderError
from providers.vocabulary import CloudInstance, InstanceRef, InstanceState


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects that can be left behind. idle: the filter that tells those from what is in use. gone: the codes
    by which EC2 says that nothing is to be done, or not yet.
    """

    prefix: str
    describe: str
    key: str
    id_field: str
    id_filter: str
    idle: tuple[str, str]
    delete: str
    gone: frozenset[str]
    many: bool = False


KINDS = (
    Kind(
        prefix="vol-",
        describe="describe_volumes",
        key="Volumes",
        id_field="VolumeId",
        id_filter="volume-id",
        idle=("status", "available"),
        delete="delete_volume",
        gone=frozenset({"InvalidVolume.NotFound", "VolumeInUse", "IncorrectState"}),
    ),
    Kind(
        prefix="sir-",
        describe="describe_spot_instance_requests",
        key="SpotInstanceRequests",
        id_field="SpotInstanceRequestId",
        id_filter="spot-instance-request-id",
        idle=("state", "open"),
        delete="cancel_spot_instance_requests",
        gone=frozenset({"InvalidSpotInstanceRequestID.NotFound"}),
        many=True,
    ),
)


def kind_of(provider_id: str) -> Kind | None:
    """The kind of a disk or a spot request, by its id."""
    return next((kind for kind in KINDS if provider_id.startswith(kind.prefix)), None)


def is_one(provider_id: str) -> bool:
    """Whether an id names something else than an instance."""
    return placement_groups.is_ours(provider_id) or kind_of(provider_id) is not None


def listed(api: Api, region: str, tag: str, value: str) -> list[CloudInstance]:
    """Idle disks and open spot requests of a deployment, as instances that are stopping. A kind that may not
    be read is left out: `check` tells.
    """
    found: list[CloudInstance] = []
    for kind in KINDS:
        try:
            found.extend(_listed(api, region, kind, {f"tag:{tag}": value, kind.idle[0]: kind.idle[1]}))
        except ProviderError:
            continue
    return found


def see(api: Api, region: str) -> None:
    """Raise ProviderError unless every kind may be read."""
    for kind in KINDS:
        _listed(api, region, kind, {"tag:corral-deployment": "check"})
    placement_groups.see(api, region)


def describe(api: Api, ref: InstanceRef) -> CloudInstance:
    """`stopping` while it is there, `absent` when it is not."""
    kind = kind_of(ref.provider_id)
    if kind is None:
        return placement_groups.describe(api, ref)
    wanted = {kind.id_filter: ref.provider_id, kind.idle[0]: kind.idle[1]}
    absent = CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.ABSENT)
    return next(iter(_listed(api, ref.region, kind, wanted)), absent)


def end(api: Api, region: str, ids: Iterable[str]) -> None:
    """Delete each. What is in use again, or gone, is passed over."""
    for one in ids:
        kind = kind_of(one)
        if kind is None:
            placement_groups.delete(api, region, [one])
            continue
        try:
            api.repeat(partial(_delete, api, region, kind, one))
        except ProviderError as error:
            if error.code not in kind.gone:
                raise


def _delete(api: Api, region: str, kind: Kind, one: str) -> None:
    target = {f"{kind.id_field}s": [one]} if kind.many else {kind.id_field: one}
    api.write("ec2", region, kind.delete, None, **target)


def _listed(api: Api, region: str, kind: Kind, wanted: Mapping[str, str]) -> list[CloudInstance]:
    filters = [{"Name": name, "Values": [value]} for name, value in wanted.items()]
    pages = api.pages("ec2", region, kind.describe, kind.key, Filters=filters, MaxResults=500)
    return [_shown(raw, kind, region) for raw in pages]


def _shown(raw: Mapping[str, Any], kind: Kind, region: str) -> CloudInstance:
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    return CloudInstance(
        provider_id=raw[kind.id_field],
        region=region,
        zone=raw.get("AvailabilityZoneId") or "",
        state=InstanceState.STOPPING,
        name=tags.get("Name", ""),
        tags=tags,
        created_at=raw.get("CreateTime"),
        detail=f"{raw[kind.id_field]} without an instance",
    )
