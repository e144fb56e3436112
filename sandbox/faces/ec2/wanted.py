"""RunInstances: from the request to what is asked of the market, with EC2's refusals of what makes no sense.

Sources: Amazon EC2 API Reference, RunInstances and "Error codes"; EC2 User Guide, "Instance user data" and
"Tag your Amazon EC2 resources".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sandbox.faces.ec2 import placement, reservations
from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.site import IMAGE_GIB, PARAMETERS, ROOT_DEVICE
from sandbox.faces.ec2.tags import read_tags
from sandbox.vm import CapacityType

_USER_DATA_BYTES = 16384
_IMAGE_ID = re.compile(r"ami-[0-9a-f]{8,17}")

# What these would name does not exist here.
_ABSENT = {
    "LaunchTemplate": ("InvalidLaunchTemplateName.NotFoundException", "launch template"),
    "KeyName": ("InvalidKeyPair.NotFound", "key pair"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A launch that makes sense. zone: the catalogue's key; None leaves it to EC2. zonal: whether the request
    named a place, which is what its token holds for. max_price: USD per hour. tags: by resource type.
    """

    image: str
    instance_type: str
    least: int
    most: int
    zone: str | None
    zonal: bool
    capacity_type: CapacityType
    max_price: float | None
    user_data: str
    public_ip: bool
    groups: tuple[str, ...]
    poweroff: Literal["terminate", "stop"]
    eviction: Literal["delete", "stop"]
    keep: frozenset[str]
    disks: tuple[str, ...]
    disk_gib: int
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    reservation: str | None = None
    matching: bool = True
    group: str | None = None
    interfaces: tuple[tuple[int, int, str], ...] = ((0, 0, "interface"),)


def read(context: Context, params: Mapping[str, Any]) -> Wanted:
    """The launch that a request describes; AwsError for what EC2 would refuse before looking for capacity."""
    _refuse_absent(params)
    interface = _interface(params)
    place, zone = _place(context, params, interface)
    market, max_price, eviction = _market(params)
    keep, disks, gib = _disks(params)
    if interface.get("DeleteOnTermination") is False:
        keep |= {"nic"}
    least, most = params["MinCount"], params["MaxCount"]
    if not 1 <= least <= most:
        raise AwsError("InvalidParameterValue", "MinCount must be at least 1 and not above MaxCount.")
    behaviour = params.get("InstanceInitiatedShutdownBehavior", "stop")
    return Wanted(
        image=_image(context, params),
        instance_type=_type(context, params),
        least=least,
        most=most,
        zone=zone,
        zonal=place,
        capacity_type=market,
        max_price=max_price,
        user_data=_user_data(params.get("UserData", "")),
        public_ip=len(params.get("NetworkInterfaces", [])) < 2
        and interface.get("AssociatePublicIpAddress", True),
        groups=_groups(context, params, interface),
        poweroff="terminate" if behaviour == "terminate" else "stop",
        eviction=eviction,
        keep=keep,
        disks=disks,
        disk_gib=gib,
        tags=read_tags(params.get("TagSpecifications", []), market),
        reservation=reservations.target(context, params, zone, _market_type(params)),
        matching=reservations.matching(params, _market_type(params)),
        group=params.get("Placement", {}).get("GroupName") or None,
        interfaces=_interfaces(context, params),
    )


def _refuse_absent(params: Mapping[str, Any]) -> None:
    for name, (code, what) in _ABSENT.items():
        if params.get(name):
            raise AwsError(code, f"The {what} '{params[name]}' does not exist")


def _interface(params: Mapping[str, Any]) -> dict[str, Any]:
    """The first interface; what stands there must not stand beside it."""
    interfaces = params.get("NetworkInterfaces", [])
    if not interfaces:
        return {}
    for name in ("SubnetId", "SecurityGroupIds", "SecurityGroups"):
        if params.get(name):
            text = f"Network interfaces and an instance-level {name} may not be specified on the same request"
            raise AwsError("InvalidParameterCombination", text)
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in one for one in interfaces):
        text = "The associatePublicIPAddress parameter cannot be specified with multiple network interfaces"
        raise AwsError("InvalidParameterCombination", text)
    return dict(interfaces[0])


def _interfaces(context: Context, params: Mapping[str, Any]) -> tuple[tuple[int, int, str], ...]:
    interfaces = params.get("NetworkInterfaces") or [{}]
    placement.check_interfaces(_type(context, params), interfaces)
    for one in interfaces:
        if one.get("SubnetId") != interfaces[0].get("SubnetId"):
            raise AwsError("InvalidParameterCombination", "All interfaces here are of one subnet")
    return tuple(
        (one.get("NetworkCardIndex", 0), one.get("DeviceIndex", 0), one.get("InterfaceType", "interface"))
        for one in interfaces
    )


