"""Microsoft.Compute/capacityReservationGroups: the world's reservations, `group/name` or one group each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.render import zone_names
from sandbox.faces.arm.state import GROUP, Face, id_of, resource_id
from sandbox.ledger import stamp
from sandbox.reservations import Reservation
from sandbox.vm import Vm

GROUPS = "Microsoft.Compute/capacityReservationGroups"
_GROUP_ID = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute"
    r"/capacityReservationGroups/(?P<name>[^/]+)$",
    re.IGNORECASE,
)


def groups(face: Face, call: Call) -> Response:
    """All groups of the subscription; what is in them by id only."""
    names = dict.fromkeys(_names(one)[0] for one in _all(face))
    return listing(call, [_group(face, call, name) for name in names])


def group(face: Face, call: Call) -> Response:
    """One group, with `$expand=instanceView` how much of each reservation is in use."""
    _must_be(face, call)
    body = _group(face, call, call.path["name"])
    if "instanceview" in call.query.get("$expand", "").lower():
        views = [{"name": _names(one)[1], **_view(face, one)} for one in _in(face, call.path["name"])]
        body["properties"]["instanceView"] = {"capacityReservations": views}
    return JSONResponse(body)


def members(face: Face, call: Call) -> Response:
    """The reservations of a group; no instance views."""
    _must_be(face, call)
    return listing(call, [_reservation(face, call, one) for one in _in(face, call.path["name"])])


def member(face: Face, call: Call) -> Response:
    """One reservation, with `$expand=instanceView` its use."""
    _must_be(face, call)
    for one in _in(face, call.path["name"]):
        if _names(one)[1].lower() == call.path["reservation"].lower():
            body = _reservation(face, call, one)
            if "instanceview" in call.query.get("$expand", "").lower():
                body["properties"]["instanceView"] = _view(face, one)
            return JSONResponse(body)
    raise missing(f"{GROUPS}/{call.path['name']}/capacityReservations", call.path["reservation"], call.group)


def named(face: Face, group_id: str, zone: str, size: str) -> Reservation:
    """The reservation that a machine which names the group may use; ArmError where there is none."""
    found = _GROUP_ID.match(group_id)
    inside = _in(face, found["name"]) if found and found["group"].lower() == GROUP else []
    if not inside:
        text = f"Resource {group_id} referenced by the virtual machine was not found."
        raise ArmError(400, "InvalidResourceReference", text)
    for one in inside:
        if (one.zone, one.instance_type) == (zone, size):
            return one
    text = f"The capacity reservation group {group_id} has no reservation of {size} in that zone."
    raise ArmError(400, "BadRequest", text, target="capacityReservation")


def _all(face: Face) -> list[Reservation]:
    """What exists as a resource: a plain one that has ended was deleted, a block that has ended stays."""
    now = face.world.now()
    every = [one for one, _ in face.world.reservations("azure")]
    return [one for one in every if one.kind == "block" or one.state(now) != "ended"]


def _names(one: Reservation) -> tuple[str, str]:
    group, _, name = one.name.partition("/")
    return group, name or group


def _in(face: Face, group: str) -> list[Reservation]:
    return [one for one in _all(face) if _names(one)[0].lower() == group.lower()]


def _must_be(face: Face, call: Call) -> None:
    if call.group.lower() != GROUP or not _in(face, call.path["name"]):
        raise missing(GROUPS, call.path["name"], call.group)


def _path(call: Call, group: str) -> str:
    return resource_id(call.subscription, GROUP, GROUPS, group)


def _group(face: Face, call: Call, name: str) -> dict[str, Any]:
    inside = _in(face, name)
    zones = sorted({zone for one in inside for zone in zone_names(one.zone)})
    kind = "Block" if inside[0].kind == "block" else "Targeted" if inside[0].targeted else "Open"
    path = _path(call, _names(inside[0])[0])
    ids = [{"id": f"{path}/capacityReservations/{_names(one)[1]}"} for one in inside]
    body: dict[str, Any] = {
        "id": path,
        "name": _names(inside[0])[0],
        "type": GROUPS,
        "location": inside[0].region,
        "properties": {"capacityReservations": ids, "reservationType": kind},
    }
    return {**body, "zones": zones} if zones else body


def _reservation(face: Face, call: Call, one: Reservation) -> dict[str, Any]:
    group, name = _names(one)
    facts: dict[str, Any] = {
        "provisioningState": "Succeeded",
        "timeCreated": stamp(one.made_at),
        "provisioningTime": stamp(one.made_at),
        "virtualMachinesAssociated": [{"id": id_of(vm)} for vm in _associated(face, call, one)],
    }
    if one.kind == "block" or one.starts_at > one.made_at:
        facts["scheduleProfile"] = {"start": stamp(one.starts_at)}
        if one.ends_at is not None:
            facts["scheduleProfile"]["end"] = stamp(one.ends_at)
    body: dict[str, Any] = {
        "id": f"{_path(call, group)}/capacityReservations/{name}",
        "name": name,
        "type": f"{GROUPS}/capacityReservations",
        "location": one.region,
        "sku": {"name": one.instance_type, "capacity": one.count},
        "properties": facts,
    }
    zones = zone_names(one.zone)
    return {**body, "zones": zones} if zones else body


def _view(face: Face, one: Reservation) -> dict[str, Any]:
    inside = _machines(face, lambda vm: vm.reservation == one.name)
    allocated = [{"id": id_of(vm)} for vm in inside]
    return {
        "utilizationInfo": {"currentCapacity": one.count, "virtualMachinesAllocated": allocated},
        "statuses": [{"code": "ProvisioningState/succeeded", "level": "Info"}],
    }


def _associated(face: Face, call: Call, one: Reservation) -> list[Vm]:
    """Machines that name the group, whether they found room or not."""
    path = _path(call, _names(one)[0]).lower()
    place = (one.zone, one.instance_type)
    return _machines(
        face, lambda vm: (vm.zone, vm.instance_type) == place and vm.extra.get("reservation_group") == path
    )


def _machines(face: Face, fits: Callable[[Vm], bool]) -> list[Vm]:
    return face.world.vms("azure", lambda vm: vm.live and fits(vm))
