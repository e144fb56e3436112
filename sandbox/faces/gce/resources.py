"""The catalogue as Compute Engine's resources: places, machine and accelerator types, images, networks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

from sandbox.catalogue import Catalogue, InstanceType
from sandbox.faces.gce.answers import LINKS
from sandbox.quotas import QuotaRow

_EPOCH = "2026-01-01T00:00:00.000-08:00"
_SSD_GIB = 375
#: The network whose profile takes RDMA interfaces only.
RDMA = "rdma"
#: Subnetwork (one in each region) -> its network. `gpu-0` and on are for the further interfaces of A3.
SUBNETS: dict[str, str] = {
    **{name: name for name in ("default", "training", *(f"gpu-{number}" for number in range(9)))},
    **{f"rdma-{number}": RDMA for number in range(8)},
}
#: project -> family -> the image that stands for it.
IMAGES = {
    "sandbox-project": {"corral": "corral-20260901"},
    "ubuntu-os-cloud": {"ubuntu-2204-lts": "ubuntu-2204-jammy-v20260901"},
    "ubuntu-os-accelerator-images": {
        "ubuntu-accelerator-2204-amd64-with-nvidia-580": "ubuntu-accelerator-2204-amd64-nvidia-580-v20260901"
    },
}
#: Addresses of a subnetwork: a /21 without the four that Google keeps.
ADDRESSES = 2044
_IMAGE_GB = 20
_NO_METRIC = ("H100_MEGA_GPUS", "H200_GPUS", "B200_GPUS")
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def number(text: str) -> str:
    """A stable id of something that is not an instance, as the API writes 64-bit numbers."""
    return str(int(hashlib.sha256(text.encode()).hexdigest()[:15], 16))


def valid_name(name: str) -> bool:
    """RFC 1035, as the API asks of names."""
    return _NAME.fullmatch(name) is not None


def zone(project: str, region: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "id": number(f"zone/{name}"),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "status": "UP",
        "region": f"{LINKS}projects/{project}/regions/{region}",
        "selfLink": f"{LINKS}projects/{project}/zones/{name}",
    }


def region(
    project: str, name: str, zones: list[str], quotas: list[QuotaRow], warning: str = ""
) -> dict[str, Any]:
    """warning: the code that says why quotas could not be looked up."""
    shown: dict[str, Any] = {
        "kind": "compute#region",
        "id": number(f"region/{name}"),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [f"{LINKS}projects/{project}/zones/{key}" for key in zones],
        "quotas": _quotas(quotas),
        "selfLink": f"{LINKS}projects/{project}/regions/{name}",
    }
    if warning:
        text = f"Quota information of region {name} is not available."
        shown["quotaStatusWarning"] = {"code": warning, "message": text}
    return shown


def project(name: str, quotas: list[QuotaRow]) -> dict[str, Any]:
    return {
        "kind": "compute#project",
        "id": "100000000001",
        "creationTimestamp": _EPOCH,
        "name": name,
        "quotas": _quotas(quotas),
        "selfLink": f"{LINKS}projects/{name}",
        "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        "defaultNetworkTier": "PREMIUM",
    }


def _quotas(rows: list[QuotaRow]) -> list[dict[str, Any]]:
    """The quotas that have a metric of the API's own; of newer GPUs only Cloud Quotas tells."""
    return [
        {"metric": row.name, "limit": row.limit, "usage": row.usage}
        for row in rows
        if "/" not in row.name and not row.name.endswith(_NO_METRIC)
    ]


def machine_types(table: Catalogue, project: str, zone_name: str) -> Iterator[dict[str, Any]]:
    """What the zone has; a size with an attached GPU is shown as the machine type without it."""
    seen: set[str] = set()
    for size in table.types.values():
        name, _, attached = size.name.partition("+")
        if name in seen or not table.sold(zone_name, size.name):
            continue
        seen.add(name)
        yield _machine_type(size, name, project, zone_name, own_gpu=not attached)


