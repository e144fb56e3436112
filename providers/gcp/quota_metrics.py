"""Which quotas of Compute Engine a family of machines draws on. Tables and their look-up; no I/O.

Sources: the `metric` enum of Quota in the Compute Engine API; Cloud Quotas, "Cloud Quotas API overview" for
GPUS_PER_GPU_FAMILY; Compute Engine, "Preemptible instances" and "Provisioning models" for what Spot draws on.
"""

from __future__ import annotations

from providers.gcp.machine_types import GPUS
from providers.quotas import QuotaUnit

# GPU families that a region counts by a metric of their own, NVIDIA_L4_GPUS. What came later is one metric
# with the family as a dimension, of which the region says nothing.
OWN_METRIC = frozenset(
    {
        "NVIDIA_P4",
        "NVIDIA_P100",
        "NVIDIA_V100",
        "NVIDIA_T4",
        "NVIDIA_A100",
        "NVIDIA_A100_80GB",
        "NVIDIA_L4",
    }
)
GPU_FAMILIES = frozenset(gpu.family for gpu in GPUS.values())

# Family -> the vCPU quota that its machines draw on too: P4 to T4 are attached to N1 machines, A100 comes
# with A2. Of G2, A3 and newer no regional vCPU quota is documented, so nothing is concluded from one.
VCPU_METRIC: dict[str, str] = {
    "NVIDIA_P4": "CPUS",
    "NVIDIA_P100": "CPUS",
    "NVIDIA_V100": "CPUS",
    "NVIDIA_T4": "CPUS",
    "NVIDIA_A100": "A2_CPUS",
    "NVIDIA_A100_80GB": "A2_CPUS",
    "CPUS": "CPUS",
    "N2_CPUS": "N2_CPUS",
    "C2_CPUS": "C2_CPUS",
    "C3_CPUS": "C3_CPUS",
}

# Where a region has it, all its Spot machines count their vCPUs here and no longer by series.
PREEMPTIBLE_VCPUS = "PREEMPTIBLE_CPUS"

# Limits on the whole project, Spot included. One that the project does not show does not exist for it.
PROJECT_WIDE: dict[str, QuotaUnit] = {
    "GPUS_ALL_REGIONS": QuotaUnit.GPU,
    "CPUS_ALL_REGIONS": QuotaUnit.VCPU,
}

PER_FAMILY = "GPUS_PER_GPU_FAMILY"


def standard(family: str) -> str:
    """The key of a GPU family's quota: `NVIDIA_L4_GPUS`, or `GPUS_PER_GPU_FAMILY/NVIDIA_H200`, whose second
    part is the dimension `gpu_family`.
    """
    return f"{family}_GPUS" if family in OWN_METRIC else f"{PER_FAMILY}/{family}"


def preemptible(family: str) -> str:
    """The key of a GPU family's quota for Spot and Flex-start."""
    return f"PREEMPTIBLE_{family}_GPUS"
