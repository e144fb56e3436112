"""Azure's capacity reservations: capacity reservation groups, and what stands in them.

Source: Azure documentation, "On-demand capacity reservation", "Block capacity reservation", "Future capacity
reservation", and the models of azure-mgmt-compute (reservationType, scheduleProfile, utilizationInfo). A
machine names the group; within one there is one reservation for a size and zone. A `Targeted` group that is
full lets a machine in all the same, on capacity and at a price of the open market: `must_have_room` refuses
that. Of an `Open` group every machine takes that does not decline, which ours do (see vm.body).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from clock import Clock
from providers.azure.arm import Arm, same_place
from providers.azure.market import Market
from providers.azure.versions import COMPUTE
from providers.azure.vm import group_of, zone_key
from providers.errors import ErrorKind, ProviderError
from providers.reservations import Reservation, ReservationKind, ReservationListing, ReservationState
from providers.vocabulary import InstanceType, LaunchRequest, Scope

# Of a future reservation, which is agreed on first (ReservationState of the compute models).
_AGREED = {
    "pending": ReservationState.SCHEDULED,
    "approved": ReservationState.SCHEDULED,
    "committed": ReservationState.SCHEDULED,
    "live": ReservationState.ACTIVE,
    "partiallyfulfilled": ReservationState.ACTIVE,
    "declined": ReservationState.ENDED,
    "fulfillmentfailed": ReservationState.ENDED,
}
_PROVISIONED = {
    "succeeded": ReservationState.ACTIVE,
    "updating": ReservationState.ACTIVE,
    "creating": ReservationState.SCHEDULED,
    "failed": ReservationState.ENDED,
    "deleting": ReservationState.ENDED,
}


class ReservedCapacity:
    """The reservations that one subscription has, in whatever resource group."""

    def __init__(self, arm: Arm, market: Market, clock: Clock) -> None:
        self._arm = arm
        self._market = market
        self._clock = clock

    def listing(self, region: str) -> ReservationListing:
        """What is scheduled, usable or over in a region; groups that cannot be read are named."""
        path = f"{self._arm.subscription}/providers/Microsoft.Compute/capacityReservationGroups"
        try:
            groups = self._arm.pages(path, COMPUTE)
            here = [group for group in groups if same_place(str(group.get("location")), region)]
            types = {name.lower(): size.type for name, size in self._types(region, here).items()}
        except ProviderError as error:
            return ReservationListing((), (f"capacity reservations of {region} ({error})",))
        found: list[Reservation] = []
        incomplete: list[str] = []
        for group in here:
            try:
                found += self._in_group(group, region, types)
            except ProviderError as error:
                incomplete.append(f"{group.get('id')} ({error})")
        return ReservationListing(tuple(found), tuple(incomplete))

    def must_have_room(self, request: LaunchRequest) -> None:
        """ProviderError, scoped to the reservation that a launch names, unless its nodes fit in now. Those
        of its own that are there already are not counted.
        """
        offer = request.offer
        named = offer.reservation or ""
        try:
            row = self._arm.get(named, COMPUTE, region=offer.region, expand_="instanceView")
        except ProviderError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            raise self._refused(request, "there is no such reservation", ErrorKind.NOT_FOUND) from error
        size = str((row.get("sku") or {}).get("name"))
        zone = zone_key(offer.region, row.get("zones"))
        if (size.lower(), zone) != (offer.instance_type.lower(), offer.zone):
            text = f"it is of {size} in {zone}"
            raise self._refused(request, text, ErrorKind.INVALID_REQUEST)
        view = (row.get("properties") or {}).get("instanceView") or {}
        if _state(row, view, self._clock.now()) is not ReservationState.ACTIVE:
            raise self._refused(request, "it is not in force now")
        mine = {self._arm.vm_path(name).lower() for name in request.names()}
        inside = _inside(view)
        if inside is None:
            return  # not told: let the cloud say
        others = [one for one in inside if one not in mine]
        room = _total(row, view) - len(others)
        if room < request.nodes:
            raise self._refused(request, f"{request.nodes} do not fit in: {max(0, room)} free")

    def _types(self, region: str, groups: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        return self._market.sizes(region) if groups else {}

    def _in_group(
        self, group: Mapping[str, Any], region: str, types: Mapping[str, InstanceType]
    ) -> list[Reservation]:
        path = str(group["id"])
        rows = self._arm.pages(f"{path}/capacityReservations", COMPUTE)
        if not rows:
            return []
        whole = self._arm.get(path, COMPUTE, region=region, expand_="instanceView")
        shown = ((whole.get("properties") or {}).get("instanceView") or {}).get("capacityReservations") or ()
        views = {str(view.get("name")).lower(): view for view in shown}
        kind = str((group.get("properties") or {}).get("reservationType") or "Targeted").lower()
        known = [row for row in rows if str((row.get("sku") or {}).get("name")).lower() in types]
        prices = self._prices(region, kind, known)
        return [
            self._reservation(row, views.get(str(row.get("name")).lower()) or {}, region, kind, types, prices)
            for row in known
        ]

    def _prices(
        self, region: str, kind: str, rows: Iterable[Mapping[str, Any]]
    ) -> Mapping[str, float | None]:
        """Used or not, a reservation costs what its machines would on demand; a block was paid ahead."""
        if kind == "block":
            return {}
        return self._market.demand_prices(region, [str(row["sku"]["name"]) for row in rows])

    def _reservation(
        self,
        row: Mapping[str, Any],
        view: Mapping[str, Any],
        region: str,
        kind: str,
        types: Mapping[str, InstanceType],
        prices: Mapping[str, float | None],
    ) -> Reservation:
        size = str(row["sku"]["name"])
        schedule = (row.get("properties") or {}).get("scheduleProfile") or {}
        inside = _inside(view)
        return Reservation(
            id=str(row["id"]),
            kind=_kind(kind, schedule),
            region=region,
            zone=zone_key(region, row.get("zones")),
            type=types[size.lower()],
            state=_state(row, view, self._clock.now()),
            total=_total(row, view),
            used=None if inside is None else len(inside),
            starts_at=_time(schedule.get("start")) or _time((row.get("properties") or {}).get("timeCreated")),
            ends_at=_time(schedule.get("end")),
            price=prices.get(size.lower()),
            targeted=kind != "open",
            name=str(row.get("name")),
        )

    def _refused(
        self, request: LaunchRequest, text: str, kind: ErrorKind = ErrorKind.CAPACITY
    ) -> ProviderError:
        offer = request.offer
        scope = Scope("azure", self._arm.account, offer.region, reservation=offer.reservation)
        name = (offer.reservation or "").rpartition("/")[2]
        return ProviderError(kind, f"reservation {name}: {text}", code="Reservation", scope=scope)


def must_be_named(request: LaunchRequest, account: str) -> None:
    """ProviderError where a launch into reserved capacity does not say which, as `reservations` lists it."""
    if group_of(request.offer.reservation or "") is None:
        text = f"{request.offer.reservation!r} is no id of a capacity reservation"
        scope = Scope("azure", account, request.offer.region, reservation=request.offer.reservation)
        raise ProviderError(ErrorKind.INVALID_REQUEST, text, code="Reservation", scope=scope)


def _kind(kind: str, schedule: Mapping[str, Any]) -> ReservationKind:
    if kind == "block":
        return ReservationKind.CAPACITY_BLOCK
    if schedule.get("start"):
        return ReservationKind.FUTURE_RESERVATION
    return ReservationKind.CAPACITY_RESERVATION


def _state(row: Mapping[str, Any], view: Mapping[str, Any], now: datetime) -> ReservationState:
    """The schedule first: a block is there, as a resource, before it begins and after it has ended."""
    facts = row.get("properties") or {}
    schedule = facts.get("scheduleProfile") or {}
    start, end = _time(schedule.get("start")), _time(schedule.get("end"))
    if end is not None and now >= end:
        return ReservationState.ENDED
    agreed = str((view.get("reservationStateInfo") or {}).get("reservationState") or "").lower()
    if agreed:
        return _AGREED.get(agreed, ReservationState.UNKNOWN)
    if start is not None and now < start:
        return ReservationState.SCHEDULED
    return _PROVISIONED.get(str(facts.get("provisioningState")).lower(), ReservationState.UNKNOWN)


def _total(row: Mapping[str, Any], view: Mapping[str, Any]) -> int:
    """What stands ready now: while a reservation grows that is less than what was asked for."""
    current = (view.get("utilizationInfo") or {}).get("currentCapacity")
    return int(current if current is not None else (row.get("sku") or {}).get("capacity") or 0)


def _inside(view: Mapping[str, Any]) -> list[str] | None:
    """The machines in a reservation, by id in lower case; None where Azure does not tell."""
    told = view.get("utilizationInfo")
    if told is None:
        return None
    return [str(one.get("id")).lower() for one in told.get("virtualMachinesAllocated") or ()]


def _time(text: Any) -> datetime | None:
    """A time, or the first moment of a day: that is the careful reading of the day on which a block ends."""
    try:
        moment = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
