"""What the sandbox's clouds sell and where: one YAML table per provider, read once.

Sizes and prices are the vendors' published ones (EC2 DescribeInstanceTypes and on-demand price list; Compute
Engine machine types and Cloud Billing SKUs; Azure size pages and retail prices), as of 2026; spot prices are
typical discounts, since no fixed list exists. A region's `factor` scales both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

PROVIDERS = ("aws", "gcp", "azure")


@dataclass(frozen=True, slots=True)
class Gpu:
    """GPUs of one instance. `name` is the vendor API's own spelling; memory in MiB, of each."""

    name: str
    count: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A size. `family` is what quota counts by; `on_demand` and `spot` are USD per hour at factor 1, None
    where it is not sold that way; `disk_gb` is the local disk that comes with it.
    """

    provider: str
    name: str
    family: str
    vcpus: int
    memory_mib: int
    gpu: Gpu | None
    disk_gb: float
    on_demand: float | None
    spot: float | None
    architecture: str = "x86_64"


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone. `key` is unique among all providers' zones (EC2 zone id, `us-central1-a`, `eastus-1`), `name`
    what the account calls it (`us-east-1a`, `us-central1-a`, `1`). A region of Azure is a zone of its own
    too, with an empty name: the placement without a zone.
    """

    provider: str
    region: str
    key: str
    name: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One provider's table. `limits` are the default quota limits by name pattern, first match wins."""

    provider: str
    factors: Mapping[str, float]
    zones: Mapping[str, Zone]
    types: Mapping[str, InstanceType]
    sold_in: Mapping[str, frozenset[str]]
    limits: Mapping[str, float]
    components: Mapping[str, Mapping[str, Any]]

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self.factors)

    def zones_of(self, region: str) -> tuple[Zone, ...]:
        """The region's zones, the zoneless placement left out."""
        return tuple(zone for zone in self.zones.values() if zone.region == region and zone.name)

    def zone(self, text: str) -> Zone | None:
        """The zone of that key or, where it says no less, of that name."""
        if text in self.zones:
            return self.zones[text]
        if self.provider == "azure":
            return None
        return next((zone for zone in self.zones.values() if zone.name == text), None)

    def sold(self, zone_key: str, type_name: str) -> bool:
        """Whether the type exists in the zone at all; capacity is another matter."""
        if zone_key not in self.zones or type_name not in self.types:
            return False
        only = self.sold_in.get(type_name)
        return only is None or zone_key in only

    def list_price(self, zone_key: str, type_name: str, capacity_type: str) -> float | None:
        """USD per hour, None where it is not sold so."""
        if not self.sold(zone_key, type_name):
            return None
        size = self.types[type_name]
        price = size.spot if capacity_type == "spot" else size.on_demand
        return None if price is None else round(price * self.factors[self.zones[zone_key].region], 6)


@cache
def catalogue(provider: str) -> Catalogue:
    """The table of a provider; KeyError if there is none."""
    if provider not in PROVIDERS:
        raise KeyError(f"no catalogue for provider {provider!r}; there are {', '.join(PROVIDERS)}")
    table = yaml.safe_load(files(__package__).joinpath(f"{provider}.yaml").read_text("utf-8"))
    components: dict[str, dict[str, Any]] = table.get("components", {})
    types = [
        _type(provider, dict(zip(table["columns"], row, strict=True)), components) for row in table["types"]
    ]
    zones = _zones(provider, table["regions"])
    sold_in = {name: frozenset(keys) for name, keys in table.get("sold_in", {}).items()}
    _check(provider, zones, {size.name for size in types}, sold_in)
    return Catalogue(
        provider=provider,
        factors={name: float(region["factor"]) for name, region in table["regions"].items()},
        zones=zones,
        types={size.name: size for size in types},
        sold_in=sold_in,
        limits={name: float(limit) for name, limit in table["limits"].items()},
        components=components,
    )


def _zones(provider: str, regions: Mapping[str, Any]) -> dict[str, Zone]:
    zones: dict[str, Zone] = {}
    for region, row in regions.items():
        for key, name in row["zones"].items():
            zones[key] = Zone(provider, region, key, str(name))
        if provider == "azure":
            zones[region] = Zone(provider, region, region, "")
    return zones


def _type(provider: str, row: dict[str, Any], components: Mapping[str, Mapping[str, Any]]) -> InstanceType:
    gpu = Gpu(row["gpu"], row["gpus"], row["gpu_mib"]) if row["gpu"] else None
    price = components.get(row.get("series", ""))
    return InstanceType(
        provider=provider,
        name=row["name"],
        family=row["family"],
        vcpus=row["vcpus"],
        memory_mib=round(row["memory_gib"] * 1024),
        gpu=gpu,
        disk_gb=row["disk_gb"],
        on_demand=_sum(row, price, "on_demand") if price else row["on_demand"],
        spot=_sum(row, price, "spot") if price else row["spot"],
        architecture=row.get("architecture", "x86_64"),
    )


def _sum(row: Mapping[str, Any], price: Mapping[str, Any], how: str) -> float | None:
    """The price of a size that is billed by its parts."""
    parts = price.get(how)
    if parts is None or how not in row["sold"]:
        return None
    total = row["vcpus"] * parts["core"] + row["memory_gib"] * parts["ram"] + row["gpus"] * parts["gpu"]
    return round(float(total), 6)


def _check(
    provider: str, zones: Mapping[str, Zone], names: set[str], sold_in: Mapping[str, frozenset[str]]
) -> None:
    """A slip in a table shows at once, not as an offer that never appears."""
    wrong = sorted(set(sold_in) - names)
    wrong += sorted(key for keys in sold_in.values() for key in keys if key not in zones)
    if wrong:
        raise ValueError(f"catalogue {provider}: sold_in names what does not exist: {', '.join(wrong)}")
