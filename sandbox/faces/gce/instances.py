"""Instances of the world as Compute Engine's `Instance`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sandbox.faces.gce.answers import LINKS
from sandbox.faces.gce.resources import number
from sandbox.ledger import stamp
from sandbox.vm import Vm

_STATUS = {"running": "RUNNING", "shutting_down": "STOPPING", "stopped": "TERMINATED"}


def status_of(vm: Vm, boot_seconds: float, now: datetime) -> str:
    """PROVISIONING, halfway to its boot STAGING, then RUNNING; an instance that powered off is TERMINATED."""
    if vm.state == "pending":
        return "PROVISIONING" if (now - vm.created_at).total_seconds() < boot_seconds / 2 else "STAGING"
    return _STATUS[vm.state]


def shown(vm: Vm, boot_seconds: float, now: datetime, status: str = "") -> dict[str, Any]:
    """The instance's JSON. status: what to say instead of the truth."""
    project = vm.extra["project"]
    place = f"{LINKS}projects/{project}/zones/{vm.zone}"
    machine_type = vm.instance_type.partition("+")[0]
    body: dict[str, Any] = {
        "kind": "compute#instance",
        "id": vm.id,
        "creationTimestamp": stamp(vm.created_at),
        "name": vm.name,
        "tags": {"items": vm.extra["network_tags"], "fingerprint": "42WmSpB8rSM="},
        "machineType": f"{place}/machineTypes/{machine_type}",
        "status": status or status_of(vm, boot_seconds, now),
        "zone": place,
        "networkInterfaces": [_interface(vm), *_more_interfaces(vm)],
        "disks": [_disk(vm)],
        "metadata": {
            "kind": "compute#metadata",
            "fingerprint": "42WmSpB8rSM=",
            "items": [{"key": key, "value": text} for key, text in vm.extra["metadata"].items()],
        },
        "selfLink": f"{place}/instances/{vm.name}",
        "scheduling": vm.extra["scheduling"],
        "cpuPlatform": "Unknown CPU Platform",
        "labels": dict(vm.tags),
        "labelFingerprint": "42WmSpB8rSM=",
        "startRestricted": False,
        "deletionProtection": False,
        "fingerprint": "42WmSpB8rSM=",
        "lastStartTimestamp": stamp(vm.created_at),
    }
    if vm.extra["guest_accelerators"]:
        body["guestAccelerators"] = vm.extra["guest_accelerators"]
    if vm.extra["resource_policies"]:
        region = f"{LINKS}projects/{project}/regions/{vm.region}"
        body["resourcePolicies"] = [f"{region}/resourcePolicies/{n}" for n in vm.extra["resource_policies"]]
    if vm.extra["reservation_affinity"]:
        body["reservationAffinity"] = vm.extra["reservation_affinity"]
    if vm.reservation is not None:
        consumed = f"projects/{project}/zones/{vm.zone}/reservations/{vm.reservation}"
        body["resourceStatus"] = {"reservationConsumptionInfo": {"consumedReservation": consumed}}
    if vm.extra["service_accounts"]:
        body["serviceAccounts"] = vm.extra["service_accounts"]
    if vm.state == "stopped" and vm.ending_at is not None:
        body["lastStopTimestamp"] = stamp(vm.ending_at)
    return body


def _interface(vm: Vm) -> dict[str, Any]:
    project = vm.extra["project"]
    subnet = vm.extra["subnet"]
    interface: dict[str, Any] = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "network": f"{LINKS}projects/{project}/global/networks/{subnet}",
        "subnetwork": f"{LINKS}projects/{project}/regions/{vm.region}/subnetworks/{subnet}",
        "networkIP": vm.private_ip,
        "fingerprint": "42WmSpB8rSM=",
        "stackType": "IPV4_ONLY",
    }
    if vm.public_ip is not None:
        interface["accessConfigs"] = [
            {
                "kind": "compute#accessConfig",
                "type": "ONE_TO_ONE_NAT",
                "name": "External NAT",
                "natIP": vm.public_ip,
                "networkTier": "PREMIUM",
            }
        ]
    return interface


def _more_interfaces(vm: Vm) -> list[dict[str, Any]]:
    project = vm.extra["project"]
    return [
        {
            "kind": "compute#networkInterface",
            "name": f"nic{number}",
            "network": f"{LINKS}projects/{project}/global/networks/{more.network}",
            "subnetwork": f"{LINKS}projects/{project}/regions/{vm.region}/subnetworks/{more.subnet}",
            "nicType": more.kind,
            "fingerprint": "42WmSpB8rSM=",
            "stackType": "IPV4_ONLY",
        }
        for number, more in enumerate(vm.extra["more_interfaces"], 1)
    ]


def _disk(vm: Vm) -> dict[str, Any]:
    disk = vm.extra["disk"]
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "source": f"{LINKS}projects/{vm.extra['project']}/zones/{vm.zone}/disks/{vm.name}",
        "deviceName": "persistent-disk-0",
        "index": 0,
        "boot": True,
        "autoDelete": disk["auto_delete"],
        "interface": "SCSI",
        "diskSizeGb": str(disk["size_gb"]),
        "licenses": [f"{LINKS}projects/ubuntu-os-cloud/global/licenses/{number('licence')}"],
    }
