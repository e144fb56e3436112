"""Spot requests behind instances: DescribeSpotInstanceRequests, CancelSpotInstanceRequests.

Status codes from the EC2 User Guide, "Get the status of a Spot Instance request".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import missing
from sandbox.faces.ec2.pages import Getter, filtered, page
from sandbox.faces.ec2.shapes import spot_request_id, tags
from sandbox.vm import Vm

_SHOWN_AFTER_END = timedelta(hours=4)
_ENDED = {
    "user": "instance-terminated-by-user",
    "instance": "instance-terminated-by-user",
    "preempted": "instance-terminated-no-capacity",
    "host_failure": "instance-terminated-by-service",
    "max_age": "instance-terminated-by-schedule",
}
_CANCELLED = "spot_cancelled"

_FILTERS: dict[str, Getter] = {
    "tag:": lambda vm: vm.extra["request_tags"],
    "instance-id": lambda vm: [vm.id],
    "spot-instance-request-id": lambda vm: [spot_request_id(vm)],
    "state": lambda vm: [_state(vm)],
    "status-code": lambda vm: [_status(vm)],
}


def _visible(context: Context) -> list[Vm]:
    now = context.world.now()

    def shown(vm: Vm) -> bool:
        late = vm.ended_at is not None and now > vm.ended_at + _SHOWN_AFTER_END
        spot = vm.region == context.region and vm.capacity_type == "spot"
        return spot and vm.visible(now) and not late

    return context.world.vms("aws", shown)


def _by_ids(context: Context, ids: Sequence[str]) -> list[Vm]:
    known = {spot_request_id(vm): vm for vm in _visible(context)}
    unknown = [one for one in ids if one not in known]
    if unknown:
        raise missing("InvalidSpotInstanceRequestID.NotFound", "spot instance request", unknown)
    return [known[one] for one in dict.fromkeys(ids)]


def _state(vm: Vm) -> str:
    if vm.extra.get(_CANCELLED):
        return "cancelled"
    return "closed" if vm.state == "terminated" else "active"


def _status(vm: Vm) -> str:
    if vm.end_reason is not None:
        return _ENDED[vm.end_reason]
    if vm.extra.get(_CANCELLED):
        return "request-canceled-and-instance-running"
    return "marked-for-termination" if vm.notice_deadline is not None else "fulfilled"


def describe(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """By ids, filters and pages."""
    dry_run(params)
    ids = params.get("SpotInstanceRequestIds")
    found = _by_ids(context, ids) if ids else _visible(context)
    found = filtered(found, params.get("Filters", []), _FILTERS)
    shown, token = page(found, params, "spot-requests")
    return {"SpotInstanceRequests": [_request(context, vm) for vm in shown], "NextToken": token}


def _request(context: Context, vm: Vm) -> dict[str, Any]:
    changed = vm.ending_at or vm.noticed_at or vm.created_at
    return {
        "SpotInstanceRequestId": spot_request_id(vm),
        "InstanceId": vm.id,
        "State": _state(vm),
        "Status": {"Code": _status(vm), "Message": _status(vm), "UpdateTime": changed},
        "CreateTime": vm.created_at,
        "LaunchedAvailabilityZone": context.table.zones[vm.zone].name,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": f"{vm.max_price:.6f}" if vm.max_price is not None else None,
        "Type": "one-time",
        "InstanceInterruptionBehavior": "stop" if vm.eviction == "stop" else "terminate",
        "Tags": tags(vm.extra["request_tags"]),
    }


def cancel(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The request is over; its instance goes on. Cancelling twice is no error."""
    vms = _by_ids(context, params["SpotInstanceRequestIds"])
    dry_run(params)
    answers = []
    for vm in vms:
        request = str(spot_request_id(vm))
        if context.world.release("aws", "spot_request", request):
            vm.extra[_CANCELLED] = True
        answers.append({"SpotInstanceRequestId": request, "State": _state(vm)})
    return {"CancelledSpotInstanceRequests": answers}
