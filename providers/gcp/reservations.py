"""Reservations and future reservations of a project, and what a launch into one depends on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import reserved_words as words
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.instances import partial_success, unreachable, within
from providers.gcp.machine_types import region_of
from providers.gcp.observation import tail, valid_name
from providers.gcp.offers import Offers
from providers.reservations import Reservation, ReservationListing
from providers.vocabulary import InstanceType, Scope

_FRESH = timedelta(seconds=20)
_PAGE = 500  # the API's maximum
FUTURE = "futureReservations"


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reservation and FutureReservation messages, and the places or lists that could not be read."""

    now: tuple[Any, ...] = ()
    future: tuple[Any, ...] = ()
    missing: frozenset[str] = field(default_factory=frozenset)


class Reservations:
    """The reserved capacity of one account. Two lists serve all its regions for some seconds."""

    def __init__(self, clients: Clients, calls: Calls, offers: Offers, config: AccountConfig) -> None:
        self._clients = clients
        self._calls = calls
        self._offers = offers
        self._config = config
        self._project = str(config.project)
        self._lock = threading.Lock()
        self._reading = _Reading()
        self._next = float("-inf")

    def of_region(self, region: str) -> ReservationListing:
        """Those of types that are offered here. Raises ProviderError if they could not be listed."""
        types = self._offers.types(region)
        reading = self._read()
        at = self._calls.clock.now()
        bound = words.made_by_calendar(reading.future)
        found = [*self._current(region, types.by_zone, reading, bound, at)]
        known = {one.id for one in found}
        for message in reading.future:
            size = _size(message.specific_sku_properties.instance_properties, types.by_zone, message.zone)
            if size is not None and region_of(tail(message.zone)) == region:
                coming = words.future(message, size, region, at)
                if coming is not None and not words.delivered(message) & known:
                    found.append(coming)
        missing = {place for place in reading.missing if place == FUTURE} | within(
            region, reading.missing - {FUTURE}
        )
        return ReservationListing(tuple(found), tuple(sorted({*missing, *types.missing})))

    def held(self, region: str) -> Mapping[str, int]:
        """machine type -> reserved instances that nobody uses and that count against quota all the same.
        Raises ProviderError.
        """
        reading = self._read()
        if within(region, reading.missing - {FUTURE}):
            raise ProviderError(ErrorKind.TRANSIENT, "the reservations of some zones could not be read")
        bound = words.made_by_calendar(reading.future)
        unused: dict[str, int] = {}
        for message in reading.now:
            if region_of(tail(message.zone)) == region and not words.is_bound(message, bound):
                sku = message.specific_reservation
                name = words.type_name(sku.instance_properties)
                unused[name] = unused.get(name, 0) + max(0, sku.count - sku.in_use_count)
        return unused

    def target(self, reservation_id: str, instance_type: str) -> words.Target:
        """What a launch into it depends on, read now. ProviderError where it cannot be used."""
        from google.cloud.compute_v1.types import GetReservationRequest

        zone, name = words.place_of(reservation_id)
        scope = Scope(provider="gcp", account=self._config.name, zone=zone, reservation=reservation_id)
        if not (valid_name(zone) and valid_name(name)):
            raise ProviderError(
                ErrorKind.INVALID_REQUEST, f"reservation {reservation_id!r}: expected ZONE/NAME", scope=scope
            )
        where = Where(self._config.name, region_of(zone), zone, reservation=reservation_id)
        request = GetReservationRequest(project=self._project, zone=zone, reservation=name)
        try:
            message: Any = self._calls.read(self._clients.reservations.get, request, where)
        except ProviderError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.INVALID_REQUEST):
                raise
            text = f"there is no reservation {name} in {zone}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, text, code=error.code, scope=scope) from error
        size = _size(message.specific_reservation.instance_properties, self._zones(zone), message.zone)
        fault = words.fault_in(message, instance_type, size)
        if fault:
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"reservation {name}: {fault}", scope=scope)
        return words.target(message, words.is_bound(message, words.made_by_calendar(self._read().future)))

    def _zones(self, zone: str) -> Mapping[str, Mapping[str, InstanceType]]:
        return self._offers.types(region_of(zone)).by_zone

    def _current(
        self,
        region: str,
        by_zone: Mapping[str, Mapping[str, InstanceType]],
        reading: _Reading,
        bound: frozenset[str],
        at: datetime,
    ) -> Iterator[Reservation]:
        made = words.made_ahead(reading.future)
        for message in reading.now:
            size = _size(message.specific_reservation.instance_properties, by_zone, message.zone)
            if size is not None and region_of(tail(message.zone)) == region:
                paid_ahead = words.is_bound(message, bound)
                price = None if paid_ahead else self._offers.on_demand_price(region, size)
                yield words.current(message, size, region, at, made, price)

    def _read(self) -> _Reading:
        from google.cloud.compute_v1.types import (
            AggregatedListFutureReservationsRequest,
            AggregatedListReservationsRequest,
        )

        with self._lock:
            clock = self._calls.clock
            if clock.monotonic() < self._next:
                return self._reading
            missing: set[str] = set()
            now = self._list(
                self._clients.reservations.aggregated_list,
                AggregatedListReservationsRequest,
                lambda scope: scope.reservations,
                missing,
            )
            try:
                future = self._list(
                    self._clients.future_reservations.aggregated_list,
                    AggregatedListFutureReservationsRequest,
                    lambda scope: scope.future_reservations,
                    missing,
                )
            except ProviderError:  # a permission of its own, which plain reservations do not need
                future = []
                missing.add(FUTURE)
            self._reading = _Reading(tuple(now), tuple(future), frozenset(missing))
            self._next = clock.monotonic() + _FRESH.total_seconds()
            return self._reading

    def _list(
        self, method: Any, request_type: Any, items: Callable[[Any], Any], missing: set[str]
    ) -> list[Any]:
        request = request_type(project=self._project, max_results=_PAGE, **partial_success(request_type))
        found: list[Any] = []
        for page in self._calls.pages(method, request, Where(self._config.name)):
            missing |= unreachable(page)
            for scope in page.items.values():
                found += items(scope)
        return found


def _size(
    properties: Any, by_zone: Mapping[str, Mapping[str, InstanceType]], zone: str
) -> InstanceType | None:
    """The type that is reserved, if it is one that is offered in the zone."""
    return by_zone.get(tail(zone), {}).get(words.type_name(properties))
