"""What Azure's size names mean where its API does not say it: GPU model and memory, and counts that it gets
wrong. Sources: the size pages of the Azure documentation (sizes/gpu-accelerated) and resource SKU answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from providers.accelerators import MEMORY_GB
from providers.vocabulary import Accelerator


@dataclass(frozen=True, slots=True)
class GpuSizes:
    """Sizes whose names fit `pattern` carry this model. `count` overrules the API's `GPUS` capability; `link`
    is how several reach each other.
    """

    pattern: re.Pattern[str]
    gpu: str
    memory_gb: float
    count: int | None = None
    link: str | None = None


def _row(
    pattern: str,
    gpu: str,
    memory_gb: float | None = None,
    count: int | None = None,
    link: str | None = None,
) -> GpuSizes:
    memory = MEMORY_GB[gpu] if memory_gb is None else memory_gb
    return GpuSizes(re.compile(pattern, re.IGNORECASE), gpu, memory, count, link)


# First match counts. The three at the end have no `GPUs` capability at all.
GPU_SIZES: tuple[GpuSizes, ...] = (
    _row(r"^Standard_NC\d+as_T4_v3$", "T4", link="pcie"),
    _row(r"^Standard_NV(36ads|36adms|72ads)_A10_v5$", "A10", link="pcie"),
    _row(r"^Standard_NC\d+ads_A100_v4$", "A100-80GB", link="pcie"),
    _row(r"^Standard_ND96asr_v4$", "A100", link="nvlink"),
    _row(r"^Standard_ND96amsr_A100_v4$", "A100-80GB", link="nvlink"),
    _row(r"^Standard_NC(40ads|80adis)_H100_v5$", "H100-NVL"),
    _row(r"^Standard_ND96isr_H100_v5$", "H100", link="nvlink"),
    _row(r"^Standard_ND96isr_H200_v5$", "H200", link="nvlink"),
    _row(r"^Standard_ND96is_MI300X_v5$|^Standard_ND96isr_MI300X_v5$", "MI300X", 192, 8),
    _row(r"^Standard_ND128isr_(NDR_)?GB200_v6$", "GB200", None, 4, "nvlink"),
    _row(r"^Standard_ND128isr_(NDR_)?GB300_v6$", "GB300", None, 4, "nvlink"),
)

# `GPUs` says 1 for these, but they hold a sixth, a third and a half of one: no job asks for that.
FRACTIONAL = re.compile(r"^Standard_NV(6|12|18)ads_A10_v5$", re.IGNORECASE)

# Needs a confidential-VM image and security profile, which a plain launch does not have.
CONFIDENTIAL = re.compile(r"^Standard_NCC", re.IGNORECASE)

# Sizes without a GPU for jobs that want none, from 2 to 64 vCPUs.
CPU_SIZES = frozenset(
    {
        "Standard_D2s_v5",
        "Standard_D4s_v5",
        "Standard_D8s_v5",
        "Standard_D16s_v5",
        "Standard_D32s_v5",
        "Standard_D64s_v5",
        "Standard_E4s_v5",
        "Standard_E8s_v5",
        "Standard_E16s_v5",
        "Standard_E32s_v5",
    }
)


def accelerator(size: str, gpus: float | None) -> Accelerator | None:
    """The GPUs of a size; `gpus` is its `GPUs` capability. None: it has none, or none that can be named."""
    row = next((row for row in GPU_SIZES if row.pattern.match(size)), None)
    if row is None or FRACTIONAL.match(size):
        return None
    count = row.count if row.count is not None else gpus
    if not count or count != int(count):
        return None
    return Accelerator(row.gpu, int(count), row.memory_gb, row.link if count > 1 else None)


def may_carry_gpus(size: str) -> bool:
    """Whether a name is one of a size with GPUs that can be named; how many it has is for the API to say."""
    return any(row.pattern.match(size) for row in GPU_SIZES)


def worth_offering(size: str, has_accelerator: bool, allowed: frozenset[str]) -> bool:
    """Whether a size becomes an offer: what the settings name, else what has GPUs or is a known CPU size."""
    if FRACTIONAL.match(size) or CONFIDENTIAL.match(size):
        return False
    if allowed:
        return size in allowed
    return has_accelerator or size in CPU_SIZES
