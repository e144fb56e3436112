"""Machines as Resource Manager shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sandbox.catalogue import catalogue
from sandbox.faces.arm.state import FailedVm, id_of, resource_id
from sandbox.ledger import stamp
from sandbox.vm import Vm

KIND = "Microsoft.Compute/virtualMachines"
# What is never shown again: neither secrets nor the user data.
_SECRET = ("customData", "adminPassword")


def machine(vm: Vm, now: datetime, *, view: bool, shown: str = "") -> dict[str, Any]:
    """A machine of the world. shown: a state that a fault wants to be seen instead, `Failed/CODE` or
    `PowerState/stopped`.
    """
    provisioning, power = _states(vm)
    code = ""
    if shown.startswith("PowerState/"):
        power = shown.partition("/")[2]
    elif shown:
        provisioning, _, code = shown.partition("/")
    body = _resource(vm.extra["body"], id_of(vm), vm.name, vm.id, vm.region, vm.tags, vm.created_at)
    properties = body["properties"]
    properties["provisioningState"] = provisioning
    properties["networkProfile"] = {
        "networkInterfaces": [
            {
                "id": id_of(vm, "Microsoft.Network/networkInterfaces", name),
                "properties": {"primary": True, "deleteOption": "Detach" if "nic" in vm.keep else "Delete"},
            }
            for name in vm.objects.get("nic", [])
        ]
    }
    _disk(properties, vm)
    if view:
        properties["instanceView"] = instance_view(provisioning, power, now, code=code)
    return body


def failed_machine(failed: FailedVm, now: datetime, *, view: bool) -> dict[str, Any]:
    """A create that is doomed: Creating until the verdict, then Failed for ever."""
    path = resource_id(failed.subscription, failed.group, KIND, failed.name)
    tags = failed.body.get("tags") or {}
    body = _resource(failed.body, path, failed.name, failed.vm_id, failed.location, tags, failed.created_at)
    over = now >= failed.fails_at
    properties = body["properties"]
    properties["provisioningState"] = "Failed" if over else "Creating"
    properties["networkProfile"] = {"networkInterfaces": []}
    if view:
        code, message = (failed.error["code"], failed.error["message"]) if over else ("", "")
        state = properties["provisioningState"]
        properties["instanceView"] = instance_view(state, None, now, code=code, message=message)
    return body


def instance_view(
    provisioning: str, power: str | None, now: datetime, *, code: str = "", message: str = ""
) -> dict[str, Any]:
    """`ProvisioningState/failed/CODE` in up to three parts, and `PowerState/…` where there is any."""
    bad = provisioning == "Failed"
    first: dict[str, Any] = {
        "code": "/".join(filter(None, ("ProvisioningState", provisioning.lower(), code))),
        "level": "Error" if bad else "Info",
        "displayStatus": "Provisioning failed" if bad else f"Provisioning {provisioning.lower()}",
        "time": stamp(now),
    }
    if message:
        first["message"] = message
    statuses = [first]
    if power is not None:
        shown = {"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}
        statuses.append(shown)
    return {"statuses": statuses}


def provisioning_of(vm: Vm) -> str:
    """Creating, Succeeded or Deleting."""
    return _states(vm)[0]


def _states(vm: Vm) -> tuple[str, str | None]:
    if vm.extra.get("stuck"):
        return "Creating", None
    if vm.state == "pending":
        return "Creating", "starting"
    if vm.state == "running":
        return "Succeeded", "running"
    if vm.state == "stopped":
        return "Succeeded", "stopped" if vm.end_reason == "instance" else "deallocated"
    return "Deleting", None


def _resource(
    sent: Mapping[str, Any],
    path: str,
    name: str,
    vm_id: str,
    location: str,
    tags: Mapping[str, str],
    created_at: datetime,
) -> dict[str, Any]:
    """What was sent, as it is shown: with identities of the service's own and without what is secret."""
    properties = {key: value for key, value in sent["properties"].items() if key != "networkProfile"}
    profile = properties.get("osProfile") or {}
    properties["osProfile"] = {key: value for key, value in profile.items() if key not in _SECRET}
    properties |= {"vmId": vm_id, "timeCreated": stamp(created_at)}
    body: dict[str, Any] = {
        "id": path,
        "name": name,
        "type": KIND,
        "location": location,
        "tags": dict(tags),
        "properties": properties,
    }
    for part in ("zones", "identity", "plan"):
        if part in sent:
            body[part] = sent[part]
    return body


def _disk(properties: dict[str, Any], vm: Vm) -> None:
    storage = properties.get("storageProfile") or {}
    disk = storage.get("osDisk") or {}
    for name in vm.objects.get("disk", []):
        managed = {**(disk.get("managedDisk") or {}), "id": id_of(vm, "Microsoft.Compute/disks", name)}
        disk = {**disk, "name": name, "osType": "Linux", "managedDisk": managed}
    properties["storageProfile"] = {**storage, "osDisk": disk}


def zone_names(zone: str) -> list[str]:
    """The `zones` of something in a zone of the catalogue; empty for the region itself."""
    name = catalogue("azure").zones[zone].name
    return [name] if name else []
