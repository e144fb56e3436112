"""List prices for when the Cloud Billing catalogue cannot be read: on-demand and Spot of us-central1.

As published for August 2026. Sizes of one series are exact multiples of each other in vCPUs, memory, GPUs and
disk, so each series stands here once; what is not a multiple is left out.
"""

from __future__ import annotations

from datetime import UTC, datetime

from providers.vocabulary import CapacityType

AS_OF = datetime(2026, 8, 1, tzinfo=UTC)
REGION = "us-central1"

# Machine type prefix -> (GPUs, on-demand USD per hour or None, Spot USD per hour) of one size.
_SERIES: dict[str, tuple[int, float | None, float]] = {
    "a2-highgpu-": (1, 3.67, 1.93),
    "a2-ultragpu-": (8, 40.55, 22.08),
    "a3-highgpu-": (8, 88.49, 50.61),
    "g4-standard-": (1, 4.50, 1.80),
}
_SINGLE: dict[str, tuple[float, float]] = {"g2-standard-4": (0.707, 0.397)}


def list_price(region: str, name: str, gpus: int, capacity_type: CapacityType) -> float | None:
    """USD per hour of a machine type with so many GPUs; None where the list does not say."""
    if region != REGION or gpus < 1:
        return None
    spot = capacity_type is CapacityType.SPOT
    if name in _SINGLE:
        return _SINGLE[name][spot]
    for prefix, (count, on_demand, discounted) in _SERIES.items():
        price = discounted if spot else on_demand
        if name.startswith(prefix) and price is not None:
            return round(price * gpus / count, 4)
    return None
