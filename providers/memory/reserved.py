"""Reservations of the cloud in memory: slots that only a launch which names them takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from providers.errors import ErrorKind, ProviderError
from providers.memory.machines import Machine
from providers.reservations import Reservation, ReservationState
from providers.vocabulary import CapacityType, Offer, OfferKey, Scope


@dataclass(slots=True)
class _Held:
    reservation: Reservation
    offer: Offer
    machines: list[Machine]


class MemoryReservations:
    """What was reserved, by the key of a launch into it.

    A reservation's `used` is what others use of it; instances launched into it are added. Its state follows
    from `starts_at` and `ends_at` where it has them.
    """

    def __init__(self) -> None:
        self._held: dict[OfferKey, _Held] = {}

    def put(self, provider: str, account: str, reservation: Reservation) -> OfferKey:
        """Add a reservation, or change it; instances in it stay."""
        key = key_of(provider, account, reservation)
        before = self._held.get(key)
        offer = Offer(key, reservation.type, reservation.price)
        self._held[key] = _Held(reservation, offer, before.machines if before else [])
        return key

    def drop(self, key: OfferKey) -> None:
        """Forget a reservation: its cloud no longer shows it."""
        self._held.pop(key, None)

    def offer(self, key: OfferKey) -> Offer | None:
        held = self._held.get(key)
        return held.offer if held else None

    def occupy(self, key: OfferKey, machines: Iterable[Machine]) -> None:
        self._held[key].machines.extend(machines)

    def shown(self, account: str, region: str, now: datetime) -> list[Reservation]:
        """The reservations of a region with their counts and states of now."""
        return [
            replace(held.reservation, used=self._used(held, now), state=_state(held.reservation, now))
            for key, held in self._held.items()
            if (key.account, key.region) == (account, region)
        ]

    def refusal(self, key: OfferKey, nodes: int, now: datetime) -> ProviderError | None:
        """Why so many more instances cannot be started in a reservation now; None if they can."""
        held = self._held.get(key)
        if held is None:
            return _error(
                ErrorKind.INVALID_REQUEST, key, "ReservationNotFound", "there is no such reservation"
            )
        state = _state(held.reservation, now)
        if state is not ReservationState.ACTIVE:
            return _error(ErrorKind.CAPACITY, key, "ReservationNotActive", f"the reservation is {state}")
        total, used = held.reservation.total, self._used(held, now)
        if total is None or used is None or used + nodes <= total:
            return None
        return _error(
            ErrorKind.CAPACITY, key, "ReservationCapacityExceeded", f"{used} of {total} in use, {nodes} asked"
        )

    def _used(self, held: _Held, now: datetime) -> int | None:
        held.machines = [machine for machine in held.machines if not machine.over(now)]
        others = held.reservation.used
        return None if others is None else others + len(held.machines)


def key_of(provider: str, account: str, reservation: Reservation) -> OfferKey:
    """The key of a launch into a reservation."""
    return OfferKey(
        provider,
        account,
        reservation.region,
        reservation.zone,
        reservation.type.name,
        CapacityType.RESERVED,
        reservation.id,
    )


def _state(reservation: Reservation, now: datetime) -> ReservationState:
    if reservation.ends_at is not None and now >= reservation.ends_at:
        return ReservationState.ENDED
    if reservation.starts_at is not None and now < reservation.starts_at:
        return ReservationState.SCHEDULED
    return reservation.state


def _error(kind: ErrorKind, key: OfferKey, code: str, message: str) -> ProviderError:
    scope = Scope(provider=key.provider, account=key.account, region=key.region, reservation=key.reservation)
    return ProviderError(kind, f"{key.reservation}: {message}", code=code, scope=scope)
