"""The market loop: reads what each place sells, and keeps the last word where it cannot."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import delete
from sqlmodel import Session, col, select

from providers.vocabulary import Offer, OfferListing
from service.context import Context
from service.db.due import next_due
from service.market.blocks import forget_old, wake_waiting
from service.market.model import OfferRow, Poll
from service.market.offers import to_values
from service.market.places import read_due
from service.market.polls import plan_polls


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
            self._planned = places
            for loop in ("watcher", "quotas"):
                ctx.wake(loop)
        due = ctx.database.read(_next_due)
        if due is None or due > ctx.now():
            return due
        read_due(ctx, "offers", lambda provider, region: provider.offers(region), _store)
        return ctx.database.read(_next_due)


def _next_due(session: Session) -> datetime | None:
    return next_due(session, Poll, col(Poll.kind) == "offers")


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
            row.sqlmodel_update(values)
            session.add(row)
    if not listing.incomplete:
        for offer_id in before.keys() - seen.keys():
            session.delete(before[offer_id])
    forget_old(session, now)
    wake_waiting(session, now)


def _distinct(listing: OfferListing) -> list[Offer]:
    return list({offer.key: offer for offer in listing.offers}.values())


def _of_place(poll: Poll) -> Any:
    return select(OfferRow).where(
        OfferRow.provider == poll.provider,
        OfferRow.account == poll.account,
        OfferRow.region == poll.region,
    )


def _drop_gone(session: Session, ctx: Context) -> None:
    """Offers of places that the settings no longer name can no longer be asked for."""
    places = {
        (provider, account, region)
        for (provider, account), adapter in ctx.providers.items()
        for region in adapter.regions
    }
    known = session.exec(select(OfferRow.provider, OfferRow.account, OfferRow.region).distinct()).all()
    for place in known:
        if tuple(place) not in places:
            provider, account, region = place
            session.connection().execute(
                delete(OfferRow).where(
                    col(OfferRow.provider) == provider,
                    col(OfferRow.account) == account,
                    col(OfferRow.region) == region,
                )
            )
