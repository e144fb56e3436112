"""What a region sells: zones × machine types × capacity types, with prices."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import fabric
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.instances import partial_success, unreachable
from providers.gcp.machine_types import capacity_types, instance_types, machine_filter, region_of
from providers.gcp.observation import tail
from providers.gcp.price_feed import PriceFeed, Reading
from providers.gcp.price_list import AS_OF, list_price
from providers.gcp.urls import subnet_url
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey, OfferListing

_FRESH = timedelta(hours=1)
_RETRY = timedelta(minutes=2)
_PAGE = 500  # the API's maximum


@dataclass(frozen=True, slots=True)
class Catalogue:
    """zone -> what exists there, for the account's regions, and the places that could not be read."""

    zones: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)
    missing: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Sold:
    """A region's types by name, the families with how they are sold, and the places that were not read."""

    sizes: Mapping[str, InstanceType]
    kinds: frozenset[tuple[str, CapacityType]]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Types:
    """zone -> name -> type, and the places that were not read."""

    by_zone: Mapping[str, Mapping[str, InstanceType]]
    missing: tuple[str, ...] = ()


class Offers:
    """The offers of one account. One aggregated read serves all its regions for an hour."""

    def __init__(self, clients: Clients, calls: Calls, feed: PriceFeed, config: AccountConfig) -> None:
        self._clients = clients
        self._calls = calls
        self._feed = feed
        self._config = config
        self._project = str(config.project)
        self._lock = threading.Lock()
        self._catalogue = Catalogue()
        self._next = 0.0

    def of_region(self, region: str) -> OfferListing:
        """Raises ProviderError if nothing could be read."""
        settings = self._settings(region)
        catalogue = self._read_catalogue()
        reading = self._feed.read()
        subnets = [subnet_url(self._project, region, name) for name in settings.subnets]
        subnet = subnets[0] if len(subnets) == 1 else None
        offers = [
            self._offer(region, zone, size, capacity_type, reading, subnet)
            for zone, size in self._sizes(region, catalogue)
            for capacity_type in capacity_types(size.name)
        ]
        return OfferListing(tuple(offers), _missing(region, catalogue))

    def sold(self, region: str) -> Sold:
        """What the region's offers are of. Raises ProviderError if nothing could be read."""
        self._settings(region)
        catalogue = self._read_catalogue()
        sizes = {size.name: size for _, size in self._sizes(region, catalogue)}
        kinds = {(size.family, how) for size in sizes.values() for how in capacity_types(size.name)}
        return Sold(sizes, frozenset(kinds), _missing(region, catalogue))

    def types(self, region: str) -> Types:
        """What exists in the region's zones. Raises ProviderError if nothing could be read."""
        self._settings(region)
        catalogue = self._read_catalogue()
        by_zone: dict[str, dict[str, InstanceType]] = {}
        for zone, size in self._sizes(region, catalogue):
            by_zone.setdefault(zone, {})[size.name] = size
        return Types(by_zone, _missing(region, catalogue))

    def on_demand_price(self, region: str, size: InstanceType) -> float | None:
        """USD per hour on demand, whether it is sold so or not; None where the price list does not say."""
        book = self._feed.read().book
        return book.price(region, size, CapacityType.ON_DEMAND) if book is not None else None

    def _settings(self, region: str) -> RegionConfig:
        settings = self._config.regions.get(region)
        if settings is None:
            text = f"region {region} is not among the account's regions: {', '.join(self._config.regions)}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, text)
        return settings

    def _sizes(self, region: str, catalogue: Catalogue) -> Iterator[tuple[str, InstanceType]]:
        """Zones and what is sold there, as far as the settings allow."""
        zones = self._config.regions[region].zones
        for zone, sizes in sorted(catalogue.zones.items()):
            if region_of(zone) == region and (not zones or zone in zones):
                for size in sizes:
                    yield zone, with_fabric(size, self._config.regions[region])

    def _offer(
        self,
        region: str,
        zone: str,
        size: InstanceType,
        capacity_type: CapacityType,
        reading: Reading,
        subnet: str | None,
    ) -> Offer:
        key = OfferKey("gcp", self._config.name, region, zone, size.name, capacity_type)
        if reading.book is not None:
            price = reading.book.price(region, size, capacity_type)
            return Offer(key, size, price, reading.at, subnet=subnet)
        gpus = size.accelerator.count if size.accelerator else 0
        price = list_price(region, size.name, gpus, capacity_type)
        return Offer(key, size, price, AS_OF, "snapshot", subnet)

    def _read_catalogue(self) -> Catalogue:
        with self._lock:
            clock = self._calls.clock
            if clock.monotonic() < self._next:
                return self._catalogue
            catalogue = self._fetch()
            wait = _RETRY if catalogue.missing else _FRESH
            self._catalogue = catalogue
            self._next = clock.monotonic() + wait.total_seconds()
            return catalogue

    def _fetch(self) -> Catalogue:
        from google.cloud.compute_v1.types import AggregatedListMachineTypesRequest

        allowed = frozenset(self._config.allowed_types)
        missing: set[str] = set()
        scopes = self._aggregated(
            self._clients.machine_types.aggregated_list,
            AggregatedListMachineTypesRequest,
            machine_filter(allowed),
            missing,
        )
        by_zone: dict[str, list[Any]] = {}
        for scope in scopes:
            for message in scope.machine_types:
                if region_of(tail(message.zone)) in self._config.regions:
                    by_zone.setdefault(tail(message.zone), []).append(message)
        cards = self._cards(missing)
        zones = {
            zone: tuple(instance_types(messages, cards.get(zone, {}), allowed))
            for zone, messages in by_zone.items()
        }
        return Catalogue(zones, frozenset(missing))

    def _cards(self, missing: set[str]) -> dict[str, dict[str, int]]:
        """zone -> acceleratorType -> most cards per instance."""
        from google.cloud.compute_v1.types import AggregatedListAcceleratorTypesRequest

        scopes = self._aggregated(
            self._clients.accelerator_types.aggregated_list,
            AggregatedListAcceleratorTypesRequest,
            'name eq "nvidia-.*"',
            missing,
        )
        found: dict[str, dict[str, int]] = {}
        for scope in scopes:
            for message in scope.accelerator_types:
                cards = found.setdefault(tail(message.zone), {})
                cards[message.name] = message.maximum_cards_per_instance
        return found

    def _aggregated(self, method: Any, request_type: Any, wanted: str, missing: set[str]) -> Iterator[Any]:
        """Every scope of an aggregated list; places that it could not read are added to `missing`."""
        request = request_type(
            project=self._config.project,
            filter=wanted,
            max_results=_PAGE,
            **partial_success(request_type),
        )
        for page in self._calls.pages(method, request, Where(self._config.name)):
            missing |= unreachable(page)
            yield from page.items.values()


def with_fabric(size: InstanceType, settings: RegionConfig) -> InstanceType:
    """The type with the interconnect that the region's networks give it."""
    return replace(size, fabric=fabric.GPUDIRECT) if fabric.subnets_of(settings, size.name) else size


def _missing(region: str, catalogue: Catalogue) -> tuple[str, ...]:
    return tuple(sorted(place for place in catalogue.missing if region in (place, region_of(place))))
