"""Microsoft.Compute/virtualMachines: read, list, delete, simulateEviction, operations."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.operations import End
from sandbox.faces.arm.render import failed_machine, machine
from sandbox.faces.arm.state import Face, key
from sandbox.vm import Vm


def accepted(face: Face, call: Call, location: str, now: Any, outcome: Any) -> dict[str, str]:
    """The headers of an answer that promises an outcome."""
    identity = face.operations.start(location, now, outcome)
    if call.fault is not None and call.fault.action == "lost":
        face.operations.forget(identity)
    return {"Azure-AsyncOperation": operation_url(call, location, identity), "Retry-After": "0"}


def operation_url(call: Call, location: str, identity: str) -> str:
    """Where an operation is asked after; absolute, as clients follow it as it is."""
    return (
        f"{call.base}/subscriptions/{call.subscription}/providers/Microsoft.Compute/locations/{location}"
        f"/operations/{identity}?api-version={call.query.get('api-version', '')}"
    )


def get(face: Face, call: Call) -> Response:
    """One machine, with `$expand=instanceView` its power state."""
    view = "instanceview" in call.query.get("$expand", "").lower()
    return JSONResponse(_read(face, call, view=view))


def view(face: Face, call: Call) -> Response:
    """The instance view alone."""
    return JSONResponse(_read(face, call, view=True)["properties"]["instanceView"])


def _read(face: Face, call: Call, *, view: bool) -> dict[str, Any]:
    name, now = call.path["name"], face.world.now()
    failed = face.failed.get(key(call.subscription, call.group, name))
    if failed is not None:
        return failed_machine(failed, now, view=view)
    vm = face.vm(call.subscription, call.group, name)
    if vm is None or not vm.visible(now):
        raise missing("Microsoft.Compute/virtualMachines", name, call.group)
    return machine(vm, now, view=view, shown=call.shown)


def in_group(face: Face, call: Call) -> Response:
    """The machines of a resource group; no instance views."""
    return listing(call, _rows(face, call, group=call.group))


def in_subscription(face: Face, call: Call) -> Response:
    """All machines, with `statusOnly=true` their instance views."""
    status = call.query.get("statusOnly", "").lower() == "true"
    return listing(call, _rows(face, call, view=status))


def in_location(face: Face, call: Call) -> Response:
    """The machines of a region."""
    rows = _rows(face, call)
    return listing(call, [row for row in rows if row["location"] == call.path["location"].lower()])


def _rows(face: Face, call: Call, *, group: str | None = None, view: bool = False) -> list[dict[str, Any]]:
    now, subscription = face.world.now(), call.subscription.lower()

    def ours(vm: Vm) -> bool:
        mine = vm.extra["subscription"].lower() == subscription
        inside = group is None or vm.extra["resource_group"].lower() == group.lower()
        return vm.live and vm.visible(now) and mine and inside

    rows = [machine(vm, now, view=view) for vm in face.world.vms("azure", ours)]
    doomed = [failed for failed in list(face.failed.values()) if failed.subscription.lower() == subscription]
    inside = [failed for failed in doomed if group is None or failed.group.lower() == group.lower()]
    return rows + [failed_machine(failed, now, view=view) for failed in inside]


def delete(face: Face, call: Call) -> Response:
    """202 and an operation, 204 if there is nothing of the name."""
    name, world = call.path["name"], face.world
    with face.lock:
        failed = face.failed.pop(key(call.subscription, call.group, name), None)
        vm = face.vm(call.subscription, call.group, name)
        if vm is not None:
            world.terminate(vm)
    if failed is None and vm is None:
        return Response(status_code=204)
    location = vm.region if vm is not None else (failed.location if failed else "")

    def outcome() -> End | None:
        if vm is not None:
            return None if vm.live else End(vm.ended_at or world.now())
        return End(world.now())

    headers = accepted(face, call, location, world.now(), outcome)
    return Response(status_code=202, headers={**headers, "Location": headers["Azure-AsyncOperation"]})


def simulate_eviction(face: Face, call: Call) -> Response:
    """Take a spot machine away, with the notice that a real eviction gives."""
    vm = face.vm(call.subscription, call.group, call.path["name"])
    if vm is None:
        raise missing("Microsoft.Compute/virtualMachines", call.path["name"], call.group)
    if vm.capacity_type != "spot":
        text = "Eviction can be simulated only for Azure Spot Virtual Machines."
        raise ArmError(409, "OperationNotAllowed", text)
    face.world.preempt(vm)
    return Response(status_code=204)


def operation(face: Face, call: Call) -> Response:
    """How an accepted create or delete stands."""
    found = face.operations.read(call.path["location"], call.path["id"])
    if found is None:
        raise ArmError(404, "NotFound", f"The operation '{call.path['id']}' was not found.")
    return JSONResponse(found, headers={"Retry-After": "0"} if found["status"] == "InProgress" else None)
