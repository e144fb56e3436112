"""DescribeInstances, TerminateInstances, CreateTags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from typing import Any

from sandbox.catalogue import catalogue
from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError, missing
from sandbox.faces.ec2.pages import Getter, empty_page, filtered, no_ids_and_pages, page
from sandbox.faces.ec2.shapes import reservation, spot_request_id, state, state_name, state_reason
from sandbox.faces.ec2.tags import tag_map
from sandbox.vm import Vm

_SHOWN_AFTER_END = timedelta(hours=1)
_ID = re.compile(r"i-[0-9a-f]{8}([0-9a-f]{9})?")
_MOST = 1000


def _zone_name(vm: Vm) -> str:
    return catalogue("aws").zones[vm.zone].name


_FILTERS: dict[str, Getter] = {
    "tag:": lambda vm: vm.tags,
    "tag-key": lambda vm: vm.tags,
    "availability-zone": lambda vm: [_zone_name(vm)],
    "availability-zone-id": lambda vm: [vm.zone],
    "client-token": lambda vm: [vm.token],
    "image-id": lambda vm: [vm.extra["image"]],
    "instance-id": lambda vm: [vm.id],
    "instance-lifecycle": lambda vm: ["spot"] if vm.capacity_type == "spot" else [],
    "instance-state-code": lambda vm: [state(vm)["Code"]],
    "instance-state-name": lambda vm: [state_name(vm)],
    "instance-type": lambda vm: [vm.instance_type],
    "placement-group-name": lambda vm: filter(None, [vm.extra["group"]]),
    "private-ip-address": lambda vm: [vm.private_ip],
    "reservation-id": lambda vm: [vm.extra["reservation"]],
    "spot-instance-request-id": lambda vm: filter(None, [spot_request_id(vm)]),
    "state-reason-code": lambda vm: filter(None, [state_reason(vm)]),
    "subnet-id": lambda vm: [vm.extra["subnet"]],
}


def visible(context: Context) -> list[Vm]:
    """The region's instances that reads may show: not before the lag, not after the hour."""
    now = context.world.now()

    def shown(vm: Vm) -> bool:
        late = vm.ended_at is not None and now > vm.ended_at + _SHOWN_AFTER_END
        return vm.region == context.region and vm.visible(now) and not late

    return context.world.vms("aws", shown)


def by_ids(context: Context, ids: Sequence[str]) -> list[Vm]:
    """The instances of those ids; AwsError for the whole batch if one is malformed or not visible."""
    for one in ids:
        if not _ID.fullmatch(one):
            raise AwsError("InvalidInstanceID.Malformed", f'Invalid id: "{one}"')
    known = {vm.id: vm for vm in visible(context)}
    unknown = [one for one in ids if one not in known]
    if unknown:
        raise missing("InvalidInstanceID.NotFound", "instance", unknown)
    return [known[one] for one in dict.fromkeys(ids)]


def describe_instances(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """By ids, filters and pages. A launch's instances are one reservation, unless a page ends in between."""
    no_ids_and_pages(params, "InstanceIds")
    dry_run(params)
    if context.fault is not None and context.fault.action == "empty_page":
        return {"Reservations": [], "NextToken": empty_page(params, "instances")}
    ids = params.get("InstanceIds")
    found = by_ids(context, ids) if ids else visible(context)
    found = filtered(found, params.get("Filters", []), _FILTERS)
    shown, token = page(found, params, "instances", most=_MOST)
    return {"Reservations": list(_reservations(context, shown)), "NextToken": token}


def _reservations(context: Context, vms: Iterable[Vm]) -> Iterable[dict[str, Any]]:
    for _, group in groupby(vms, key=lambda vm: vm.extra["reservation"]):
        yield reservation(context, list(group))


def terminate_instances(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """All of them or, if one id is not known, none. Ending twice is no error."""
    ids = params["InstanceIds"]
    if not ids or len(ids) > _MOST:
        raise AwsError("InvalidParameterValue", f"between 1 and {_MOST} instance ids are allowed")
    vms = by_ids(context, ids)
    dry_run(params)
    changes = []
    for vm in vms:
        before = state(vm)
        context.world.terminate(vm)
        changes.append({"InstanceId": vm.id, "PreviousState": before, "CurrentState": state(vm)})
    return {"TerminatingInstances": changes}


def create_tags(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """On instances and spot requests."""
    tags = tag_map(params["Tags"])
    instances = by_ids(context, [one for one in params["Resources"] if one.startswith("i-")])
    by_request = {spot_request_id(vm): vm for vm in visible(context) if vm.capacity_type == "spot"}
    requests = [one for one in params["Resources"] if not one.startswith("i-")]
    unknown = [one for one in requests if one not in by_request]
    if unknown:
        raise AwsError("InvalidID", f"The ID '{unknown[0]}' is not valid")
    dry_run(params)
    for vm in instances:
        vm.tags.update(tags)
    for one in requests:
        by_request[one].extra["request_tags"].update(tags)
    return {}
