"""The bodies of `instances.insert` and `instances.bulkInsert`: the same request, the same bytes."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from providers.gcp import fabric
from providers.gcp import preparation as resolved
from providers.gcp.machine_types import Shape
from providers.gcp.reserved_words import KEY
from providers.vocabulary import CapacityType, LaunchRequest

if TYPE_CHECKING:
    from google.cloud.compute_v1.types import (
        AttachedDisk,
        BulkInsertInstanceResource,
        Instance,
        NetworkInterface,
        ReservationAffinity,
        Scheduling,
    )

# The label by which an instance shows that it was made by exactly this request.
FINGERPRINT = "corral-request"

_NAMESPACE = uuid.UUID("0d2c1f0e-7a0b-5c56-9c83-6f1b0a4c0e5d")
_CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"


def fingerprint(request: LaunchRequest) -> str:
    """The same for the same request, whatever process or release sends it."""
    text = json.dumps(asdict(request), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def request_id_of(request: LaunchRequest) -> uuid.UUID:
    """The API answers the same id with the same operation, so it stands for token and content: what it does
    with a known id and another body is not documented, while a second insert of a name is a plain conflict.
    """
    return uuid.uuid5(_NAMESPACE, f"{request.token}/{fingerprint(request)}")


def instance_body(request: LaunchRequest, project: str) -> Instance:
    """The Instance to insert."""
    from google.cloud.compute_v1.types import AcceleratorConfig, Instance

    zone = request.offer.zone
    shape = Shape.parse(request.offer.instance_type)
    instance = Instance(
        name=request.names()[0],
        machine_type=f"zones/{zone}/machineTypes/{shape.machine_type}",
        disks=[_boot_disk(request, f"projects/{project}/zones/{zone}/diskTypes/")],
        **_common(request, project),
    )
    if policy := request.extra.get(resolved.PLACEMENT):
        instance.resource_policies = [
            f"projects/{project}/regions/{request.offer.region}/resourcePolicies/{policy}"
        ]
    if shape.accelerator:
        url = f"projects/{project}/zones/{zone}/acceleratorTypes/{shape.accelerator}"
        instance.guest_accelerators = [AcceleratorConfig(accelerator_type=url, accelerator_count=shape.count)]
    return instance


def bulk_body(request: LaunchRequest, project: str) -> BulkInsertInstanceResource:
    """The bulk insert of a gang: exact names, all or none. Its properties take bare names, no URLs."""
    from google.cloud.compute_v1.types import (
        AcceleratorConfig,
        BulkInsertInstanceResourcePerInstanceProperties,
        InstanceProperties,
    )
    from google.cloud.compute_v1.types import BulkInsertInstanceResource as Message

    shape = Shape.parse(request.offer.instance_type)
    properties = InstanceProperties(
        machine_type=shape.machine_type, disks=[_boot_disk(request, "")], **_common(request, project)
    )
    if policy := request.extra.get(resolved.PLACEMENT):
        properties.resource_policies = [policy]
    if shape.accelerator:
        properties.guest_accelerators = [
            AcceleratorConfig(accelerator_type=shape.accelerator, accelerator_count=shape.count)
        ]
    bulk: BulkInsertInstanceResource = Message(
        count=request.nodes,
        min_count=request.nodes,
        instance_properties=properties,
        per_instance_properties={
            name: BulkInsertInstanceResourcePerInstanceProperties() for name in request.names()
        },
    )
    return bulk


def _common(request: LaunchRequest, project: str) -> dict[str, Any]:
    """The fields that Instance and InstanceProperties share."""
    from google.cloud.compute_v1.types import (
        Items,
        Metadata,
        ServiceAccount,
        Tags,
    )

    extra = request.extra
    common: dict[str, Any] = {
        "labels": labels(request),
        "metadata": Metadata(items=[Items(key="user-data", value=request.user_data)]),
        "network_interfaces": _interfaces(request, project),
        "scheduling": _scheduling(request),
        "reservation_affinity": _affinity(request),
    }
    if platform := extra.get(resolved.CPU_PLATFORM):
        common["min_cpu_platform"] = platform
    if tags := [tag for tag in extra.get(resolved.NETWORK_TAGS, "").split(",") if tag]:
        common["tags"] = Tags(items=tags)
    if email := extra.get(resolved.SERVICE_ACCOUNT):
        common["service_accounts"] = [ServiceAccount(email=email, scopes=[_CLOUD_PLATFORM])]
    return common


def labels(request: LaunchRequest) -> dict[str, str]:
    """What instances and their disks carry."""
    return {**request.tags, FINGERPRINT: fingerprint(request)}


def _affinity(request: LaunchRequest) -> ReservationAffinity:
    """The API's default would take capacity that somebody has reserved and pays for."""
    from google.cloud.compute_v1.types import ReservationAffinity as Message

    name = request.extra.get(resolved.RESERVATION)
    if name is None:
        none: ReservationAffinity = Message(consume_reservation_type="NO_RESERVATION")
        return none
    named: ReservationAffinity = Message(
        consume_reservation_type="SPECIFIC_RESERVATION", key=KEY, values=[name]
    )
    return named