def _machine_type(
    size: InstanceType, name: str, project: str, zone_name: str, *, own_gpu: bool
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "kind": "compute#machineType",
        "id": number(f"machine/{name}"),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": f"{size.vcpus} vCPUs, {size.memory_mib / 1024:g} GB RAM",
        "guestCpus": size.vcpus,
        "memoryMb": size.memory_mib,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "isSharedCpu": False,
        "architecture": "ARM64" if size.architecture == "arm64" else "X86_64",
        "zone": zone_name,
        "selfLink": f"{LINKS}projects/{project}/zones/{zone_name}/machineTypes/{name}",
    }
    if own_gpu and size.gpu is not None:
        card = {"guestAcceleratorType": size.gpu.name, "guestAcceleratorCount": size.gpu.count}
        shown["accelerators"] = [card]
    if size.disk_gb:
        partitions = round(size.disk_gb / _SSD_GIB)
        shown["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": partitions}
    return shown


def accelerator_types(table: Catalogue, project: str, zone_name: str) -> Iterator[dict[str, Any]]:
    """GPUs of the sizes that the zone has, with how many one instance can have."""
    cards: dict[str, int] = {}
    for size in table.types.values():
        if size.gpu is not None and table.sold(zone_name, size.name):
            cards[size.gpu.name] = max(size.gpu.count, cards.get(size.gpu.name, 0))
    for name, most in cards.items():
        yield {
            "kind": "compute#acceleratorType",
            "id": number(f"accelerator/{name}"),
            "creationTimestamp": _EPOCH,
            "name": name,
            "description": name.upper().replace("-", " "),
            "maximumCardsPerInstance": most,
            "zone": f"{LINKS}projects/{project}/zones/{zone_name}",
            "selfLink": f"{LINKS}projects/{project}/zones/{zone_name}/acceleratorTypes/{name}",
        }


def image(project_name: str, name: str) -> dict[str, Any] | None:
    """An image by name; None if there is none."""
    families = {image: family for family, image in IMAGES.get(project_name, {}).items()}
    if name not in families:
        return None
    return {
        "kind": "compute#image",
        "id": number(f"image/{project_name}/{name}"),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "sourceType": "RAW",
        "status": "READY",
        "archiveSizeBytes": "1073741824",
        "diskSizeGb": str(_IMAGE_GB),
        "family": families[name],
        "architecture": "X86_64",
        "selfLink": f"{LINKS}projects/{project_name}/global/images/{name}",
    }


def image_of_reference(text: str) -> bool:
    """Whether a `sourceImage` names an image that exists, by name or by family."""
    match = re.search(r"projects/([^/]+)/global/images/(family/)?([^/]+)$", text)
    if match is None:
        return False
    families = IMAGES.get(match[1], {})
    return match[3] in (families if match[2] else families.values())


def subnetwork(project_name: str, region_name: str, name: str, index: int) -> dict[str, Any]:
    """index: which region, for its addresses."""
    return {
        "kind": "compute#subnetwork",
        "id": number(f"subnetwork/{region_name}/{name}"),
        "creationTimestamp": _EPOCH,
        "name": name,
        "network": f"{LINKS}projects/{project_name}/global/networks/{SUBNETS[name]}",
        "ipCidrRange": f"10.{128 + index}.{8 * list(SUBNETS).index(name)}.0/21",
        "region": f"{LINKS}projects/{project_name}/regions/{region_name}",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "selfLink": f"{LINKS}projects/{project_name}/regions/{region_name}/subnetworks/{name}",
    }


def usable(shown: dict[str, Any]) -> dict[str, Any]:
    """A subnetwork as `listUsable` shows it."""
    fields = ("ipCidrRange", "network", "purpose", "stackType")
    return {"subnetwork": shown["selfLink"], **{name: shown[name] for name in fields}}


def router(project_name: str, region_name: str, network: str) -> dict[str, Any]:
    """A router with a NAT for all subnetworks of a network."""
    place = f"{LINKS}projects/{project_name}/regions/{region_name}"
    return {
        "kind": "compute#router",
        "id": number(f"router/{region_name}/{network}"),
        "creationTimestamp": _EPOCH,
        "name": f"{network}-router",
        "network": f"{LINKS}projects/{project_name}/global/networks/{network}",
        "region": place,
        "nats": [
            {
                "name": "nat",
                "type": "PUBLIC",
                "sourceSubnetworkIpRangesToNat": "ALL_SUBNETWORKS_ALL_IP_RANGES",
                "natIpAllocateOption": "AUTO_ONLY",
            }
        ],
        "selfLink": f"{place}/routers/{network}-router",
    }
