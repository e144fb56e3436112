"""How much of each reservation is free: total, less what is used, less what of ours is under way.

A count that is unknown, or whose reading is old, refuses nothing: the cloud will say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from providers.reservations import ReservationKind
from providers.vocabulary import CapacityType, Offer, OfferKey
from service.attempts.model import Attempt, AttemptInstance
from service.instances.model import Instance
from service.reservations.ends import WORTH_A_START, leave_at
from service.reservations.model import ReservationRow
from service.reservations.rows import key_of
from service.states import InstanceState

TRUSTED_FOR = timedelta(minutes=30)
READING_TAKES = timedelta(seconds=60)
"""How long before a reading a launch may have been asked for and still not stand in its count."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An instance of ours in a reservation. `since`: when it was asked for; None: it has not been yet."""

    key: OfferKey
    since: datetime | None


class Slots:
    """The reservations of all accounts, with what is under way taken off."""

    def __init__(self, rows: Iterable[ReservationRow], pending: Iterable[Pending], now: datetime) -> None:
        self._rows = {key_of(row): row for row in rows}
        self._now = now
        self._in_flight = Counter(
            one.key for one in pending if one.key in self._rows and _unseen(one, self._rows[one.key])
        )

    def free(self, key: OfferKey) -> int | None:
        """Instances that could be started in a reservation now; None is unknown."""
        row = self._rows.get(key)
        if row is None or row.total is None or row.used is None or self._is_old(row):
            return None
        return max(0, row.total - row.used - self._in_flight[key])

    def in_flight(self, key: OfferKey) -> int:
        """Instances of ours that its reading cannot show yet."""
        return self._in_flight[key]

    def shortage(self, offer: Offer, nodes: int) -> str | None:
        """Why so many nodes cannot be started in an offer's reservation now; None if they can, or if only the
        cloud knows.
        """
        row = self._rows.get(offer.key)
        if row is None:
            return "it is not known any more"
        until = leave_at(row.kind, row.ends_at)
        if until is not None and self.leaves_soon(offer.key):
            return f"it must be left at {until:%Y-%m-%d %H:%M}"
        free = self.free(offer.key)
        if free is None or nodes <= free:
            return None
        return f"{free} of {row.total} free, {nodes} needed"

    def leaves_soon(self, key: OfferKey) -> bool:
        """Whether a reservation must be left too soon for a start to be worth it."""
        row = self._rows.get(key)
        until = None if row is None else leave_at(row.kind, row.ends_at)
        return until is not None and self._now >= until - WORTH_A_START

    def note_planned(self, key: OfferKey, nodes: int) -> None:
        """So many more are under way; for the rest of this look at the market."""
        self._in_flight[key] += nodes

    def _is_old(self, row: ReservationRow) -> bool:
        return row.kind is not ReservationKind.STANDING and self._now - row.read_at > TRUSTED_FOR


def _unseen(one: Pending, row: ReservationRow) -> bool:
    """Standing nodes are counted in the moment they are given out; a cloud's count lags."""
    if one.since is None:
        return True
    return row.kind is not ReservationKind.STANDING and one.since > row.read_at - READING_TAKES


def slots(session: Session, now: datetime) -> Slots:
    """The reservations and what is under way, as the database has them."""
    rows = session.exec(select(ReservationRow)).all()
    return Slots(rows, _pending(session) if rows else (), now)


def reservation_of(session: Session, key: OfferKey) -> ReservationRow | None:
    """The row of the reservation that a launch names."""
    if key.reservation is None:
        return None
    return session.get(ReservationRow, (key.provider, key.account, key.region, key.zone, key.reservation))


def _pending(session: Session) -> list[Pending]:
    """Instances of ours in reservations that are not over."""
    found = session.exec(
        select(Attempt, Instance)
        .join(AttemptInstance, col(AttemptInstance.attempt_id) == col(Attempt.id))
        .join(Instance, col(Instance.id) == col(AttemptInstance.instance_id))
        .where(
            Attempt.capacity_type == CapacityType.RESERVED,
            col(Instance.state) != InstanceState.TERMINATED,
        )
    ).all()
    return [
        Pending(attempt.offer_key, None if instance.provider_id is None else instance.requested_at)
        for attempt, instance in found
    ]
