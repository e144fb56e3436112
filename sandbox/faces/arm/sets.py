"""Microsoft.Compute/availabilitySets: machines that stand together, and reach each other over InfiniBand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.state import AvailabilitySet, Face, id_of, key, resource_id
from sandbox.vm import Vm

SETS = "Microsoft.Compute/availabilitySets"
_FAULT_DOMAINS = 3


def create(face: Face, call: Call) -> Response:
    """A new set (201), or the one that is there (200); what it was made with cannot be changed."""
    if not face.group_exists(call.subscription, call.group):
        raise ArmError(404, "ResourceGroupNotFound", f"Resource group '{call.group}' could not be found.")
    facts = call.body.get("properties") or {}
    domains = facts.get("platformFaultDomainCount", 2)
    location = str(call.body.get("location") or "").lower()
    if location not in catalogue("azure").regions:
        raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
    if not 1 <= int(domains) <= _FAULT_DOMAINS:
        text = f"The specified fault domain count {domains} must fall in the range 1 to {_FAULT_DOMAINS}."
        raise ArmError(400, "InvalidParameter", text, target="platformFaultDomainCount")
    with face.lock:
        where = key(call.subscription, call.group, call.path["name"])
        known = face.sets.get(where)
        if known is not None and known.location != location:
            text = f"The resource '{known.name}' already exists in location '{known.location}'."
            raise ArmError(409, "InvalidResourceLocation", text)
        face.sets[where] = made = AvailabilitySet(
            name=call.path["name"],
            subscription=call.subscription,
            group=call.group,
            location=location,
            tags={str(name): str(text) for name, text in (call.body.get("tags") or {}).items()},
            aligned=str((call.body.get("sku") or {}).get("name") or "Classic") == "Aligned",
            fault_domains=int(domains),
            created_at=face.world.now() if known is None else known.created_at,
        )
    return JSONResponse(shown(face, made), 201 if known is None else 200)


def get(face: Face, call: Call) -> Response:
    """One set."""
    return JSONResponse(shown(face, _named(face, call)))


def in_group(face: Face, call: Call) -> Response:
    """The sets of a group."""
    return listing(call, [shown(face, one) for one in of_group(face, call)])


def delete(face: Face, call: Call) -> Response:
    """Refused while a machine is in it."""
    with face.lock:
        one = face.sets.get(key(call.subscription, call.group, call.path["name"]))
        if one is None:
            return Response(status_code=204)
        if members(face, one):
            text = (
                f"Availability Set '{one.name}' cannot be deleted. Before deleting an Availability Set "
                "please ensure that it does not contain any VM."
            )
            raise ArmError(409, "OperationNotAllowed", text)
        del face.sets[key(call.subscription, call.group, call.path["name"])]
    return Response(status_code=200)


def of_group(face: Face, call: Call) -> list[AvailabilitySet]:
    """The sets of a group, in the order in which they were made."""
    mine = (call.subscription.lower(), call.group.lower())
    return [one for (*where, _), one in list(face.sets.items()) if tuple(where) == mine]


def must_take(face: Face, path: str, location: str, body: Mapping[str, Any]) -> None:
    """ArmError where a machine cannot be made in the set that it names."""
    parts = path.strip("/").split("/")
    one = face.sets.get(key(parts[1], parts[3], parts[-1])) if len(parts) == 8 else None
    if one is None:
        text = f"Resource {path} referenced by the virtual machine was not found."
        raise ArmError(404, "NotFound", text, target="availabilitySet")
    if one.location != location or not one.aligned:
        text = f"Availability Set '{one.name}' cannot hold this virtual machine."
        raise ArmError(400, "BadRequest", text, target="availabilitySet")
    properties = body["properties"]
    if str(properties.get("priority") or "Regular").lower() != "regular":
        code = "AzureSpotVMNotSupportedInAvailabilitySet"
        raise ArmError(409, code, "Azure Spot Virtual Machine is not supported in Availability Set.")
    if body.get("zones") or (properties.get("capacityReservation") or {}).get("capacityReservationGroup"):
        what = "zones" if body.get("zones") else "capacityReservation"
        text = f"The property '{what}' cannot be used with 'availabilitySet'."
        raise ArmError(400, "BadRequest", text, target=what)


def members(face: Face, one: AvailabilitySet) -> list[str]:
    """The ids of the machines in a set, failed ones among them."""
    path = _id(one).lower()

    def inside(vm: Vm) -> bool:
        return vm.live and _set_of(vm.extra["body"]) == path

    failed = [
        resource_id(vm.subscription, vm.group, "Microsoft.Compute/virtualMachines", vm.name)
        for vm in list(face.failed.values())
        if _set_of(vm.body) == path
    ]
    return [id_of(vm) for vm in face.world.vms("azure", inside)] + failed


def _set_of(body: Mapping[str, Any]) -> str:
    return str((body["properties"].get("availabilitySet") or {}).get("id") or "").lower()


def _id(one: AvailabilitySet) -> str:
    return resource_id(one.subscription, one.group, SETS, one.name)


def shown(face: Face, one: AvailabilitySet) -> dict[str, Any]:
    """A set's JSON."""
    return {
        "id": _id(one),
        "name": one.name,
        "type": SETS,
        "location": one.location,
        "tags": one.tags,
        "sku": {"name": "Aligned" if one.aligned else "Classic"},
        "properties": {
            "platformFaultDomainCount": one.fault_domains,
            "platformUpdateDomainCount": 1,
            "virtualMachines": [{"id": name} for name in members(face, one)],
        },
    }


def _named(face: Face, call: Call) -> AvailabilitySet:
    one = face.sets.get(key(call.subscription, call.group, call.path["name"]))
    if one is None:
        raise missing(SETS, call.path["name"], call.group)
    return one
