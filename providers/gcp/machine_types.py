"""Machine types of Compute Engine as instance types: names, GPUs, quota families, how they are sold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from providers.accelerators import MEMORY_GB
from providers.vocabulary import Accelerator, CapacityType, InstanceType

_SSD_GIB = 375  # one bundled local SSD partition (Compute Engine: "About Local SSD disks")


@dataclass(frozen=True, slots=True)
class Gpu:
    """`name`: canonical. `family`: what quotas count it by (`NVIDIA_L4_GPUS`, gpu_family `NVIDIA_H100`)."""

    name: str
    family: str


# By acceleratorType, as the API spells it.
GPUS: dict[str, Gpu] = {
    "nvidia-tesla-p4": Gpu("P4", "NVIDIA_P4"),
    "nvidia-tesla-p100": Gpu("P100", "NVIDIA_P100"),
    "nvidia-tesla-v100": Gpu("V100", "NVIDIA_V100"),
    "nvidia-tesla-t4": Gpu("T4", "NVIDIA_T4"),
    "nvidia-tesla-a100": Gpu("A100", "NVIDIA_A100"),
    "nvidia-a100-80gb": Gpu("A100-80GB", "NVIDIA_A100_80GB"),
    "nvidia-l4": Gpu("L4", "NVIDIA_L4"),
    "nvidia-h100-80gb": Gpu("H100", "NVIDIA_H100"),
    "nvidia-h100-mega-80gb": Gpu("H100-MEGA", "NVIDIA_H100_MEGA"),
    "nvidia-h200-141gb": Gpu("H200", "NVIDIA_H200"),
    "nvidia-b200": Gpu("B200", "NVIDIA_B200"),
    "nvidia-gb200": Gpu("GB200", "NVIDIA_GB200"),
    "nvidia-rtx-pro-6000": Gpu("RTX-PRO-6000", "NVIDIA_RTX_PRO_6000"),
}

# GPUs that are attached to a machine type without one: (acceleratorType, count) -> machine types offered so.
# The API's limits are wider (T4: up to 48 vCPUs with one or two, 96 with four).
ATTACHED: dict[tuple[str, int], tuple[str, ...]] = {
    ("nvidia-tesla-t4", 1): ("n1-standard-4", "n1-standard-8"),
    ("nvidia-tesla-t4", 2): ("n1-standard-8",),
    ("nvidia-tesla-t4", 4): ("n1-standard-16",),
    ("nvidia-tesla-v100", 1): ("n1-standard-8",),
    ("nvidia-tesla-v100", 2): ("n1-standard-16",),
    ("nvidia-tesla-v100", 4): ("n1-standard-32",),
    ("nvidia-tesla-v100", 8): ("n1-standard-64",),
    ("nvidia-tesla-p100", 1): ("n1-standard-8",),
    ("nvidia-tesla-p100", 2): ("n1-standard-16",),
    ("nvidia-tesla-p100", 4): ("n1-standard-32",),
}

# What is offered to jobs that need no GPU.
CPU_TYPES = frozenset(
    f"{series}-standard-{size}"
    for series, sizes in (("e2", (2, 4, 8, 16)), ("n2", (2, 4, 8, 16)), ("c3", (4, 8, 22)))
    for size in sizes
)

# CPU quotas by series; the others draw on CPUS.
_CPU_FAMILIES = {"n2": "N2_CPUS", "c2": "C2_CPUS", "c3": "C3_CPUS"}

# Sold as Spot, Flex-start or reserved only (Compute Engine: "Consumption options" of accelerator-optimized
# machine types).
_NO_ON_DEMAND = re.compile(r"a3-ultragpu-|a4-|a4x-|a3-highgpu-[124]g$")

# Take no Persistent Disk as boot disk, or Hyperdisk by default (the API's `diskType`: A3 Ultra and newer).
_HYPERDISK = re.compile(r"a3-ultragpu-|a4-|a4x-|g4-|n4-|c4-")

# Variants without the bundled disks; offered only where the settings name them.
_VARIANT = re.compile(r"-nolssd$")

_GPU_SERIES = ("a2", "a3", "a4", "a4x", "g2", "g4")

# How GPUs of one instance reach each other (Compute Engine: "GPU machine types"); of P100 and P4 not told.
_LINKS: dict[str, str] = {
    **dict.fromkeys(("V100", "A100", "A100-80GB", "H100", "H100-MEGA", "H200", "B200", "GB200"), "nvlink"),
    **dict.fromkeys(("T4", "L4", "RTX-PRO-6000"), "pcie"),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """An instance type's name taken apart: `n1-standard-4+nvidia-tesla-t4x1` or just a machine type."""

    machine_type: str
    accelerator: str | None = None
    count: int = 0

    @classmethod
    def parse(cls, name: str) -> Shape:
        machine_type, plus, attached = name.partition("+")
        if not plus:
            return cls(machine_type)
        accelerator, _, count = attached.rpartition("x")
        return cls(machine_type, accelerator, int(count))

    def __str__(self) -> str:
        return (
            f"{self.machine_type}+{self.accelerator}x{self.count}" if self.accelerator else self.machine_type
        )


