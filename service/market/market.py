"""The market loop: reads what each place sells, what is reserved there and what is said of its spot capacity,
and keeps the last word where it cannot.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete
from sqlmodel import Session, col, select

from providers.vocabulary import CapacityType, Offer, OfferListing
from service.attempts.charges import reprice
from service.context import STANDING, Context
from service.db.due import next_due
from service.market import signals
from service.market.blocks import forget_old, wake_waiting
from service.market.built_in import show_built_in
from service.market.history import forget_history
from service.market.model import OfferRow, Poll, SignalRow
from service.market.offers import to_offer, to_values
from service.market.places import read_due
from service.market.polls import plan_polls
from service.reservations import reader as reservations
from service.reservations.model import ReservationRow

READ_HERE = ("offers", reservations.KIND, "signals")


class Market:
    """Plans its polls anew whenever the accounts change."""

    def __init__(self) -> None:
        self._planned: Any = None

    def step(self, ctx: Context) -> datetime | None:
        """Submit a reading for each place that is due; when the next one is."""
        places = {key: adapter.regions for key, adapter in ctx.providers.items()}
        if places != self._planned:
            plan_polls(ctx)
            ctx.database.write(lambda session: _drop_gone(session, ctx))
            show_built_in(ctx)
            self._planned = places
            for loop in ("watcher", "quotas", "quota_desk"):
                ctx.wake(loop)
        due = ctx.database.read(_next_due)
        if due is None or due > ctx.now():
            return due
        read_due(ctx, "offers", lambda provider, region: provider.offers(region), _store)
        read_due(ctx, reservations.KIND, lambda p, region: p.reservations(region), reservations.store)
        read_due(ctx, "signals", lambda p, region: p.spot_signals(region), signals.store)
        ctx.database.write(lambda session: reservations.drop_ended(session, ctx))
        return ctx.database.read(_next_due)


def _next_due(session: Session) -> datetime | None:
    return next_due(session, Poll, col(Poll.kind).in_(READ_HERE))


def _store(session: Session, ctx: Context, poll: Poll, listing: OfferListing) -> None:
    """Write the offers of a place; those that are gone are dropped, unless part of it was not read."""
    now = ctx.now()
    before = {row.id: row for row in session.exec(_of_place(poll)).all()}
    seen = {values["id"]: values for values in (to_values(offer, now) for offer in _distinct(listing))}
    for offer_id, values in seen.items():
        row = before.get(offer_id)
        if row is None:
            session.add(OfferRow(**values))
        else:
            if row.price_micros != values["price_micros"] and values["price_source"] == "live":
                _follow_price(session, row, values["price_micros"], now)
            row.sqlmodel_update(values)
            session.add(row)
    for offer_id in before.keys() - seen.keys():
        if not listing.incomplete or (before[offer_id].built_in and listing.offers):
            session.delete(before[offer_id])
    forget_old(session, now)
    forget_history(session, timedelta(seconds=ctx.settings.times.keep_history), now)
    wake_waiting(session, now)


def _follow_price(session: Session, row: OfferRow, price_micros: int | None, now: datetime) -> None:
    """Spot is billed at the price in force; a price that is no longer known is the last one until it is."""
    if row.capacity_type is CapacityType.SPOT and price_micros is not None:
        reprice(session, to_offer(row).key, price_micros, now)


def _distinct(listing: OfferListing) -> list[Offer]:
    """Each once. What is reserved is offered by `service.reservations` alone."""
    sold = (offer for offer in listing.offers if offer.key.capacity_type is not CapacityType.RESERVED)
    return list({offer.key: offer for offer in sold}.values())


def _of_place(poll: Poll) -> Any:
    return select(OfferRow).where(
        OfferRow.provider == poll.provider,
        OfferRow.account == poll.account,
        OfferRow.region == poll.region,
        OfferRow.capacity_type != CapacityType.RESERVED,
    )


def _drop_gone(session: Session, ctx: Context) -> None:
    """What was read of places that the settings no longer name can no longer be asked for."""
    places = {
        (provider, account, region)
        for (provider, account), adapter in ctx.providers.items()
        for region in adapter.regions
    }
    for table in (OfferRow, ReservationRow, SignalRow):
        known = session.exec(select(table.provider, table.account, table.region).distinct()).all()
        for place in known:
            provider, account, region = place
            if tuple(place) in places or provider == STANDING:
                continue
            session.connection().execute(
                delete(table).where(
                    col(table.provider) == provider,
                    col(table.account) == account,
                    col(table.region) == region,
                )
            )
