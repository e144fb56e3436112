"""Spot prices per zone from EC2, on-demand prices per region from the Pricing API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from clock import Clock
from providers.aws.api import Api
from providers.aws.cache import Cache
from providers.aws.network import Network
from providers.aws.price_snapshot import ON_DEMAND, READ_AT
from providers.errors import ProviderError

DAY_HALF = 12 * 3600.0
TRY_AGAIN = 600.0

# The dearest instance is below 200 USD an hour; a hundred times that is a mistake in the list.
MOST_USD = 20_000.0

PRODUCT_DESCRIPTIONS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")

# Shared Linux instances without extras, bought on demand. [AWS Price List Query API, AmazonEC2 attributes]
PLAIN_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "productFamily": "Compute Instance",
}


@dataclass(frozen=True, slots=True)
class PriceList:
    """USD per hour by instance type, when and where it was read (`live` or `snapshot`)."""

    by_type: Mapping[str, float]
    read_at: datetime
    source: str


def read_spot(
    api: Api, region: str, types: Iterable[str], network: Network, now: datetime
) -> dict[tuple[str, str], float]:
    """(type, zone id) -> the price in force. Asked from `now` on, EC2 tells each pool's last change."""
    wanted = sorted(types)
    if not wanted:
        return {}
    history = api.pages(
        "ec2",
        region,
        "describe_spot_price_history",
        "SpotPriceHistory",
        InstanceTypes=wanted,
        ProductDescriptions=list(PRODUCT_DESCRIPTIONS),
        StartTime=now,
        MaxResults=1000,
    )
    return newest(history, network)


def newest(history: Iterable[Mapping[str, Any]], network: Network) -> dict[tuple[str, str], float]:
    """The latest price of each pool; what is no price is passed over."""
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for row in history:
        zone = row.get("AvailabilityZoneId") or network.id_of(row["AvailabilityZone"])
        pool, price = (row["InstanceType"], zone), usd(row.get("SpotPrice"))
        if price and (pool not in latest or row["Timestamp"] > latest[pool][0]):
            latest[pool] = (row["Timestamp"], price)
    return {pool: price for pool, (_, price) in latest.items()}


class OnDemandPrices:
    """Lists that are read twice a day. When the Pricing API cannot be read (often for want of permission),
    the built-in list stands in for ten minutes, for all regions: a partition has only one such API.
    """

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._lists: Cache[str, PriceList] = Cache(clock, DAY_HALF)
        self._silent_until = 0.0

    def of(self, region: str) -> PriceList:
        """The region's list; never raises."""
        if self._clock.monotonic() < self._silent_until:
            return snapshot(region)
        try:
            return self._lists.get(region, lambda: self.read(region))
        except ProviderError:
            self._silent_until = self._clock.monotonic() + TRY_AGAIN
            return snapshot(region)

    def read(self, region: str) -> PriceList:
        """The region's list as the Pricing API has it."""
        home = pricing_region(region)
        if home is None:
            return snapshot(region)
        filters = {"regionCode": region, **PLAIN_LINUX}
        products = self._api.pages(
            "pricing",
            home,
            "get_products",
            "PriceList",
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "TERM_MATCH", "Field": f, "Value": v} for f, v in filters.items()],
            MaxResults=100,
        )
        priced = (parse_product(product, region) for product in products)
        return PriceList({name: price for name, price in priced if price}, self._clock.now(), "live")


def snapshot(region: str) -> PriceList:
    """The built-in list; empty for a region it does not have."""
    return PriceList(ON_DEMAND.get(region, {}), READ_AT, "snapshot")


def pricing_region(region: str) -> str | None:
    """Where the Pricing API of a region's partition is; None where the partition has none."""
    if region.startswith("cn-"):
        return "cn-northwest-1"
    return None if region.startswith(("us-gov-", "us-iso", "eu-isoe-")) else "us-east-1"


def usd(text: Any) -> float:
    """A price, USD an hour; 0 for what is none: no number, nothing, or more than any instance costs."""
    try:
        price = float(text)
    except (TypeError, ValueError):
        return 0.0
    return price if 0 < price <= MOST_USD else 0.0


def parse_product(text: str, region: str) -> tuple[str, float]:
    """Instance type and hourly price of one product, which comes as JSON in a string; 0 if it has none. One
    that cannot be read has neither, and keeps nobody from the rest of the list.
    """
    import orjson

    try:
        product = orjson.loads(text)
        attributes = product["product"]["attributes"]
        name = str(attributes.get("instanceType", ""))
        if attributes.get("regionCode", region) != region:
            return name, 0.0
        terms = product.get("terms", {}).get("OnDemand", {}).values()
        dimensions = [dimension for term in terms for dimension in term["priceDimensions"].values()]
        return name, max((usd(one["pricePerUnit"].get("USD")) for one in dimensions), default=0.0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return "", 0.0