def region_of(zone: str) -> str:
    """`us-central1` of `us-central1-a`; also right for AI zones (`us-south1-ai1b`)."""
    return zone.rsplit("-", 1)[0]


def capacity_types(name: str) -> tuple[CapacityType, ...]:
    """How an instance type is sold without a contract."""
    if _NO_ON_DEMAND.match(name):
        return (CapacityType.SPOT,)
    return (CapacityType.ON_DEMAND, CapacityType.SPOT)


def boot_disk_type(name: str) -> str:
    """The balanced disk that the machine type can boot from."""
    return "hyperdisk-balanced" if _HYPERDISK.match(name) else "pd-balanced"


def machine_filter(allowed: Iterable[str]) -> str:
    """A list filter for the machine types that can become offers: one field, RE2, the API's `eq` form."""
    named = {Shape.parse(name).machine_type for name in allowed}
    if not named:
        attached = {name for names in ATTACHED.values() for name in names}
        named = set(CPU_TYPES) | attached
        series = "|".join(_GPU_SERIES)
        return f'name eq "({series})-.*|{"|".join(sorted(named))}"'
    return f'name eq "{"|".join(sorted(named))}"'


def instance_types(
    machine_types: Iterable[Any], accelerators: dict[str, int], allowed: frozenset[str]
) -> Iterator[InstanceType]:
    """What one zone sells, from its MachineType messages.

    accelerators: acceleratorType -> most cards per instance, as the zone has them. allowed: the settings'
    list; empty means every type with an accelerator and a few without.
    """
    for machine in machine_types:
        if machine.deprecated.state in ("OBSOLETE", "DELETED"):
            continue
        for shape in _shapes(machine, accelerators):
            found = _instance_type(machine, shape)
            if found is not None and _wanted(found, allowed):
                yield found


def _wanted(found: InstanceType, allowed: frozenset[str]) -> bool:
    if allowed:
        return found.name in allowed
    if _VARIANT.search(found.name):
        return False
    return found.accelerator is not None or found.name in CPU_TYPES


def _shapes(machine: Any, accelerators: dict[str, int]) -> Iterator[Shape]:
    """The machine type by itself and with each GPU that the zone can attach."""
    yield Shape(machine.name)
    for (accelerator, count), names in ATTACHED.items():
        if machine.name in names and accelerators.get(accelerator, 0) >= count:
            yield Shape(machine.name, accelerator, count)


def _instance_type(machine: Any, shape: Shape) -> InstanceType | None:
    """None for accelerators that we have no name for."""
    accelerator, count = shape.accelerator, shape.count
    if accelerator is None and machine.accelerators:
        first = machine.accelerators[0]
        accelerator, count = first.guest_accelerator_type, first.guest_accelerator_count
    gpu = GPUS.get(accelerator) if accelerator else None
    if accelerator is not None and (gpu is None or count < 1):
        return None
    return InstanceType(
        name=str(shape),
        family=gpu.family if gpu else _CPU_FAMILIES.get(machine.name.split("-")[0], "CPUS"),
        vcpus=machine.guest_cpus,
        memory_gib=machine.memory_mb / 1024,
        accelerator=accelerator_of(gpu.name, count) if gpu else None,
        local_disk_gib=float(machine.bundled_local_ssds.partition_count * _SSD_GIB),
        architecture="arm64" if machine.architecture == "ARM64" else "x86_64",
    )


def accelerator_of(name: str, count: int) -> Accelerator:
    """So many GPUs of that canonical name in one instance."""
    link = _LINKS.get(name) if count > 1 else None
    return Accelerator(name, count, MEMORY_GB[name], link)


# Machine type prefix -> quota family, for errors about types whose offer is not at hand.
_FAMILY_OF_PREFIX: tuple[tuple[str, str], ...] = (
    ("a2-ultragpu-", "NVIDIA_A100_80GB"),
    ("a2-", "NVIDIA_A100"),
    ("a3-highgpu-", "NVIDIA_H100"),
    ("a3-megagpu-", "NVIDIA_H100_MEGA"),
    ("a3-ultragpu-", "NVIDIA_H200"),
    ("a4x-", "NVIDIA_GB200"),
    ("a4-", "NVIDIA_B200"),
    ("g2-", "NVIDIA_L4"),
    ("g4-", "NVIDIA_RTX_PRO_6000"),
)


def family_of(name: str) -> str:
    """The quota family of an instance type's name."""
    shape = Shape.parse(name)
    if shape.accelerator in GPUS:
        return GPUS[shape.accelerator].family
    for prefix, family in _FAMILY_OF_PREFIX:
        if name.startswith(prefix):
            return family
    return _CPU_FAMILIES.get(name.split("-")[0], "CPUS")
