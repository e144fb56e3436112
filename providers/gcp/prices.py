"""USD per hour from the SKUs of the Cloud Billing catalogue. Pure: pages are fetched elsewhere.

A machine is billed by its parts: vCPUs, GiB of memory, GPUs, local disk. How SKUs are described: Cloud
Billing API, services/6F81-5844-456A (Compute Engine).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.gcp.machine_types import GPUS, Shape
from providers.vocabulary import CapacityType, InstanceType

SERVICE = "6F81-5844-456A"

_HOURS_PER_MONTH = 730  # Google's own month for "GiBy.mo" prices
_SSD = "ssd"

# Sold in another way than plain on-demand or Spot, or not a part of a machine.
_DROPPED = re.compile(
    r"sole tenancy|reserved|premium|custom|suspended|\bDWS\b|calendar|defined duration|commitment|windows",
    re.IGNORECASE,
)
_SPOT = re.compile(r"\bpreemptible\b", re.IGNORECASE)
_DECORATION = re.compile(
    r"^spot preemptible |\s+attached to (?:spot )?preemptible vms| running in .*$| in [A-Z].*$", re.IGNORECASE
)
_PART = re.compile(r"^(?P<series>.+) (?P<part>core|ram)$", re.IGNORECASE)
_GPU = re.compile(r"^(?:nvidia )?(?:tesla )?(?P<gpu>.+?)(?: gpu)?$", re.IGNORECASE)

# Description of a series -> the prefix of its machine types.
_SERIES = {
    "a2 instance": "a2",
    "a3 instance": "a3-highgpu",
    "a3plus instance": "a3-megagpu",
    "a3ultra instance": "a3-ultragpu",
    "g2 instance": "g2",
    "g4 instance": "g4",
    "n1 predefined instance": "n1",
    "n2 instance": "n2",
    "c3 instance": "c3",
    "e2 instance": "e2",
}

# Description of a GPU -> acceleratorType.
_GPUS = {
    "t4": "nvidia-tesla-t4",
    "p4": "nvidia-tesla-p4",
    "p100": "nvidia-tesla-p100",
    "v100": "nvidia-tesla-v100",
    "a100": "nvidia-tesla-a100",
    "a100 80gb": "nvidia-a100-80gb",
    "l4": "nvidia-l4",
    "h100 80gb": "nvidia-h100-80gb",
    "h100 80gb plus": "nvidia-h100-mega-80gb",
    "h100 80gb mega": "nvidia-h100-mega-80gb",
    "h100 mega 80gb": "nvidia-h100-mega-80gb",
    "h200 141gb": "nvidia-h200-141gb",
    "rtx 6000 96gb": "nvidia-rtx-pro-6000",
    "a4 nvidia b200 (1 gpu slice)": "nvidia-b200",
}

# Machine types whose GPU SKU is the price of the whole machine's share.
_WHOLE = ("a4-",)

_TYPE_OF_GPU = {gpu.name: accelerator_type for accelerator_type, gpu in GPUS.items()}


@dataclass(slots=True)
class PriceBook:
    """(region, spot, part) -> USD per hour of one vCPU, GiB or GPU. `regions`: only these are kept."""

    regions: frozenset[str]
    parts: dict[tuple[str, bool, str], float] = field(default_factory=dict)

    def add(self, skus: Iterable[Mapping[str, Any]]) -> None:
        """Take in a page. Of two SKUs for one part the dearer counts, so that their order does not."""
        for sku in skus:
            read = read_sku(sku)
            if read is None:
                continue
            spot, part, price = read
            for region in self.regions.intersection(sku.get("serviceRegions", ())):
                key = (region, spot, part)
                self.parts[key] = max(price, self.parts.get(key, 0.0))

    def price(self, region: str, size: InstanceType, capacity_type: CapacityType) -> float | None:
        """None if any part has no price: what is unknown is never taken for nothing."""
        total = 0.0
        spot = capacity_type is CapacityType.SPOT
        for part, amount in _parts_of(size):
            unit = self.parts.get((region, spot, part))
            if unit is None:
                return None
            total += unit * amount
        return round(total, 6) if total > 0 else None


def _parts_of(size: InstanceType) -> list[tuple[str, float]]:
    """What a machine is made of, as (part, amount)."""
    machine_type = Shape.parse(size.name).machine_type
    gpus: list[tuple[str, float]] = []
    if size.accelerator is not None:
        gpus = [(_TYPE_OF_GPU[size.accelerator.name], float(size.accelerator.count))]
    if machine_type.startswith(_WHOLE):
        return gpus
    series = _series_of(machine_type)
    parts = [(f"{series} core", float(size.vcpus)), (f"{series} ram", size.memory_gib), *gpus]
    if size.local_disk_gib:
        parts.append((_SSD, size.local_disk_gib))
    return parts


def _series_of(machine_type: str) -> str:
    """`a3-megagpu` has SKUs of its own, `g2-standard` those of `g2`."""
    first, second, *_ = [*machine_type.split("-"), ""]
    double = f"{first}-{second}"
    return double if double in _SERIES.values() else first


def read_sku(sku: Mapping[str, Any]) -> tuple[bool, str, float] | None:
    """(spot, part, USD per hour of one unit), None for a SKU that is no part of a machine."""
    category = sku.get("category", {})
    description = str(sku.get("description", ""))
    usage = category.get("usageType")
    if usage not in ("OnDemand", "Preemptible") or _DROPPED.search(description):
        return None
    part = _part(description)
    price = _unit_price(sku)
    if part is None or price is None:
        return None
    # Some Spot SKUs are filed under OnDemand; their description tells.
    return usage == "Preemptible" or bool(_SPOT.search(description)), part, price


def _part(description: str) -> str | None:
    if description.lower().startswith("ssd backed local storage"):
        return _SSD
    bare = _DECORATION.sub("", description).strip()
    match = _PART.match(bare)
    if match:
        series = _SERIES.get(match["series"].lower())
        return f"{series} {match['part'].lower()}" if series else None
    if bare.lower() in _GPUS:
        return _GPUS[bare.lower()]
    gpu = _GPU.match(bare)
    return _GPUS.get(gpu["gpu"].lower()) if gpu else None


def _unit_price(sku: Mapping[str, Any]) -> float | None:
    """A price of nothing is a placeholder, not a gift."""
    try:
        expression = sku["pricingInfo"][0]["pricingExpression"]
        money = expression["tieredRates"][0]["unitPrice"]
        price = int(money.get("units") or 0) + int(money.get("nanos") or 0) / 1e9
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    if not math.isfinite(price) or price <= 0:
        return None
    return price / _HOURS_PER_MONTH if str(expression.get("usageUnit", "")).endswith(".mo") else price
