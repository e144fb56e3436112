"""The subscription, its regions, groups, resource providers and permissions, and everything in a group."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm import sets
from sandbox.faces.arm.call import ArmError, Call, listing
from sandbox.faces.arm.disks import disk_of
from sandbox.faces.arm.network import address_of, card_of, objects
from sandbox.faces.arm.odata import matches
from sandbox.faces.arm.render import provisioning_of
from sandbox.faces.arm.state import GROUP, Face, id_of
from sandbox.ledger import stamp
from sandbox.vm import Vm

PROVIDERS = ("Microsoft.Compute", "Microsoft.Network", "Microsoft.Quota", "Microsoft.ResourceGraph")


def subscription(_face: Face, call: Call) -> Response:
    """Any subscription is there and enabled."""
    return JSONResponse(
        {
            "id": f"/subscriptions/{call.subscription}",
            "subscriptionId": call.subscription,
            "displayName": "Sandbox",
            "state": "Enabled",
            "authorizationSource": "RoleBased",
        }
    )


def locations(_face: Face, call: Call) -> Response:
    """The regions of the catalogue; logical and physical zones are the same here."""
    rows = []
    for region in catalogue("azure").regions:
        zones = [
            {"logicalZone": zone.name, "physicalZone": f"{region}-az{zone.name}"}
            for zone in catalogue("azure").zones_of(region)
        ]
        path = f"/subscriptions/{call.subscription}/locations/{region}"
        rows.append({"id": path, "name": region, "type": "Region", "availabilityZoneMappings": zones})
    return listing(call, rows)


def provider(_face: Face, call: Call) -> Response:
    """A resource provider's registration: all that are known are registered, or as a fault wants it."""
    known = {name.lower(): name for name in PROVIDERS}
    name = known.get(call.path["namespace"].lower())
    if name is None:
        text = f"The resource namespace '{call.path['namespace']}' is invalid."
        raise ArmError(404, "InvalidResourceNamespace", text)
    path = f"/subscriptions/{call.subscription}/providers/{name}"
    state = call.shown or "Registered"
    body = {"id": path, "namespace": name, "registrationState": state, "resourceTypes": []}
    return JSONResponse(body)


def group(face: Face, call: Call) -> Response:
    """A resource group."""
    if not face.group_exists(call.subscription, call.group):
        text = f"Resource group '{call.group}' could not be found."
        raise ArmError(404, "ResourceGroupNotFound", text)
    return JSONResponse(_group(face, call))


def create_group(face: Face, call: Call) -> Response:
    """A new resource group (201), or the one that is there (200)."""
    location = str(call.body.get("location") or "").lower()
    if location not in catalogue("azure").regions:
        raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
    with face.lock:
        there = face.group_exists(call.subscription, call.group)
        face.groups.setdefault((call.subscription.lower(), call.group.lower()), location)
    return JSONResponse(_group(face, call), 200 if there else 201)


def _group(face: Face, call: Call) -> dict[str, Any]:
    place = face.groups.get((call.subscription.lower(), call.group.lower()), catalogue("azure").regions[0])
    return {
        "id": f"/subscriptions/{call.subscription}/resourceGroups/{call.group}",
        "name": GROUP if call.group.lower() == GROUP else call.group,
        "type": "Microsoft.Resources/resourceGroups",
        "location": place,
        "properties": {"provisioningState": "Succeeded"},
    }


def permissions(_face: Face, call: Call) -> Response:
    """Whoever comes may do everything but what a fault denies (`state`, patterns separated by blanks)."""
    denied = call.shown.split()
    return listing(call, [{"actions": ["*"], "notActions": denied, "dataActions": [], "notDataActions": []}])


def locks(_face: Face, call: Call) -> Response:
    """No locks, or one of the level that a fault wants."""
    if not call.shown:
        return listing(call, [])
    path = f"/subscriptions/{call.subscription}/resourceGroups/{call.group}"
    kind = "Microsoft.Authorization/locks"
    row = {"id": f"{path}/providers/{kind}/keep", "name": "keep", "type": kind}
    return listing(call, [{**row, "properties": {"level": call.shown}}])


def resources(face: Face, call: Call) -> Response:
    """All resources of a group, filtered by tag or type."""
    machines = face.world.vms("azure", lambda vm: vm.live and _in_group(vm, call))
    rows = [(_machine(vm), vm) for vm in machines if vm.visible(face.world.now())]
    for kind, show in _SHOWN.items():
        found = objects(face, call, kind, lambda vm, show=show: {"row": show(face, vm), "vm": vm})  # type: ignore[misc]
        rows += [(one["row"], one["vm"]) for one in found]
    wanted = call.query.get("$filter", "")
    created = "createdtime" in call.query.get("$expand", "").lower()
    shown = [_row(row, vm.created_at, created) for row, vm in rows if matches(wanted, _fields(row))]
    together = [(sets.shown(face, one), one.created_at) for one in sets.of_group(face, call)]
    shown += [_row(row, at, created) for row, at in together if matches(wanted, _fields(row))]
    return listing(call, shown, page_size=1000)


_SHOWN = {
    "nic": lambda face, vm: card_of(face, vm, expand=False),
    "address": lambda face, vm: address_of(vm),
    "disk": lambda face, vm: disk_of(vm),
}


def _in_group(vm: Vm, call: Call) -> bool:
    mine = (vm.extra["subscription"].lower(), vm.extra["resource_group"].lower())
    return mine == (call.subscription.lower(), call.group.lower())


def _machine(vm: Vm) -> dict[str, Any]:
    return {
        "id": id_of(vm),
        "name": vm.name,
        "type": "Microsoft.Compute/virtualMachines",
        "location": vm.region,
        "tags": vm.tags,
        "properties": {"provisioningState": provisioning_of(vm)},
    }


def _fields(row: dict[str, Any]) -> list[dict[str, str]]:
    """What a filter may speak of: a row stands once for each of its tags."""
    plain = {"resourcetype": row["type"], "name": row["name"], "location": row["location"]}
    tags = [{"tagname": key, "tagvalue": value, **plain} for key, value in row.get("tags", {}).items()]
    return tags or [plain]


def _row(row: dict[str, Any], created_at: datetime, created: bool) -> dict[str, Any]:
    generic: dict[str, Any] = {
        key: row[key] for key in ("id", "name", "type", "location", "tags", "sku") if key in row
    }
    if created:
        generic["createdTime"] = stamp(created_at)
        generic["provisioningState"] = row["properties"].get("provisioningState", "Succeeded")
    return generic
