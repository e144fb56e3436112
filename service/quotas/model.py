"""Tables: quotas as last read, and their history."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import BigInteger, Field, Index, Integer, SQLModel

from providers.quotas import QuotaUnit
from service.db import choice, document


class QuotaRow(SQLModel, table=True):
    """One limit of one account. `region` None: it holds over the whole account. `limit` and `usage` in
    `unit`; None is unknown, never zero. `gates`: the scopes of the offers that draw on it.
    """

    __tablename__ = "quota"
    __table_args__ = (Index("quota_by_place", "provider", "account", "region"),)

    id: str = Field(primary_key=True, max_length=255)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str | None = Field(default=None, max_length=64)
    key: str = Field(max_length=128)
    name: str = Field(max_length=255)
    unit: QuotaUnit = Field(sa_type=choice(QuotaUnit))
    limit: float | None = None
    usage: float | None = None
    gates: list[dict[str, str]] = Field(sa_type=document())
    adjustable: bool | None = None
    read_at: datetime


class QuotaReading(SQLModel, table=True):
    """A limit and usage as they were from `read_at` until the next row of the same quota. Written when one of
    them changes.
    """

    __tablename__ = "quota_reading"
    __table_args__ = (Index("quota_reading_by_quota", "quota_id", "read_at"),)

    id: int | None = Field(
        default=None, primary_key=True, sa_type=BigInteger().with_variant(Integer, "sqlite")
    )
    quota_id: str = Field(max_length=255)
    read_at: datetime = Field(index=True)
    limit: float | None = None
    usage: float | None = None
