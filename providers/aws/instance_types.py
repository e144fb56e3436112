"""From EC2's description of an instance type to ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from providers.accelerators import MEMORY_GB
from providers.aws.api import Api
from providers.aws.fabric import EFA, Adapter, adapters
from providers.vocabulary import Accelerator, CapacityType, InstanceType

# Preprocessing needs no GPU; a few sizes of the current general and compute families serve it.
CPU_TYPES = (
    "c7i.large",
    "c7i.xlarge",
    "c7i.2xlarge",
    "c7i.4xlarge",
    "m7i.large",
    "m7i.xlarge",
    "m7i.2xlarge",
    "m7i.4xlarge",
    "m7i.8xlarge",
)
GPU_PATTERNS = ("p*", "g*")
FILTER_VALUES = 200  # at most so many in one filter [EC2 API Reference, "Filter"]

# (GpuInfo name, MiB each) of models that come in two sizes, then names that we spell otherwise.
SIZED = {
    ("A100", 40960): "A100",
    ("A100", 81920): "A100-80GB",
    ("V100", 16384): "V100",
    ("V100", 32768): "V100-32GB",
}
SPELLED = {"T4g": "T4G", "RTX PRO Server 6000": "RTX-PRO-6000", "RTX PRO 4500": "RTX-PRO-4500"}

# How GPUs of a model reach each other within one instance; EC2's API does not say. [EC2 instance types guide,
# "Accelerated computing instances"]
LINKS = {
    **dict.fromkeys(
        ("V100", "V100-32GB", "A100", "A100-80GB", "H100", "H200", "B200", "GB200", "B300", "GB300"), "nvlink"
    ),
    **dict.fromkeys(("T4", "T4G", "A10G", "L4", "L40S", "RTX-PRO-4500", "RTX-PRO-6000"), "pcie"),
}

# First letters of a type to what its vCPU quota is called. [Service Quotas, Amazon EC2, "Running On-Demand G
# and VT instances" and so on; `gr6` counts as G]
FAMILIES = {
    "p": "P",
    "g": "G",
    "gr": "G",
    "vt": "G",
    "trn": "Trn",
    "inf": "Inf",
    "dl": "DL",
    "f": "F",
    "x": "X",
    "hpc": "HPC",
}

USAGE_CLASSES = {"on-demand": CapacityType.ON_DEMAND, "spot": CapacityType.SPOT}


@dataclass(frozen=True, slots=True)
class Sold:
    """A type, how it may be bought, and the EFA interfaces that it can be given."""

    type: InstanceType
    capacity_types: tuple[CapacityType, ...]
    adapters: tuple[Adapter, ...] = ()


def quota_family(name: str) -> str:
    """Whose quota a type counts against, per region and capacity type."""
    letters = re.match("[a-z]+", name)
    return FAMILIES.get(letters.group() if letters else "", "Standard")


def patterns(allowed: Iterable[str]) -> list[str]:
    """Values for EC2's `instance-type` filter: what the settings allow, or all that we know how to use."""
    return sorted(allowed) or [*GPU_PATTERNS, *CPU_TYPES]


def read_types(api: Api, region: str, allowed: tuple[str, ...]) -> dict[str, Sold]:
    """The region's usable types by name."""
    described = api.pages(
        "ec2",
        region,
        "describe_instance_types",
        "InstanceTypes",
        Filters=[{"Name": "instance-type", "Values": patterns(allowed)}],
        MaxResults=100,
    )
    sold = (parse(raw, any_architecture=bool(allowed)) for raw in described)
    return {one.type.name: one for one in sold if one is not None}


def read_named(api: Api, region: str, names: Iterable[str]) -> dict[str, Sold]:
    """Types by name, of any architecture; what we cannot use or the region does not know is left out."""
    sold = (parse(raw, any_architecture=True) for raw in _described(api, region, names))
    return {one.type.name: one for one in sold if one is not None}


def read_sizes(api: Api, region: str, names: Iterable[str]) -> dict[str, int]:
    """vCPUs of these types as they come; one that the region does not know is left out."""
    return {raw["InstanceType"]: raw["VCpuInfo"]["DefaultVCpus"] for raw in _described(api, region, names)}


def _described(api: Api, region: str, names: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    wanted = sorted(names)
    for start in range(0, len(wanted), FILTER_VALUES):
        yield from api.pages(
            "ec2",
            region,
            "describe_instance_types",
            "InstanceTypes",
            Filters=[{"Name": "instance-type", "Values": wanted[start : start + FILTER_VALUES]}],
            MaxResults=100,
        )


def read_offerings(api: Api, region: str, names: Iterable[str]) -> frozenset[tuple[str, str]]:
    """(type, zone id) of where these types exist in the region. Existence says nothing of capacity."""
    wanted = sorted(names)
    found: set[tuple[str, str]] = set()
    for start in range(0, len(wanted), FILTER_VALUES):
        offerings = api.pages(
            "ec2",
            region,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone-id",
            Filters=[{"Name": "instance-type", "Values": wanted[start : start + FILTER_VALUES]}],
            MaxResults=1000,
        )
        found.update((raw["InstanceType"], raw["Location"]) for raw in offerings)
    return frozenset(found)


def parse(raw: Mapping[str, Any], *, any_architecture: bool = False) -> Sold | None:
    """None for what we do not use: bare metal, other makers' accelerators, fractions of a GPU, and, unless
    `any_architecture`, types that cannot run x86_64 images.
    """
    name: str = raw["InstanceType"]
    architectures = raw.get("ProcessorInfo", {}).get("SupportedArchitectures", ["x86_64"])
    if raw.get("BareMetal") or not ("x86_64" in architectures or any_architecture):
        return None
    gpus = raw.get("GpuInfo", {}).get("Gpus", [])
    accelerator = _accelerator(gpus)
    if gpus and accelerator is None:
        return None
    layout = adapters(raw)
    disk_gb = raw.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0)
    return Sold(
        InstanceType(
            name=name,
            family=quota_family(name),
            vcpus=raw["VCpuInfo"]["DefaultVCpus"],
            memory_gib=raw["MemoryInfo"]["SizeInMiB"] / 1024,
            accelerator=accelerator,
            local_disk_gib=round(disk_gb * 1e9 / 2**30, 1),
            architecture="x86_64" if "x86_64" in architectures else architectures[0],
            fabric=EFA if layout else None,
        ),
        tuple(USAGE_CLASSES[usage] for usage in raw["SupportedUsageClasses"] if usage in USAGE_CLASSES),
        layout,
    )


def _accelerator(gpus: list[Mapping[str, Any]]) -> Accelerator | None:
    """A fraction of a GPU has Count 0 and says its share in LogicalGpuCount and GpuPartitionSize."""
    if not gpus:
        return None
    gpu = gpus[0]
    count = sum(one.get("Count", 0) for one in gpus)
    if gpu.get("Manufacturer") != "NVIDIA" or count < 1 or gpu.get("GpuPartitionSize", 1) != 1:
        return None
    mib = gpu["MemoryInfo"]["SizeInMiB"]
    name = SIZED.get((gpu["Name"], mib)) or SPELLED.get(gpu["Name"]) or gpu["Name"].replace(" ", "-")
    link = LINKS.get(name) if count > 1 else None
    return Accelerator(name, count, MEMORY_GB.get(name, round(mib * 2**20 / 1e9, 1)), link)
