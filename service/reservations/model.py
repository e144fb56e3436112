"""Table: reservations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Field, SQLModel

from providers.reservations import ReservationKind, ReservationState
from service.db import choice, document


class ReservationRow(SQLModel, table=True):
    """A reservation as last read. `id` is what a launch names. `total`, `used`: instances; None is unknown.

    `price_micros`: millionths of a USD per instance-hour, as billed whether used or not; None where it was
    paid ahead or is unknown.
    """

    __tablename__ = "reservation"

    provider: str = Field(primary_key=True, max_length=16)
    account: str = Field(primary_key=True, max_length=40)
    region: str = Field(primary_key=True, max_length=64)
    zone: str = Field(primary_key=True, max_length=64)
    id: str = Field(primary_key=True, max_length=255)
    name: str = Field(default="", max_length=255)
    kind: ReservationKind = Field(sa_type=choice(ReservationKind))
    state: ReservationState = Field(sa_type=choice(ReservationState))
    instance_type: str = Field(max_length=64)
    type: dict[str, Any] = Field(sa_type=document())
    targeted: bool = True
    total: int | None = None
    used: int | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    price_micros: int | None = None
    read_at: datetime
