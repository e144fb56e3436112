"""Cluster placement groups: one for each gang that wants its nodes close together, named after its launch.

A group costs nothing and cannot be deleted while an instance of it is there, so it is deleted when the gang
is ended and, where that was too early, found again by the listing. [EC2 User Guide, "Placement groups";
EC2 API Reference, CreatePlacementGroup, DeletePlacementGroup]
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from providers.aws.api import Api
from providers.aws.error_table import About
from providers.aws.errors import scope_about
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CloudInstance, InstanceRef, InstanceState, LaunchRequest, Scope

DUPLICATE, UNKNOWN = "InvalidPlacementGroup.Duplicate", "InvalidPlacementGroup.Unknown"
IN_USE = "InvalidPlacementGroup.InUse"
MADE_AT = "corral-made-at"
_OF_GROUPS_ONLY = frozenset({ErrorKind.AUTH, ErrorKind.QUOTA, ErrorKind.INVALID_REQUEST})
_OURS = re.compile(r"corral-[0-9a-f]{20}")


def name_of(token: str) -> str:
    """The group of a launch."""
    return f"corral-{token[:20]}"


def is_ours(name: str) -> bool:
    """Whether a name, or the id of something to end, is that of a group of ours."""
    return _OURS.fullmatch(name) is not None


def of_instance(raw: Mapping[str, Any]) -> str | None:
    """The group that was made for an instance's launch; None if it is in none, or in somebody else's."""
    name = str(raw.get("Placement", {}).get("GroupName") or "")
    return name if name and name == name_of(raw.get("ClientToken", "")) else None


def create(api: Api, request: LaunchRequest, subject: Scope, now: datetime) -> None:
    """Make the launch's group, or find it there, and see that it can be used. Repeating is harmless. What is
    refused speaks of this offer alone: launches without a group go on.
    """
    try:
        api.repeat(lambda: _make(api, request, subject, now))
        api.repeat(lambda: _must_be_ready(api, request, subject))
    except ProviderError as error:
        if error.kind in _OF_GROUPS_ONLY:
            error.scope = scope_about(About.OFFER, subject)
        raise


def _make(api: Api, request: LaunchRequest, subject: Scope, now: datetime) -> None:
    name = name_of(request.token)
    tags = {"Name": name, MADE_AT: str(int(now.timestamp())), **request.tags}
    pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    try:
        api.write(
            "ec2",
            request.offer.region,
            "create_placement_group",
            subject,
            GroupName=name,
            Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": pairs}],
        )
    except ProviderError as error:
        if error.code != DUPLICATE:
            raise


def _must_be_ready(api: Api, request: LaunchRequest, subject: Scope) -> None:
    name = name_of(request.token)
    found = _read(api, request.offer.region, [{"Name": "group-name", "Values": [name]}])
    if [group.get("State") for group in found] != ["available"]:
        message = f"placement group {name} is not ready yet"
        raise ProviderError(ErrorKind.TRANSIENT, message, scope=scope_about(About.OFFER, subject))


def delete(api: Api, region: str, names: Iterable[str]) -> None:
    """Delete groups. One that is gone is done; one that still has instances is left for the next time."""
    for name in sorted(set(names)):
        try:
            api.repeat(partial(_send, api, region, name))
        except ProviderError as error:
            if error.code not in (UNKNOWN, IN_USE):
                raise


def _send(api: Api, region: str, name: str) -> None:
    api.write("ec2", region, "delete_placement_group", GroupName=name)


def delete_quietly(api: Api, region: str, token: str) -> None:
    """Delete the group of a launch that was refused. What cannot be deleted now is found by the listing."""
    try:
        delete(api, region, [name_of(token)])
    except ProviderError:
        return


def see(api: Api, region: str) -> None:
    """Raise ProviderError unless groups may be read."""
    _read(api, region, [{"Name": "group-name", "Values": ["corral-check"]}])


def leftovers(api: Api, region: str, tag: str, value: str) -> list[Mapping[str, Any]]:
    """Our groups in a region, by the tag that all of ours bear. None where they cannot be read: they cost
    nothing, and an account that launches without `fabric` need not allow it.
    """
    try:
        found = _read(api, region, [{"Name": f"tag:{tag}", "Values": [value]}])
    except ProviderError:
        return []
    return [group for group in found if is_ours(group["GroupName"])]


def with_leftovers(
    region: str,
    found: Sequence[Mapping[str, Any]],
    listed: Sequence[CloudInstance],
    groups: Iterable[Mapping[str, Any]],
) -> Iterator[CloudInstance]:
    """The instances of a listing (`listed`, and raw `found`, one to one), with the groups that outlived their
    gang: the first instance that is over shows as stopping, so that ending it again removes the group. One
    whose instances EC2 has forgotten stands for itself.
    """
    members: dict[str, list[CloudInstance]] = defaultdict(list)
    for raw, one in zip(found, listed, strict=True):
        members[of_instance(raw) or ""].append(one)
    stopping: set[str] = set()
    forgotten = []
    for group in groups:
        gang = members.get(group["GroupName"], [])
        if not gang:
            forgotten.append(shown(group, region, ""))
        elif all(one.state is InstanceState.TERMINATED for one in gang):
            stopping.add(gang[0].provider_id)
    for one in listed:
        yield replace(one, state=InstanceState.STOPPING) if one.provider_id in stopping else one
    yield from forgotten


def describe(api: Api, ref: InstanceRef) -> CloudInstance:
    """A group as the instance that is left of its gang."""
    found = _read(api, ref.region, [{"Name": "group-name", "Values": [ref.provider_id]}])
    if not found:
        return CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.ABSENT)
    return shown(found[0], ref.region, ref.zone)


def shown(group: Mapping[str, Any], region: str, zone: str) -> CloudInstance:
    """`stopping` until it is deleted, which `terminate` does by the id that this gives it."""
    tags = {tag["Key"]: tag["Value"] for tag in group.get("Tags", ())}
    made_at = tags.get(MADE_AT, "")
    over = group.get("State") == "deleted"
    return CloudInstance(
        provider_id=group["GroupName"],
        region=region,
        zone=zone,
        state=InstanceState.ABSENT if over else InstanceState.STOPPING,
        name=group["GroupName"],
        tags=tags,
        created_at=datetime.fromtimestamp(int(made_at), UTC) if made_at.isdigit() else None,
        detail=f"placement group {group['GroupName']} without instances",
    )


def _read(api: Api, region: str, filters: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    answer = api.read("ec2", region, "describe_placement_groups", Filters=filters)
    found: list[Mapping[str, Any]] = answer.get("PlacementGroups", [])
    return found
