"""Table: quotas, as last read."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Field, Index, SQLModel

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
