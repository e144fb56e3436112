"""Microsoft.Compute/disks: the OS disks that machines got."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.network import objects, owner
from sandbox.faces.arm.render import zone_names
from sandbox.faces.arm.state import Face, id_of
from sandbox.ledger import stamp
from sandbox.vm import Vm

DISKS = "Microsoft.Compute/disks"


def disk(face: Face, call: Call) -> Response:
    """One disk."""
    vm = owner(face, call, "disk")
    if vm is None or not vm.visible(face.world.now()):
        raise missing(DISKS, call.path["name"], call.group)
    return JSONResponse(disk_of(vm))


def disks(face: Face, call: Call) -> Response:
    """The disks of a group."""
    return listing(call, objects(face, call, "disk", disk_of))


def disk_of(vm: Vm) -> dict[str, Any]:
    """A disk's JSON. It has no tags: a machine's are not copied to it."""
    sent = vm.extra["body"]["properties"]["storageProfile"]["osDisk"]
    facts: dict[str, Any] = {
        "provisioningState": "Succeeded",
        "diskState": "Attached" if vm.live else "Unattached",
        "osType": "Linux",
        "timeCreated": stamp(vm.created_at),
        "creationData": {"createOption": "FromImage"},
    }
    if "diskSizeGB" in sent:
        facts["diskSizeGB"] = sent["diskSizeGB"]
    body: dict[str, Any] = {
        "id": id_of(vm, DISKS, vm.objects["disk"][0]),
        "name": vm.objects["disk"][0],
        "type": DISKS,
        "location": vm.region,
        "sku": {"name": (sent.get("managedDisk") or {}).get("storageAccountType", "StandardSSD_LRS")},
        "properties": facts,
    }
    zones = zone_names(vm.zone)
    if zones:
        body["zones"] = zones
    if vm.live:
        body["managedBy"] = id_of(vm)
    return body


def delete_disk(face: Face, call: Call) -> Response:
    """Refused while its machine is there."""
    vm = owner(face, call, "disk")
    if vm is None:
        return Response(status_code=204)
    if vm.live:
        text = f"Disk {call.path['name']} is attached to VM {id_of(vm)}."
        raise ArmError(409, "OperationNotAllowed", text)
    face.world.release("azure", "disk", vm.objects["disk"][0])
    return Response(status_code=202)
