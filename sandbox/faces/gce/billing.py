"""Cloud Billing's SKUs of Compute Engine, made from the prices now in force.

A machine's SKUs add up to the world's price. Cloud Billing prices by region, the world by pool: of a series
in a region the first pool whose price differs from the list counts, so that a scenario's price shows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.catalogue import Catalogue, InstanceType
from sandbox.faces.gce.answers import ApiError
from sandbox.faces.gce.resources import number
from sandbox.ledger import stamp
from sandbox.vm import CapacityType
from sandbox.world import World

SERVICE = "6F81-5844-456A"
_HOURS_PER_MONTH = 730
_SSD_PER_MONTH: dict[CapacityType, float] = {"on_demand": 0.08, "spot": 0.048}  # USD per GiB
_LEAST = 1e-9  # USD; what a SKU can say at least

# Machine type prefix -> the catalogue's series, how SKUs call its vCPUs and memory, and how its GPU.
_SERIES: tuple[tuple[str, str, str, str], ...] = (
    ("e2-", "e2", "E2 Instance", ""),
    ("n1-", "n1", "N1 Predefined Instance", "Nvidia Tesla T4 GPU"),
    ("g2-", "g2", "G2 Instance", "Nvidia L4 GPU"),
    ("a2-highgpu-", "a2", "A2 Instance", "Nvidia Tesla A100 GPU"),
    ("a2-ultragpu-", "a2-ultra", "A2 Instance", "Nvidia Tesla A100 80GB GPU"),
    ("a3-highgpu-", "a3", "A3 Instance", "Nvidia H100 80GB GPU"),
    ("a3-megagpu-", "a3-mega", "A3Plus Instance", "Nvidia H100 80GB Mega GPU"),
    ("a3-ultragpu-", "a3-ultra", "A3Ultra Instance", "Nvidia H200 141GB GPU"),
    ("a4-", "a4", "", "A4 Nvidia B200 (1 gpu slice)"),
)
_GROUPS = (("Core", "CPU"), ("Ram", "RAM"), ("SSD", "LocalSSD"))
_MODELS: tuple[CapacityType, ...] = ("on_demand", "spot")


def page(world: World, table: Catalogue, query: Mapping[str, str]) -> dict[str, Any]:
    """One page of the service's SKUs."""
    if query.get("currencyCode", "USD") != "USD":
        raise ApiError(400, "badRequest", "Only USD is supported here.")
    size = int(query.get("pageSize") or 5000)
    start = _offset(query.get("pageToken", ""))
    if not 1 <= size <= 5000:
        raise ApiError(400, "badRequest", f"pageSize {size}: expected 1 to 5000")
    every = list(skus(world, table))
    rest = len(every) > start + size
    token = base64.urlsafe_b64encode(str(start + size).encode()).decode() if rest else ""
    return {"skus": every[start : start + size], "nextPageToken": token}


def _offset(token: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(token or b"MA=="))
    except (ValueError, binascii.Error):
        raise ApiError(400, "badRequest", "pageToken: not one of ours") from None


def skus(world: World, table: Catalogue) -> Iterator[dict[str, Any]]:
    """All SKUs, those included that a reader has to pass over."""
    now = stamp(world.now())
    for region in table.regions:
        for model in _MODELS:
            for description, unit, price in _parts(world, table, region, model):
                yield _sku(description, region, model, unit, price, now)
        yield from _others(region, now)


def _parts(
    world: World, table: Catalogue, region: str, model: CapacityType
) -> Iterator[tuple[str, str, float]]:
    """(description, unit, USD) of everything that machines of a region are made of."""
    ssd = _SSD_PER_MONTH[model] / _HOURS_PER_MONTH
    cores: dict[str, tuple[float, float]] = {}
    for prefix, series, machines, gpu in _SERIES:
        found = _reference(world, table, region, prefix, model)
        if found is None:
            continue
        size, price, scale = found
        parts = table.components[series][model]
        if machines and machines not in cores:
            cores[machines] = parts["core"] * scale, parts["ram"] * scale
            yield f"{machines} Core", "h", cores[machines][0]
            yield f"{machines} Ram", "GiBy.h", cores[machines][1]
        if gpu and size.gpu is not None:
            core, ram = cores.get(machines, (0.0, 0.0))
            rest = price - size.vcpus * core - size.memory_mib / 1024 * ram
            rest -= ssd * size.disk_gb if machines else 0.0
            yield gpu, "h", max(_LEAST, rest / size.gpu.count)
    name = "SSD backed Local Storage"
    yield (f"{name} attached to" if model == "spot" else name), "GiBy.mo", _SSD_PER_MONTH[model]


def _reference(
    world: World, table: Catalogue, region: str, prefix: str, model: CapacityType
) -> tuple[InstanceType, float, float] | None:
    """A size of the series, its price, and that price as a multiple of the series' parts."""
    found: tuple[InstanceType, float, float] | None = None
    for size in table.types.values():
        for zone in table.zones_of(region) if size.name.startswith(prefix) else ():
            price = world.price("gcp", region, zone.key, size.name, model)
            listed = table.list_price(zone.key, size.name, model)
            if price is None or not listed:
                continue
            here = (size, price, table.factors[region] * price / listed)
            if price != listed:
                return here
            found = found or here
    return found


def _sku(
    description: str, region: str, model: CapacityType, unit: str, price: float, now: str
) -> dict[str, Any]:
    """`Spot Preemptible` stands first for machines and behind for what is attached."""
    if model == "spot":
        if description.endswith("attached to"):
            description += " Spot Preemptible VMs"
        else:
            description = f"Spot Preemptible {description}"
    joint = "in" if unit == "GiBy.mo" else "running in"
    usage = "Preemptible" if model == "spot" else "OnDemand"
    return _entry(f"{description} {joint} {region}", region, usage, unit, price, now)


def _others(region: str, now: str) -> Iterator[dict[str, Any]]:
    """Kinds of SKU that name the same parts and are no price of a machine that one can simply start."""
    for description, usage, price in (
        ("Commitment v1: A2 Cpu", "Commit1Yr", 0.0199),
        ("A2 Sole Tenancy Instance Core", "OnDemand", 0.001),
        ("Reserved Nvidia H100 80GB GPU", "OnDemand", 0.0),
        ("DWS Calendar Mode A4 Nvidia B200 (1 gpu slice)", "OnDemand", 5.0),
        ("Nvidia L4 GPU attached to DWS Defined Duration VMs", "OnDemand", 0.2),
        ("N1 Predefined Instance Core Premium", "OnDemand", 0.001),
    ):
        yield _entry(f"{description} running in {region}", region, usage, "h", price, now)


def _entry(description: str, region: str, usage: str, unit: str, price: float, now: str) -> dict[str, Any]:
    group = next((group for word, group in _GROUPS if word in description), "GPU")
    digits = number(f"{description}/{usage}")[:12]
    sku_id = f"{digits[:4]}-{digits[4:8]}-{digits[8:]}"
    nanos = round(price * 1e9)
    rate = {"currencyCode": "USD", "units": str(nanos // 10**9), "nanos": nanos % 10**9}
    expression = {
        "usageUnit": unit,
        "displayQuantity": 1,
        "tieredRates": [{"startUsageAmount": 0, "unitPrice": rate}],
        "baseUnit": "s",
    }
    return {
        "name": f"services/{SERVICE}/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Storage" if group == "LocalSSD" else "Compute",
            "resourceGroup": group,
            "usageType": usage,
        },
        "serviceRegions": [region],
        "pricingInfo": [{"summary": "", "pricingExpression": expression, "effectiveTime": now}],
        "serviceProviderName": "Google",
    }
