"""How EC2 shows an instance: dictionaries in the spelling of the API's output shapes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.site import ACCOUNT, ROOT_DEVICE
from sandbox.vm import Vm

_STATES = {
    "pending": (0, "pending"),
    "running": (16, "running"),
    "shutting_down": (32, "shutting-down"),
    "terminated": (48, "terminated"),
    "stopped": (80, "stopped"),
}
# EC2 User Guide, "Troubleshoot instance launch issues" and the Instance StateReason's documentation.
_REASONS = {
    "user": ("Client.UserInitiatedShutdown", "User initiated shutdown"),
    "instance": ("Client.InstanceInitiatedShutdown", "Instance initiated shutdown"),
    "preempted": ("Server.SpotInstanceTermination", "Spot instance termination"),
    "host_failure": ("Server.InternalError", "Internal error"),
    "max_age": ("Client.UserInitiatedShutdown", "User initiated shutdown"),
}
_UNKNOWN_STATE_CODE = 255
RESERVATION_ID = re.compile(r"cr-[0-9a-f]{5,17}")


def state_name(vm: Vm) -> str:
    """EC2's word for the state."""
    return _STATES[vm.state][1]


def state(vm: Vm) -> dict[str, Any]:
    """InstanceState."""
    code, name = _STATES[vm.state]
    return {"Code": code, "Name": name}


def state_reason(vm: Vm) -> str:
    """The reason's code; empty while there is none."""
    return _REASONS[vm.end_reason][0] if vm.end_reason else ""


def reservation(context: Context, vms: Sequence[Vm]) -> dict[str, Any]:
    """Reservation: instances of one launch."""
    return {
        "ReservationId": vms[0].extra["reservation"],
        "OwnerId": ACCOUNT,
        "Groups": [],
        "Instances": [instance(context, vm) for vm in vms],
    }


def instance(context: Context, vm: Vm) -> dict[str, Any]:
    """Instance. One that is terminated has lost its addresses and disks; its tags stay."""
    zone = context.table.zones[vm.zone]
    shown: dict[str, Any] = {
        "InstanceId": vm.id,
        "ImageId": vm.extra["image"],
        "InstanceType": vm.instance_type,
        "State": state(vm),
        "ClientToken": vm.token,
        "AmiLaunchIndex": vm.extra["index"],
        "LaunchTime": vm.created_at,
        "Placement": {
            "AvailabilityZone": zone.name,
            "AvailabilityZoneId": zone.key,
            "GroupName": vm.extra["group"] or "",
            "Tenancy": "default",
        },
        "Architecture": context.table.types[vm.instance_type].architecture,
        "RootDeviceName": ROOT_DEVICE,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "Monitoring": {"State": "disabled"},
        "StateTransitionReason": "",
        "Tags": tags(vm.tags),
        "InstanceLifecycle": _lifecycle(vm),
        "SpotInstanceRequestId": spot_request_id(vm),
    }
    if vm.state != "terminated":
        shown["CapacityReservationId"] = reservation_id(vm.reservation) if vm.reservation else None
        shown |= _attached(context, vm)
    if vm.end_reason:
        code, text = _REASONS[vm.end_reason]
        shown["StateReason"] = {"Code": code, "Message": f"{code}: {text}"}
        at = f"{vm.ending_at:%Y-%m-%d %H:%M:%S GMT}" if vm.ending_at else ""
        shown["StateTransitionReason"] = (
            f"{'User' if vm.end_reason == 'user' else 'Service'} initiated ({at})"
        )
    if context.fault is not None and context.fault.action == "state":
        shown["State"] = {"Code": _UNKNOWN_STATE_CODE, "Name": context.fault.value}
    return shown


def _lifecycle(vm: Vm) -> str | None:
    if vm.capacity_type == "spot":
        return "spot"
    return "capacity-block" if vm.paid_ahead else None


def reservation_id(name: str) -> str:
    """A capacity reservation's id: the scenario's name for it, if that looks like one."""
    return name if RESERVATION_ID.fullmatch(name) else f"cr-{hashlib.sha256(name.encode()).hexdigest()[:17]}"


def tags(values: dict[str, str]) -> list[dict[str, str]]:
    """TagList."""
    return [{"Key": key, "Value": value} for key, value in values.items()]


def spot_request_id(vm: Vm) -> str | None:
    """The request behind a spot instance."""
    requests = vm.objects.get("spot_request")
    return requests[0] if requests else None


def _attached(context: Context, vm: Vm) -> dict[str, Any]:
    """The network is there from the start, a public address only once it runs."""
    groups = [{"GroupId": group, "GroupName": "default"} for group in vm.extra["groups"]]
    public = vm.public_ip if vm.state != "pending" else None
    interfaces = [
        _interface(context, vm, name, *place)
        for name, place in zip(vm.objects["nic"], vm.extra["interfaces"], strict=True)
    ]
    disks = [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": volume,
                "Status": "attached",
                "AttachTime": vm.created_at,
                "DeleteOnTermination": "disk" not in vm.keep,
            },
        }
        for device, volume in zip(vm.extra["devices"], vm.objects["disk"], strict=True)
    ]
    return {
        "PrivateIpAddress": vm.private_ip,
        "PublicIpAddress": public,
        "SubnetId": vm.extra["subnet"],
        "VpcId": context.site.vpc,
        "SecurityGroups": groups,
        "NetworkInterfaces": interfaces,
        "BlockDeviceMappings": disks,
    }


def _interface(context: Context, vm: Vm, name: str, card: int, device: int, kind: str) -> dict[str, Any]:
    public = vm.public_ip if vm.state != "pending" and (card, device) == (0, 0) else None
    return {
        "NetworkInterfaceId": name,
        "InterfaceType": kind,
        "SubnetId": vm.extra["subnet"],
        "VpcId": context.site.vpc,
        "PrivateIpAddress": vm.private_ip if (card, device) == (0, 0) else None,
        "Status": "in-use",
        "Groups": [{"GroupId": group, "GroupName": "default"} for group in vm.extra["groups"]],
        "Attachment": {
            "DeviceIndex": device,
            "NetworkCardIndex": card,
            "Status": "attached",
            "DeleteOnTermination": "nic" not in vm.keep,
        },
        "Association": {"PublicIp": public, "IpOwnerId": "amazon"} if public else None,
    }
