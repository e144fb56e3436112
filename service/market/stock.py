"""Stock that is back: a place that was out of it for a while was just had."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlmodel import Session

from providers.errors import ErrorKind
from providers.vocabulary import Offer
from service.events.record import record
from service.market.model import BlockRow

WORTH_TELLING = timedelta(minutes=10)


def tell_stock_back(session: Session, offer: Offer, lifted: Iterable[BlockRow], *, now: datetime) -> None:
    """An event if any of the blocks that a launch proved wrong said out of stock for ten minutes or more."""
    since = min((row.since for row in lifted if row.kind == ErrorKind.CAPACITY), default=now)
    if now - since < WORTH_TELLING:
        return
    key = offer.key
    place = f"{key.provider}/{key.zone}/{key.instance_type}"
    minutes = (now - since).total_seconds() / 60
    record(
        session,
        "stock_back",
        "stock",
        place[:64],
        f"{key.provider}/{key.zone}: {key.instance_type}, {key.capacity_type}, was out for {minutes:.0f} min",
        at=now,
        offer=str(key),
    )
