"""Keeping what was read of a place's reservations, and the offers that are made of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from providers.reservations import ReservationListing, ReservationState
from providers.vocabulary import CapacityType
from service.context import Context
from service.events.record import record
from service.market.blocks import wake_waiting
from service.market.model import OfferRow, Poll
from service.market.offers import offer_id, to_values
from service.reservations.model import ReservationRow
from service.reservations.rows import key_of, offer_of, to_row

KIND = "reservations"
OVER = (ReservationState.ENDED, ReservationState.UNKNOWN)


def store(session: Session, ctx: Context, poll: Poll, listing: ReservationListing) -> None:
    """Write the reservations of a place; those that are gone are dropped, unless part of it was not read."""
    now = ctx.now()
    seen = [to_row(poll.provider, poll.account, one, now) for one in listing.reservations]
    of_place = select(ReservationRow).where(
        ReservationRow.provider == poll.provider,
        ReservationRow.account == poll.account,
        ReservationRow.region == poll.region,
    )
    before = {_key(row): row for row in session.exec(of_place).all()}
    for row in seen:
        _tell_change(session, before.get(_key(row)), row, now)
        write(session, row, now)
    if not listing.incomplete:
        for key in before.keys() - {_key(row) for row in seen}:
            drop(session, before[key])
    wake_waiting(session, now)


def write(session: Session, row: ReservationRow, now: datetime) -> None:
    """Keep a reservation, and its offer as long as it can be used."""
    session.merge(row)
    offer = offer_of(row, now)
    if offer is None:
        _drop_offer(session, row)
    else:
        session.merge(OfferRow(**to_values(offer, now)))


def drop(session: Session, row: ReservationRow) -> None:
    """Forget a reservation and its offer."""
    _drop_offer(session, row)
    session.delete(row)


def drop_ended(session: Session, ctx: Context) -> None:
    """Offers whose reservation must be left by now are offered no more, whether or not the place was read."""
    now = ctx.now()
    ending = select(ReservationRow).where(col(ReservationRow.ends_at).is_not(None))
    for row in session.exec(ending).all():
        if offer_of(row, now) is None:
            _drop_offer(session, row)


def _drop_offer(session: Session, row: ReservationRow) -> None:
    found = session.get(OfferRow, offer_id(key_of(row)))
    if found is not None and found.capacity_type is CapacityType.RESERVED:
        session.delete(found)


def _key(row: ReservationRow) -> tuple[Any, ...]:
    return (row.provider, row.account, row.region, row.zone, row.id)


def _tell_change(session: Session, before: ReservationRow | None, row: ReservationRow, now: datetime) -> None:
    """A reservation that appeared, began or ended is news."""
    if before is not None and before.state == row.state:
        return
    if before is None and row.state in OVER:
        return
    count = "an unknown number" if row.total is None else str(row.total)
    until = f" until {row.ends_at:%Y-%m-%d %H:%M}" if row.ends_at else ""
    message = (
        f"{row.provider}/{row.zone}: {row.kind} {row.id} is {row.state}: {count} {row.instance_type}{until}"
    )
    record(session, "reservation_changed", "reservation", row.id[:64], message, at=now, state=row.state)
