"""Microsoft.Compute/virtualMachines: a PUT, which creates a machine or changes one."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call
from sandbox.faces.arm.images import must_exist, terms_must_be_met
from sandbox.faces.arm.machines import accepted
from sandbox.faces.arm.network import must_have_address, must_have_subnet
from sandbox.faces.arm.operations import End
from sandbox.faces.arm.refusals import at_once, later
from sandbox.faces.arm.render import failed_machine, machine
from sandbox.faces.arm.reservations import named
from sandbox.faces.arm.sets import must_take
from sandbox.faces.arm.state import Face, FailedVm, key
from sandbox.faces.arm.wanted import Wanted, wanted
from sandbox.faults import flatten
from sandbox.vm import Vm
from sandbox.world import Refusal

CREATE = "VirtualMachines_CreateOrUpdate"
#: Fault rules for this call end an accepted create badly, instead of refusing it.
CREATE_OPERATION = f"{CREATE}/operation"


def create(face: Face, call: Call) -> Response:
    """PUT: a new machine (201), or an update of one that is there (200)."""
    name = call.path["name"]
    if not face.group_exists(call.subscription, call.group):
        text = f"Resource group '{call.group}' could not be found."
        raise ArmError(404, "ResourceGroupNotFound", text)
    with face.lock:
        there = face.vm(call.subscription, call.group, name)
        failed = face.failed.get(key(call.subscription, call.group, name))
        if there is not None or failed is not None:
            return _again(face, call, there, failed)
        asked = wanted(name, call.body)
        must_exist(face, asked.image, asked.location)
        terms_must_be_met(face, call.body, call.subscription)
        must_have_subnet(face, asked.card.subnet, asked.location)
        if asked.card.address is not None:
            must_have_address(face, asked.location)
        if asked.availability_set:
            must_take(face, asked.availability_set, asked.location, call.body)
        return _create(face, call, name, asked)


def _create(face: Face, call: Call, name: str, asked: Wanted) -> Response:
    world = face.world
    scripted = world.fault("azure", CREATE_OPERATION, {**call.path, **flatten(call.body)})
    if scripted is not None and scripted.action == "error":
        message = scripted.message or "scripted failure"
        return _doomed(face, call, name, asked, {"code": scripted.code, "message": message})
    try:
        vm = _allocate(face, call, name, asked)
    except Refusal as refusal:
        error = at_once(refusal)
        if error is not None:
            raise error from refusal
        return _doomed(face, call, name, asked, later(refusal))
    vm.extra["stuck"] = call.fault is not None and call.fault.action == "stuck"
    verdict = vm.created_at + timedelta(seconds=world.timings("azure").verdict_seconds)

    def outcome() -> End | None:
        if vm.extra["stuck"] or world.now() < verdict or vm.state == "pending":
            return None
        if vm.running_at is None:
            preempted = {"code": "OperationPreempted", "message": _PREEMPTED}
            return End(vm.ending_at or world.now(), "Canceled", preempted)
        return End(max(verdict, vm.running_at))

    headers = accepted(face, call, asked.location, vm.created_at, outcome)
    return JSONResponse(machine(vm, world.now(), view=False), 201, headers=headers)


_PREEMPTED = "Operation execution has been preempted by a more recent operation."


def _allocate(face: Face, call: Call, name: str, asked: Wanted) -> Vm:
    """A machine. One that names a full reservation stands on the open market, except a block's."""
    if asked.reservation_group is None:
        return _made(face, call, name, asked, None)
    reservation = named(face, asked.reservation_group, asked.zone, asked.size)
    try:
        return _made(face, call, name, asked, reservation.name)
    except Refusal as refusal:
        if refusal.kind != "reservation" or reservation.kind == "block":
            raise
    return _made(face, call, name, asked, None)


