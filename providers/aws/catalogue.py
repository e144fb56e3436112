"""What a region sells to this account: types × zones with a subnet × capacity types, with prices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from clock import Clock
from providers.aws import fabric
from providers.aws.api import Api
from providers.aws.cache import Cache
from providers.aws.fabric import Adapter
from providers.aws.instance_types import Sold, read_named, read_offerings, read_types
from providers.aws.network import Network, read_network
from providers.aws.placement_scores import read_signals
from providers.aws.prices import OnDemandPrices, PriceList, read_spot
from providers.config import AccountConfig, RegionConfig
from providers.signals import SignalListing
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey, OfferListing

TYPES_SECONDS = 24 * 3600.0
OFFERINGS_SECONDS = 6 * 3600.0
NETWORK_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """All that was read of one region. `offered` holds (type, zone id), `spot` its prices. fitted: a type as
    the region's settings leave it.
    """

    region: str
    network: Network
    types: Mapping[str, Sold]
    offered: frozenset[tuple[str, str]]
    spot: Mapping[tuple[str, str], float]
    on_demand: PriceList
    fitted: Callable[[InstanceType], InstanceType] = lambda type_: type_


class Catalogue:
    """Reads and remembers. Spot prices are read each time, everything else when it is too old."""

    def __init__(self, api: Api, config: AccountConfig, clock: Clock) -> None:
        self._api, self._config, self._clock = api, config, clock
        self._types: Cache[str, dict[str, Sold]] = Cache(clock, TYPES_SECONDS)
        self._further: Cache[tuple[str, frozenset[str]], dict[str, Sold]] = Cache(clock, TYPES_SECONDS)
        self._offerings: Cache[str, frozenset[tuple[str, str]]] = Cache(clock, OFFERINGS_SECONDS)
        self._networks: Cache[str, Network] = Cache(clock, NETWORK_SECONDS)
        self.on_demand = OnDemandPrices(api, clock)

    def network(self, region: str) -> Network:
        """Zones and subnets, at most ten minutes old."""
        config = self._config.regions.get(region, RegionConfig())
        return self._networks.get(region, lambda: read_network(self._api, region, config))

    def offers(self, region: str) -> OfferListing:
        """Everything for sale. Raises ProviderError if a part of it cannot be read; only a missing list of
        on-demand prices is bridged by the built-in one.
        """
        network = self.network(region)
        types = self._sold(region)
        offered = self._offerings.get(region, lambda: read_offerings(self._api, region, types))
        now = self._clock.now()
        spot_types = {name for name, sold in types.items() if CapacityType.SPOT in sold.capacity_types}
        spot = read_spot(self._api, region, spot_types & {name for name, _ in offered}, network, now)
        fitted = partial(fabric.fitted, self._config.regions.get(region, RegionConfig()))
        shelf = Shelf(region, network, types, offered, spot, self.on_demand.of(region), fitted)
        return OfferListing(tuple(join(self._config.provider, self._config.name, shelf, now)))

    def type_names(self, region: str) -> tuple[str, ...]:
        """What is offered in the region, in whichever zone; at most a day old."""
        return tuple(sorted(self._sold(region)))

    def types(self, region: str, names: Iterable[str]) -> dict[str, InstanceType]:
        """Types by name, those that the settings leave out included; without those that we cannot use."""
        config = self._config.regions.get(region, RegionConfig())
        return {name: fabric.fitted(config, sold.type) for name, sold in self._named(region, names).items()}

    def adapters(self, region: str, name: str) -> tuple[Adapter, ...]:
        """The EFA interfaces that a type can be given."""
        sold = self._named(region, [name]).get(name)
        return sold.adapters if sold is not None else ()

    def signals(self, region: str) -> SignalListing:
        """What EC2 says of spot capacity, for the types that are offered."""
        types = self._sold(region)
        offered = self._offerings.get(region, lambda: read_offerings(self._api, region, types))
        here = {name for name, _ in offered}
        known = {name: sold for name, sold in types.items() if name in here}
        return read_signals(self._api, region, known, self._clock.now())

    def _named(self, region: str, names: Iterable[str]) -> dict[str, Sold]:
        wanted = frozenset(names)
        sold = self._sold(region)
        further = wanted.difference(sold)
        if further:
            extra = self._further.get((region, further), lambda: read_named(self._api, region, further))
            sold = {**sold, **extra}
        return {name: sold[name] for name in wanted if name in sold}

    def _sold(self, region: str) -> dict[str, Sold]:
        allowed = self._config.allowed_types
        return self._types.get(region, lambda: read_types(self._api, region, allowed))


def join(provider: str, account: str, shelf: Shelf, now: datetime) -> Iterator[Offer]:
    """The offers: what exists in a zone that has a subnet, in each way in which it can be bought."""
    for zone in shelf.network.zones:
        for name in sorted(shelf.types):
            if zone.subnet is None or (name, zone.id) not in shelf.offered:
                continue
            sold = shelf.types[name]
            for capacity_type in sold.capacity_types:
                key = OfferKey(provider, account, shelf.region, zone.id, name, capacity_type)
                price, priced_at, source = _price(shelf, name, zone.id, capacity_type, now)
                yield Offer(key, shelf.fitted(sold.type), price, priced_at, source, zone.subnet)


def _price(
    shelf: Shelf, name: str, zone_id: str, capacity_type: CapacityType, now: datetime
) -> tuple[float | None, datetime | None, str]:
    if capacity_type is CapacityType.SPOT:
        price, read_at, source = shelf.spot.get((name, zone_id)), now, "live"
    else:
        prices = shelf.on_demand
        price, read_at, source = prices.by_type.get(name), prices.read_at, prices.source
    return price, read_at if price is not None else None, source
