"""What a region sells to a subscription, and at which prices."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from clock import Clock
from providers.azure import price_snapshot as snapshot
from providers.azure.arm import Arm
from providers.azure.prices import PriceKey, RetailPrices
from providers.azure.skus import Size, sizes
from providers.azure.versions import SKUS
from providers.config import AccountConfig
from providers.errors import ProviderError
from providers.vocabulary import CapacityType, Offer, OfferKey, OfferListing

# Reading the sizes of a region takes Azure half a minute, and they hardly change.
SIZES_FOR = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class _Kept:
    sizes: Mapping[str, Size]
    until: float


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of one region and where they are from."""

    prices: Mapping[PriceKey, float]
    at: datetime
    source: str

    def of(self, size: str, capacity_type: CapacityType) -> float | None:
        """USD per hour, None where no price is known."""
        return self.prices.get((size.lower(), capacity_type))


class Market:
    """One account's offers. Thread-safe."""

    def __init__(self, config: AccountConfig, arm: Arm, prices: RetailPrices, clock: Clock) -> None:
        self._config = config
        self._arm = arm
        self._prices = prices
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}
        self._listed: dict[str, PriceList] = {}

    def offers(self, region: str) -> OfferListing:
        """Each size in each placement, spot beside on-demand. ProviderError if sizes cannot be read."""
        found = self.sizes(region)
        prices = self._price_list(region, found)
        with self._lock:
            self._listed[region] = prices
        return OfferListing(tuple(self._offers(region, found, prices)))

    def built_in(self, region: str) -> OfferListing:
        """What ships with the adapter; nothing of a region whose prices do not. Spot prices are unknown."""
        if region not in snapshot.REGIONS:
            return OfferListing((), (f"{region} is not built in",))
        allowed = self._config.allowed_types
        found = {name: size for name, size in snapshot.sizes().items() if not allowed or name in allowed}
        return OfferListing(tuple(self._offers(region, found, _built_in_prices(region))))

    def _offers(self, region: str, found: Mapping[str, Size], prices: PriceList) -> list[Offer]:
        settings = self._config.regions[region]
        only = {zone if zone.startswith(region) else f"{region}-{zone}" for zone in settings.zones}
        return [
            self._offer(size, region, zone, capacity_type, prices)
            for size in found.values()
            for zone in size.placements(region)
            if not only or zone in only
            for capacity_type in (CapacityType.ON_DEMAND, CapacityType.SPOT)
            if size.spot or capacity_type is CapacityType.ON_DEMAND
        ]

    def sizes(self, region: str) -> Mapping[str, Size]:
        """The region's sizes by name, at most six hours old."""
        known = self.known_sizes(region)
        if known is not None:
            return known
        found = self._arm.reduced(
            f"{self._arm.subscription}/providers/Microsoft.Compute/skus",
            SKUS,
            lambda rows: sizes(rows, region, self._config.allowed_types),
            filter_=f"location eq '{region}'",
        )
        with self._lock:
            self._kept[region] = _Kept(found, self._clock.monotonic() + SIZES_FOR)
        return found

    def demand_prices(self, region: str, names: Sequence[str]) -> dict[str, float | None]:
        """On-demand USD per hour by size in lower case, as read last; None is unknown."""
        with self._lock:
            known = self._listed.get(region)
        if known is None:
            known = self._price_list(region, names)
        return {name.lower(): known.of(name, CapacityType.ON_DEMAND) for name in names}

    def known_sizes(self, region: str) -> Mapping[str, Size] | None:
        """The same without asking Azure; None if they were not read lately."""
        with self._lock:
            kept = self._kept.get(region)
        return kept.sizes if kept is not None and kept.until > self._clock.monotonic() else None

    def forget(self, region: str) -> None:
        """A refusal contradicts what was read: read it anew next time."""
        with self._lock:
            self._kept.pop(region, None)

    def restricted(self, region: str, zone: str, size: str) -> bool:
        """Whether the sizes read last say that the subscription may not use this one there."""
        known = self.known_sizes(region)
        return known is not None and size in known and zone not in known[size].placements(region)

    def _price_list(self, region: str, found: Iterable[str]) -> PriceList:
        try:
            return PriceList(self._prices.read(region, found), self._clock.now(), "live")
        except ProviderError:
            return _built_in_prices(region)

    def _offer(
        self, size: Size, region: str, zone: str, capacity_type: CapacityType, prices: PriceList
    ) -> Offer:
        price = prices.of(size.type.name, capacity_type)
        subnets = self._config.regions[region].subnets
        return Offer(
            OfferKey("azure", self._config.name, region, zone, size.type.name, capacity_type),
            size.type_in(region, zone, capacity_type),
            price,
            prices.at if price is not None else None,
            prices.source,
            subnets[0] if len(subnets) == 1 else None,
        )


def _built_in_prices(region: str) -> PriceList:
    here = snapshot.ON_DEMAND if region in snapshot.REGIONS else {}
    prices = {(size.lower(), CapacityType.ON_DEMAND): price for size, price in here.items()}
    return PriceList(prices, snapshot.TAKEN_AT, "snapshot")
