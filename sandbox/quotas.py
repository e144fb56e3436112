"""Which quota an instance counts against, by each vendor's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sandbox.catalogue import Catalogue, InstanceType

#: Where a limit that holds for the whole project is kept.
GLOBAL = "global"

#: Azure's limit on machines of a region, whatever their size.
MACHINES = "virtualMachines"

#: Azure's limit on public addresses of a region; what is in use its face knows.
ADDRESSES = "IPv4StandardSkuPublicIpAddresses"

# GPU families that Compute Engine counts by a metric of their own; newer ones share GPUS_PER_GPU_FAMILY.
_OWN_METRIC = frozenset({"NVIDIA_T4", "NVIDIA_L4", "NVIDIA_A100", "NVIDIA_A100_80GB"})

#: The limits that a Compute Engine project may have on all its regions together.
PROJECT_WIDE = ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
_SPOT_CPUS = "PREEMPTIBLE_CPUS"

Limit = Callable[[str, str], float | None]


@dataclass(frozen=True, slots=True)
class Draw:
    """What one instance takes from one quota. `region` is `global` for a project-wide one."""

    region: str
    name: str
    amount: float


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A quota as it stands. `unit` is `vcpu`, `gpu` or `instance`."""

    provider: str
    region: str
    name: str
    limit: float
    usage: float
    unit: str


def draws(table: Catalogue, size: InstanceType, region: str, capacity_type: str, limit: Limit) -> list[Draw]:
    """The quotas that an instance of `size` counts against; one without a limit is left out.

    EC2: vCPUs per family, on-demand and spot apart (Amazon EC2 user guide, "On-Demand Instance quotas").
    Azure: on-demand takes from its family and from the region's cores, spot from lowPriorityCores only
    ("Azure Spot VMs"); either is one of the region's machines. Compute Engine: GPUs per model; spot takes
    preemptible quota, or the standard one where a project has none ("Provisioning models").
    """
    if table.provider == "aws":
        found = [Draw(region, f"{size.family}/{capacity_type}", size.vcpus)]
    elif table.provider == "azure":
        names = ("lowPriorityCores",) if capacity_type == "spot" else (size.family, "cores")
        found = [*(Draw(region, name, size.vcpus) for name in names), Draw(region, MACHINES, 1)]
    else:
        found = _gce(size, region, capacity_type == "spot", limit)
    return [draw for draw in found if limit(draw.region, draw.name) is not None]


def _gce(size: InstanceType, region: str, spot: bool, limit: Limit) -> list[Draw]:
    found = []
    if size.gpu is not None:
        standard = gpu_metric(size.family)
        preemptible = f"PREEMPTIBLE_{size.family}_GPUS"
        name = preemptible if spot and limit(region, preemptible) else standard
        found = [Draw(region, name, size.gpu.count), Draw(GLOBAL, "GPUS_ALL_REGIONS", size.gpu.count)]
    cpus = _gce_cpus(size)
    if cpus is not None:
        # One preemptible quota serves all series (Compute Engine: "Preemptible instances").
        name = _SPOT_CPUS if spot and limit(region, _SPOT_CPUS) else cpus
        found.append(Draw(region, name, size.vcpus))
    found.append(Draw(GLOBAL, "CPUS_ALL_REGIONS", size.vcpus))
    return found


def gpu_metric(family: str) -> str:
    """The on-demand metric of a GPU family; `GPUS_PER_GPU_FAMILY/FAMILY` where the family is a dimension."""
    return f"{family}_GPUS" if family in _OWN_METRIC else f"GPUS_PER_GPU_FAMILY/{family}"


def _gce_cpus(size: InstanceType) -> str | None:
    if size.name.startswith("a2-"):
        return "A2_CPUS"
    return "CPUS" if size.name.startswith(("e2-", "n1-")) else None


def names(table: Catalogue) -> list[str]:
    """Every regional quota that the table's types can count against, in a fixed order."""
    found: dict[str, None] = {}
    for size in table.types.values():
        if table.provider == "aws":
            some = [f"{size.family}/on_demand", f"{size.family}/spot"]
        elif table.provider == "azure":
            some = ["cores", "lowPriorityCores", MACHINES, ADDRESSES, size.family]
        else:
            gpus = [gpu_metric(size.family), f"PREEMPTIBLE_{size.family}_GPUS"] if size.gpu else []
            cpus = _gce_cpus(size)
            some = gpus + ([cpus, _SPOT_CPUS] if cpus else [])
        found |= dict.fromkeys(some)
    return list(found)


def unit(name: str, provider: str) -> str:
    """What a quota counts."""
    if name in (MACHINES, ADDRESSES):
        return "instance"
    return "gpu" if provider == "gcp" and "CPUS" not in name else "vcpu"