def _scheduling(request: LaunchRequest) -> Scheduling:
    """What is bound to a reservation ends with it, and takes no other limit."""
    from google.cloud.compute_v1.types import Duration
    from google.cloud.compute_v1.types import Scheduling as Message

    spot = request.offer.capacity_type is CapacityType.SPOT
    bound = request.extra.get(resolved.BOUND) == "true"
    limited = request.max_age_seconds is not None and not bound
    scheduling: Scheduling = Message(
        automatic_restart=False,  # a restart on another host would be a new boot that nobody asked for
        on_host_maintenance="TERMINATE",  # the only kind that GPUs and Spot take
        provisioning_model="SPOT" if spot else "RESERVATION_BOUND" if bound else "STANDARD",
    )
    if limited:
        scheduling.max_run_duration = Duration(seconds=request.max_age_seconds)
    if spot or bound or limited:
        scheduling.instance_termination_action = "DELETE"
    return scheduling


def _boot_disk(request: LaunchRequest, type_prefix: str) -> AttachedDisk:
    from google.cloud.compute_v1.types import AttachedDisk as Message
    from google.cloud.compute_v1.types import AttachedDiskInitializeParams

    disk: AttachedDisk = Message(
        boot=True,
        auto_delete=True,
        initialize_params=AttachedDiskInitializeParams(
            source_image=request.image,
            disk_size_gb=int(request.extra[resolved.DISK_GIB]),
            disk_type=type_prefix + request.extra[resolved.DISK_TYPE],
            labels=labels(request),
        ),
    )
    return disk


def _interfaces(request: LaunchRequest, project: str) -> list[NetworkInterface]:
    """The one that reaches the world, and those of a fast interconnect, which do not."""
    from google.cloud.compute_v1.types import NetworkInterface as Message

    first = _interface(request, project)
    subnets = [url for url in request.extra.get(resolved.INTERFACES, "").split(",") if url]
    if not subnets:
        return [first]
    first.nic_type = fabric.FIRST
    kinds = fabric.INTERFACES[request.offer.instance_type]
    return [first, *(Message(subnetwork=u, nic_type=k) for u, k in zip(subnets, kinds, strict=True))]


def _interface(request: LaunchRequest, project: str) -> NetworkInterface:
    from google.cloud.compute_v1.types import AccessConfig
    from google.cloud.compute_v1.types import NetworkInterface as Message

    interface: NetworkInterface = Message()
    if request.subnet:
        interface.subnetwork = request.subnet
    else:
        interface.network = f"projects/{project}/global/networks/default"
    if request.extra.get(resolved.PUBLIC_ADDRESS) == "true":
        interface.access_configs = [AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")]
    return interface