def _place(
    context: Context, params: Mapping[str, Any], interface: Mapping[str, Any]
) -> tuple[bool, str | None]:
    """Whether the request names a place, and the zone's key."""
    place = params.get("Placement", {})
    named = place.get("AvailabilityZoneId") or place.get("AvailabilityZone")
    zone = context.zone(named) if named else None
    subnet_id = params.get("SubnetId") or interface.get("SubnetId")
    if subnet_id is None:
        return zone is not None, zone.key if zone else None
    subnet = context.site.subnets.get(subnet_id)
    if subnet is None:
        raise AwsError("InvalidSubnetID.NotFound", f"The subnet ID '{subnet_id}' does not exist")
    if zone is not None and zone != subnet.zone:
        text = f"The availability zone '{zone.name}' does not match the subnet '{subnet_id}'"
        raise AwsError("InvalidParameterValue", text)
    return True, subnet.zone.key


def _market(
    params: Mapping[str, Any],
) -> tuple[CapacityType, float | None, Literal["delete", "stop"]]:
    options = params.get("InstanceMarketOptions", {})
    kind = _market_type(params)
    if kind in (None, "capacity-block"):
        return "on_demand", None, "delete"
    if kind != "spot":
        raise AwsError("Unsupported", f"The market type '{kind}' is not offered by the local clouds")
    spot = options.get("SpotOptions", {})
    behaviour = spot.get("InstanceInterruptionBehavior", "terminate")
    if behaviour != "terminate" and spot.get("SpotInstanceType", "one-time") == "one-time":
        text = f"Interruption behavior '{behaviour}' needs a persistent Spot request"
        raise AwsError("InvalidParameterCombination", text)
    return "spot", _bid(spot.get("MaxPrice")), "delete" if behaviour == "terminate" else "stop"


def _market_type(params: Mapping[str, Any]) -> str | None:
    options = params.get("InstanceMarketOptions", {})
    kind: str | None = options.get("MarketType")
    return "spot" if kind is None and "SpotOptions" in options else kind


def _bid(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        bid = float(text)
    except ValueError:
        bid = 0.0
    if bid < 0.001:
        raise AwsError(
            "InvalidParameterValue", f"Invalid value '{text}' for MaxPrice: above 0.001 is allowed"
        )
    return bid


def _disks(params: Mapping[str, Any]) -> tuple[frozenset[str], tuple[str, ...], int]:
    """What outlives the instance, its device names, and the root disk's size in GiB. A mapping under another
    name than the root device's makes a second disk.
    """
    keep: frozenset[str] = frozenset()
    devices, gib = [ROOT_DEVICE], IMAGE_GIB
    for mapping in params.get("BlockDeviceMappings", []):
        device, disk = mapping.get("DeviceName"), mapping.get("Ebs", {})
        if not device:
            raise AwsError("MissingParameter", "The request must contain the parameter deviceName")
        size = disk.get("VolumeSize", IMAGE_GIB)
        if device == ROOT_DEVICE:
            if size < IMAGE_GIB:
                text = f"Volume of size {size}GB is smaller than snapshot, expect size>= {IMAGE_GIB}GB"
                raise AwsError("InvalidBlockDeviceMapping", text)
            gib = size
        else:
            devices.append(device)
        if disk.get("DeleteOnTermination") is False:
            keep = frozenset({"disk"})
    return keep, tuple(devices), gib


def _image(context: Context, params: Mapping[str, Any]) -> str:
    image = params.get("ImageId")
    if not image:
        raise AwsError("MissingParameter", "The request must contain the parameter ImageId")
    if image.startswith("resolve:ssm:") and image.removeprefix("resolve:ssm:") in PARAMETERS:
        return context.site.image
    if not _IMAGE_ID.fullmatch(image):
        raise AwsError("InvalidAMIID.Malformed", f'Invalid id: "{image}" (expecting "ami-...")')
    if image != context.site.image:
        raise AwsError("InvalidAMIID.NotFound", f"The image id '[{image}]' does not exist")
    return str(image)


def _type(context: Context, params: Mapping[str, Any]) -> str:
    name = params.get("InstanceType", "m1.small")
    if name not in context.table.types:
        text = f"The requested instance type {name} is not supported in {context.region}."
        raise AwsError("Unsupported", text)
    return str(name)


def _user_data(text: str) -> str:
    try:
        raw = base64.b64decode(text, validate=True)
        user_data = raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        raise AwsError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from None
    if len(raw) > _USER_DATA_BYTES:
        text = f"User data is limited to {_USER_DATA_BYTES} bytes"
        raise AwsError("InvalidUserData.Malformed", text)
    return user_data


def _groups(context: Context, params: Mapping[str, Any], interface: Mapping[str, Any]) -> tuple[str, ...]:
    groups = interface.get("Groups") or params.get("SecurityGroupIds") or [context.site.security_group]
    for group in groups:
        if group != context.site.security_group:
            raise AwsError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
    for name in params.get("SecurityGroups", []):
        if name != "default":
            raise AwsError("InvalidGroup.NotFound", f"The security group '{name}' does not exist")
    return tuple(groups)
