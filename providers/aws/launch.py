"""RunInstances: from a request to its parameters, and what EC2 must never be left to decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from providers.aws import fabric
from providers.aws.fabric import CLUSTER, Adapter
from providers.aws.images import Image
from providers.aws.instance_types import quota_family
from providers.aws.network import Zone
from providers.aws.placement_groups import name_of
from providers.aws.reservations import is_block
from providers.config import RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, LaunchRequest, Scope

USER_DATA_BYTES = 16384  # before base64 [EC2 User Guide, "Instance user data"]

# Keys of LaunchRequest.extra: all that settings and the region decide, frozen when the request is prepared.
ZONE_NAME, ROOT_DEVICE, DATA_DEVICES = "zone_name", "root_device", "data_devices"
SECURITY_GROUPS, PUBLIC_ADDRESS, INSTANCE_ROLE = "security_groups", "public_address", "instance_role"
BLOCK, GROUP, FABRIC = "capacity_block", "placement_group", "efa_interfaces"


def is_prepared(request: LaunchRequest) -> bool:
    return request.image is not None and request.subnet is not None and ROOT_DEVICE in request.extra


def is_reserved(request: LaunchRequest) -> bool:
    """Whether it is meant for capacity that was paid for ahead."""
    return request.offer.capacity_type is CapacityType.RESERVED


def makes_group(request: LaunchRequest) -> bool:
    """Whether the launch needs a placement group of its own."""
    return request.extra.get(GROUP) == name_of(request.token)


def freeze(
    request: LaunchRequest,
    zone: Zone,
    image: Image,
    config: RegionConfig,
    reserved: Mapping[str, Any] | None = None,
    adapters: tuple[Adapter, ...] = (),
) -> LaunchRequest:
    """The prepared request: everything that could change between two sendings is written into it. reserved:
    the raw reservation that it names. adapters: the EFA interfaces of each node, for `fabric`.
    """
    extra = {
        ZONE_NAME: zone.name,
        ROOT_DEVICE: image.root_device,
        DATA_DEVICES: ",".join(image.data_devices),
        SECURITY_GROUPS: ",".join(config.security_groups),
        PUBLIC_ADDRESS: "yes" if config.public_address else "no",
        INSTANCE_ROLE: config.instance_role or "",
        **_reserved_extra(reserved),
    }
    if request.fabric:
        extra[FABRIC] = fabric.written(adapters)
        if extra.get(BLOCK) != "yes":  # the instances of a block stand close together as they are
            extra.setdefault(GROUP, name_of(request.token))
    sized = replace(request, disk_gib=max(request.disk_gib, image.root_gib))
    return sized.with_resolved(image=image.id, subnet=request.subnet or zone.subnet, **extra)


def _reserved_extra(reserved: Mapping[str, Any] | None) -> dict[str, str]:
    """A reservation that was made in a placement group is used in that group only. [EC2 User Guide, "Capacity
    Reservations in cluster placement groups"]
    """
    if reserved is None:
        return {}
    group = str(reserved.get("PlacementGroupArn") or "").rpartition("/")[2]
    return {BLOCK: "yes" if is_block(reserved) else "no"} | ({GROUP: group} if group else {})


def subject(request: LaunchRequest) -> Scope:
    """All fields of a launch that an error may be about."""
    key = request.offer
    return Scope(
        provider=key.provider,
        account=key.account,
        region=key.region,
        zone=key.zone,
        instance_type=key.instance_type,
        family=quota_family(key.instance_type),
        capacity_type=key.capacity_type,
        reservation=key.reservation,
        subnet=request.subnet,
        image=request.image,
        placement_group=CLUSTER if request.extra.get(GROUP) else None,
    )


def refuse_unsendable(request: LaunchRequest) -> None:
    """Raise ProviderError for what EC2 would refuse or misread, before anything is sent."""
    problem = None
    if not is_prepared(request):
        problem = "the request was not prepared"
    elif is_reserved(request) and request.offer.reservation is None:
        problem = "a launch into reserved capacity names its reservation"
    elif len(request.user_data.encode()) > USER_DATA_BYTES:
        problem = f"user data has {len(request.user_data.encode())} bytes, EC2 takes {USER_DATA_BYTES}"
    if problem is not None:
        raise ProviderError(ErrorKind.INVALID_REQUEST, problem, scope=subject(request))


def run_instances_parameters(request: LaunchRequest) -> dict[str, Any]:
    """The same bytes for the same prepared request, each time.

    Idempotency is per zone because Placement names it; capacity reservations are consumed by name only, and
    a full one refuses; metadata is version 2 only; an instance that shuts itself down is terminated; every
    disk goes with its instance.
    [EC2 API Reference, RunInstances; EC2 developer guide, "Ensuring idempotency"]
    """
    extra, spot = request.extra, request.offer.capacity_type is CapacityType.SPOT
    parameters: dict[str, Any] = {
        "ImageId": request.image,
        "InstanceType": request.offer.instance_type,
        "MinCount": request.nodes,
        "MaxCount": request.nodes,
        "ClientToken": request.token,
        "UserData": request.user_data,
        "NetworkInterfaces": [_interface(request), *_adapters(request)],
        "BlockDeviceMappings": _disks(request),
        "MetadataOptions": {
            "HttpTokens": "required",
            "HttpPutResponseHopLimit": 2,
            "HttpEndpoint": "enabled",
            "InstanceMetadataTags": "disabled",
        },
        "InstanceInitiatedShutdownBehavior": "terminate",
        "Placement": _placement(extra),
        "CapacityReservationSpecification": _reservation(request),
        "TagSpecifications": _tagged(request, spot),
    }
    if spot:
        options = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        if request.max_price is not None:  # above it EC2 refuses, and later takes the instance back
            options["MaxPrice"] = f"{request.max_price:.4f}"
        parameters["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": options}
    elif extra.get(BLOCK) == "yes":
        parameters["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if role := extra[INSTANCE_ROLE]:
        parameters["IamInstanceProfile"] = {"Arn" if role.startswith("arn:") else "Name": role}
    return parameters


def _placement(extra: Mapping[str, str]) -> dict[str, str]:
    place = {"AvailabilityZone": extra[ZONE_NAME]}
    return place | ({"GroupName": extra[GROUP]} if extra.get(GROUP) else {})


def _reservation(request: LaunchRequest) -> dict[str, Any]:
    """Unless told otherwise, EC2 lets a launch eat whatever open reservation matches, and lets one that finds
    its reservation full go on as a plain one. [EC2 API Reference, CapacityReservationSpecification]
    """
    named = request.offer.reservation
    if named is None:
        return {"CapacityReservationPreference": "none"}
    return {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": named},
    }


def _interface(request: LaunchRequest) -> dict[str, Any]:
    interface: dict[str, Any] = {
        "DeviceIndex": 0,
        "SubnetId": request.subnet,
        "DeleteOnTermination": True,
    }
    if not request.extra.get(FABRIC):  # not to be named where there are several interfaces
        interface["AssociatePublicIpAddress"] = request.extra[PUBLIC_ADDRESS] == "yes"
    if groups := _listed(request.extra, SECURITY_GROUPS):
        interface["Groups"] = groups
    return interface


def _adapters(request: LaunchRequest) -> list[dict[str, Any]]:
    groups = _listed(request.extra, SECURITY_GROUPS)
    return [
        {
            "NetworkCardIndex": one.card,
            "DeviceIndex": one.device,
            "InterfaceType": one.kind,
            "SubnetId": request.subnet,
            "DeleteOnTermination": True,
        }
        | ({"Groups": groups} if groups else {})
        for one in fabric.read(request.extra.get(FABRIC, ""))
    ]


def _disks(request: LaunchRequest) -> list[dict[str, Any]]:
    root = {
        "VolumeSize": request.disk_gib,
        "VolumeType": "gp3",
        "Encrypted": True,
        "DeleteOnTermination": True,
    }
    further = _listed(request.extra, DATA_DEVICES)
    return [
        {"DeviceName": request.extra[ROOT_DEVICE], "Ebs": root},
        *({"DeviceName": device, "Ebs": {"DeleteOnTermination": True}} for device in further),
    ]


def _tagged(request: LaunchRequest, spot: bool) -> list[dict[str, Any]]:
    """Tags are written with the creation, never after it. `Name` is what the console shows."""
    tags = {"Name": f"corral-{request.token[:20]}", **request.tags}
    kinds = ["instance", "volume", "network-interface", *(["spot-instances-request"] if spot else [])]
    pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
    return [{"ResourceType": kind, "Tags": pairs} for kind in kinds]


def _listed(extra: Mapping[str, str], key: str) -> list[str]:
    return _nonempty(extra.get(key, "").split(","))


def _nonempty(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text]
