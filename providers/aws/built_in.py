"""What is known of EC2 before it was asked: GPU types, the zones that have them, and on-demand list prices.

`built_in.json` is what DescribeInstanceTypes and DescribeInstanceTypeOfferings answered in each region when
this version was made. Spot prices move, so none is built in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from providers.aws.fabric import fitted
from providers.aws.instance_types import quota_family
from providers.aws.prices import PriceList, snapshot
from providers.config import AccountConfig, RegionConfig
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey


@cache
def _table() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads(files("providers.aws").joinpath("built_in.json").read_text("utf-8"))
    return table


def offers(config: AccountConfig, region: str) -> Iterator[Offer]:
    """The offers of a region, as far as the settings allow them; asks nobody."""
    table, prices = _table(), snapshot(region)
    here = config.regions.get(region, RegionConfig())
    for name, zones in table["sold"].get(region, {}).items():
        if config.allowed_types and not any(fnmatchcase(name, one) for one in config.allowed_types):
            continue
        row = dict(zip(table["columns"], table["types"][name], strict=True))
        for zone in zones_of(zones, here.zones):
            for capacity_type in map(CapacityType, row["capacity_types"]):
                key = OfferKey(config.provider, config.name, region, zone, name, capacity_type)
                yield _offer(key, fitted(here, _type(name, row)), prices)


def zones_of(zones: list[str], chosen: tuple[str, ...]) -> list[str]:
    """Those of a type's zones that the settings choose by id. Names mean other zones in each account, so
    settings that use any leave the choice open.
    """
    if not chosen or any(not zone.rpartition("-")[2].startswith("az") for zone in chosen):
        return zones
    return [zone for zone in zones if zone in chosen]


def _type(name: str, row: Mapping[str, Any]) -> InstanceType:
    return InstanceType(
        name=name,
        family=quota_family(name),
        vcpus=row["vcpus"],
        memory_gib=row["memory_gib"],
        accelerator=Accelerator(row["gpu"], row["gpus"], row["gpu_gb"], row["link"]),
        local_disk_gib=row["disk_gib"],
        fabric=row["fabric"],
    )


def _offer(key: OfferKey, type_: InstanceType, prices: PriceList) -> Offer:
    price = prices.by_type.get(key.instance_type) if key.capacity_type is CapacityType.ON_DEMAND else None
    return Offer(key, type_, price, prices.read_at if price is not None else None, "snapshot")
