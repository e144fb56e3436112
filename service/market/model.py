"""Tables: offers with their prices, blocks, and what became of launches and instances."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Integer
from sqlmodel import Field, Index, SQLModel

from providers.vocabulary import CapacityType
from service.db import Claimable, choice, document


class OfferRow(SQLModel, table=True):
    """An offer as last seen. `price_micros` in millionths of a USD per instance-hour; None is unknown.

    `built_in`: it ships with the adapter, and its place was not read yet.
    """

    __tablename__ = "offer"
    __table_args__ = (Index("offer_by_place", "provider", "account", "region"),)

    id: str = Field(primary_key=True, max_length=255)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    capacity_type: CapacityType = Field(sa_type=choice(CapacityType))
    reservation: str | None = Field(default=None, max_length=255)
    price_micros: int | None = None
    priced_at: datetime | None = None
    price_source: str = Field(max_length=16)
    subnet: str | None = Field(default=None, max_length=255)
    built_in: bool = False
    type: dict[str, Any] = Field(sa_type=document())
    seen_at: datetime


class SignalRow(SQLModel, table=True):
    """What a vendor says of spot capacity: see providers.signals. `zone` `*` is the whole region."""

    __tablename__ = "signal"

    provider: str = Field(primary_key=True, max_length=16)
    account: str = Field(primary_key=True, max_length=40)
    region: str = Field(primary_key=True, max_length=64)
    zone: str = Field(primary_key=True, max_length=64)
    instance_type: str = Field(primary_key=True, max_length=64)
    source: str = Field(primary_key=True, max_length=64)
    obtainability: float | None = None
    eviction_rate: float | None = None
    read_at: datetime


class BlockRow(SQLModel, table=True):
    """A scope that is avoided. `id` is a digest of kind and scope, so that one failure has one row.

    After `until` it is remembered for a while: the first attempt there is a trial, alone (`trial_attempt`);
    its success removes the row, its failure lengthens it. `repeats` counts failures in a row.
    """

    __tablename__ = "block"

    id: str = Field(primary_key=True, max_length=64)
    kind: str = Field(max_length=24)
    scope: dict[str, str] = Field(sa_type=document())
    code: str = Field(default="", max_length=128)
    message: str = ""
    since: datetime
    until: datetime | None = Field(default=None, index=True)
    repeats: int = 1
    trial_attempt: str | None = Field(default=None, max_length=40)


class Outcome(StrEnum):
    """What a launch came to (`granted`, `refused`), and how an instance's life ended: `lost` by preemption,
    or `left` by us.
    """

    GRANTED = "granted"
    REFUSED = "refused"
    LOST = "lost"
    LEFT = "left"


class Observation(SQLModel, table=True):
    """One thing seen of one offer. `seconds`: how long the job had waited for what was granted or refused,
    how long what was lost or left had been had.
    """

    __table_args__ = (Index("observation_by_outcome", "outcome", "at"),)

    id: int | None = Field(
        default=None, primary_key=True, sa_type=BigInteger().with_variant(Integer, "sqlite")
    )
    at: datetime = Field(index=True)
    outcome: Outcome = Field(sa_type=choice(Outcome))
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    capacity_type: CapacityType = Field(sa_type=choice(CapacityType))
    gpu: str | None = Field(default=None, max_length=40)
    gpus_per_node: int = 0
    nodes: int = 1
    seconds: float
    attempt_id: str = Field(max_length=40)


class EvidenceRow(SQLModel, table=True):
    """All that was seen of one offer, summed up: the columns of `policies.model.Evidence`."""

    __tablename__ = "evidence"

    id: str = Field(primary_key=True, max_length=255)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    capacity_type: CapacityType = Field(sa_type=choice(CapacityType))
    available: bool
    since: datetime
    seen: datetime = Field(index=True)
    up_seconds: float = 0.0
    losses: float = 0.0
    down_seconds: float = 0.0
    gains: float = 0.0


class Poll(Claimable, table=True):
    """One place that is read again and again: `id` is `kind/provider/account/region`. Claimed while it is
    being read, so that one process reads it at a time; due at `wake_at`.
    """

    id: str = Field(primary_key=True, max_length=160)
    kind: str = Field(max_length=16)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    tried_at: datetime | None = None
    succeeded_at: datetime | None = None
    failures: int = 0
    error: str | None = None