def _made(face: Face, call: Call, name: str, asked: Wanted, reservation: str | None) -> Vm:
    card = asked.card
    kept = {"disk": asked.keep_disk, "nic": card.keep, "address": card.keep_address}
    patterns = {"disk": _literal(asked.disk), "nic": f"{_literal(card.name)}-{{short}}"}
    if card.address is not None:
        patterns["address"] = f"{_literal(card.address)}-{{short}}"
    made = face.world.allocate(
        "azure",
        region=asked.location,
        zone=asked.zone,
        instance_type=asked.size,
        capacity_type=asked.capacity_type,
        names=[name],
        token=asked.tags.get("corral-token", ""),
        tags=asked.tags,
        user_data=asked.user_data,
        public_ip=card.address is not None,
        max_price=asked.max_price,
        reservation=reservation,
        matching=asked.takes_open,
        poweroff="stop",
        eviction="stop" if asked.deallocate else "delete",
        keep=[kind for kind, keeps in kept.items() if keeps],
        objects=patterns,
        extra={
            "subscription": call.subscription,
            "resource_group": call.group,
            "body": call.body,
            "card": card,
            "reservation_group": (asked.reservation_group or "").lower(),
        },
    )
    return made[0]


def _literal(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


def _doomed(face: Face, call: Call, name: str, asked: Wanted, error: dict[str, str]) -> Response:
    """Accepted, and refused at the end of the operation: the resource stays, in state Failed."""
    now = face.world.now()
    failed = FailedVm(
        name=name,
        subscription=call.subscription,
        group=call.group,
        vm_id=str(uuid.uuid4()),
        zone=asked.zone,
        location=asked.location,
        body=call.body,
        created_at=now,
        fails_at=now + timedelta(seconds=face.world.timings("azure").verdict_seconds),
        error=error,
    )
    face.failed[key(call.subscription, call.group, name)] = failed

    def outcome() -> End | None:
        over = face.world.now() >= failed.fails_at
        return End(failed.fails_at, "Failed", error) if over else None

    headers = accepted(face, call, asked.location, now, outcome)
    return JSONResponse(failed_machine(failed, now, view=False), 201, headers=headers)


def _again(face: Face, call: Call, there: Vm | None, failed: FailedVm | None) -> Response:
    """A PUT of a name that is taken."""
    name = call.path["name"]
    if call.headers.get("if-none-match") == "*":
        text = f"The resource '{name}' already exists: the condition If-None-Match: * is not met."
        raise ArmError(412, "PreconditionFailed", text)
    old: Mapping[str, Any] = there.extra["body"] if there is not None else (failed.body if failed else {})
    asked = wanted(name, call.body)
    location = there.region if there is not None else (failed.location if failed else "")
    if asked.location != location:
        text = (
            f"The resource '{name}' already exists in location '{location}' in resource group "
            f"'{call.group}'. A resource with the same name cannot be created in location "
            f"'{asked.location}'. Please select a new resource name."
        )
        raise ArmError(409, "InvalidResourceLocation", text)
    for target, read in _FIXED.items():
        if read(old) != read(call.body):
            raise ArmError(
                409,
                "PropertyChangeNotAllowed",
                f"Changing property '{target}' is not allowed.",
                target=target,
            )
    now = face.world.now()
    if there is not None:
        return JSONResponse(machine(there, now, view=False), 200)
    assert failed is not None  # noqa: S101 - one of the two bears the name
    return JSONResponse(failed_machine(failed, now, view=False), 200)


def _at(*path: str) -> Any:
    def read(body: Mapping[str, Any]) -> Any:
        value: Any = body
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    return read


# What cannot be changed by a second PUT.
_FIXED = {
    "zones": _at("zones"),
    "osProfile.customData": _at("properties", "osProfile", "customData"),
    "osProfile.computerName": _at("properties", "osProfile", "computerName"),
    "imageReference": _at("properties", "storageProfile", "imageReference"),
    "priority": _at("properties", "priority"),
    "availabilitySet": _at("properties", "availabilitySet"),
}
