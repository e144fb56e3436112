"""Offers between rows and the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlmodel import Session, select

from providers.vocabulary import Accelerator, InstanceType, Offer, OfferKey
from service.market.model import OfferRow
from service.money import from_micros, to_micros


def offer_id(key: OfferKey) -> str:
    """The row of an offer."""
    parts = (key.provider, key.account, key.zone, key.instance_type, key.capacity_type, key.reservation or "")
    return "/".join(parts).rstrip("/")


def to_offer(row: OfferRow) -> Offer:
    """A row as the policies see it."""
    return Offer(
        key=OfferKey(
            row.provider,
            row.account,
            row.region,
            row.zone,
            row.instance_type,
            row.capacity_type,
            row.reservation,
        ),
        type=read_type(row.type),
        price=None if row.price_micros is None else from_micros(row.price_micros),
        priced_at=row.priced_at,
        price_source=row.price_source,
        subnet=row.subnet,
        built_in=row.built_in,
    )


def read_type(document: Mapping[str, Any]) -> InstanceType:
    """The instance type that a row's document describes."""
    values = dict(document)
    accelerator = values.pop("accelerator", None)
    return InstanceType(**values, accelerator=Accelerator(**accelerator) if accelerator else None)


def read_offers(session: Session) -> list[Offer]:
    """Every offer that is known."""
    return [to_offer(row) for row in session.exec(select(OfferRow)).all()]


def to_values(offer: Offer, now: datetime) -> dict[str, Any]:
    """An offer as the values of its row. A price that is not above zero is unknown."""
    key = offer.key
    known = offer.price is not None and 0 < offer.price < MAX_CREDIBLE_PRICE
    return {
        "id": offer_id(key),
        "provider": key.provider,
        "account": key.account,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "capacity_type": key.capacity_type,
        "reservation": key.reservation,
        "price_micros": to_micros(offer.price) if known and offer.price is not None else None,
        "priced_at": offer.priced_at,
        "price_source": offer.price_source,
        "subnet": offer.subnet,
        "built_in": offer.built_in,
        "type": asdict(offer.type),
        "seen_at": now,
    }


MAX_CREDIBLE_PRICE = 10_000.0
"""USD per instance-hour; the dearest size on the three clouds costs under 200."""
