"""Reservations between rows, the vocabulary, and the offers that are made of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from providers.reservations import Reservation, ReservationState
from providers.vocabulary import CapacityType, Offer, OfferKey
from service.market.offers import MAX_CREDIBLE_PRICE, read_type
from service.money import from_micros, to_micros
from service.reservations.ends import leave_at
from service.reservations.model import ReservationRow

# A launch on Compute Engine can name only a reservation that was made to be named (Compute Engine: "Consume
# reservations", specificReservationRequired); EC2 and Azure let it name an open one too.
ONLY_TARGETED = frozenset({"gcp"})


def to_row(provider: str, account: str, reservation: Reservation, now: datetime) -> ReservationRow:
    """A reading as it is kept. A price that is not above zero is unknown."""
    price = reservation.price
    known = price is not None and 0 < price < MAX_CREDIBLE_PRICE
    return ReservationRow(
        provider=provider,
        account=account,
        region=reservation.region,
        zone=reservation.zone,
        id=reservation.id,
        name=reservation.name[:255],
        kind=reservation.kind,
        state=reservation.state,
        instance_type=reservation.type.name,
        type=asdict(reservation.type),
        targeted=reservation.targeted,
        total=reservation.total,
        used=reservation.used,
        starts_at=reservation.starts_at,
        ends_at=reservation.ends_at,
        price_micros=to_micros(price) if known and price is not None else None,
        read_at=now,
    )


def to_reservation(row: ReservationRow) -> Reservation:
    """A row as the vocabulary has it."""
    return Reservation(
        id=row.id,
        kind=row.kind,
        region=row.region,
        zone=row.zone,
        type=read_type(row.type),
        state=row.state,
        total=row.total,
        used=row.used,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        price=None if row.price_micros is None else from_micros(row.price_micros),
        targeted=row.targeted,
        name=row.name,
    )


def key_of(row: ReservationRow) -> OfferKey:
    """What a launch into the reservation asks for."""
    return OfferKey(
        row.provider,
        row.account,
        row.region,
        row.zone,
        row.instance_type,
        CapacityType.RESERVED,
        row.id,
    )


def offer_of(row: ReservationRow, now: datetime) -> Offer | None:
    """The offer that is made of a reservation; None while it cannot be used, or must be left already."""
    if row.state is not ReservationState.ACTIVE or (row.provider in ONLY_TARGETED and not row.targeted):
        return None
    until = leave_at(row.kind, row.ends_at)
    if until is not None and now >= until:
        return None
    price = None if row.price_micros is None else from_micros(row.price_micros)
    return Offer(key_of(row), read_type(row.type), price, row.read_at)
