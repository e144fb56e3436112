"""Table: events, the history that people read."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import BigInteger, Field, Index, Integer, SQLModel

from service.db import document


class Event(SQLModel, table=True):
    """Something that happened to a subject, written in the transaction that made it so."""

    __table_args__ = (
        Index("event_by_job", "job_id", "id"),
        Index("event_by_subject", "subject", "subject_id", "id"),
    )

    id: int | None = Field(
        default=None, primary_key=True, sa_type=BigInteger().with_variant(Integer, "sqlite")
    )
    at: datetime = Field(index=True)
    kind: str = Field(max_length=48)
    subject: str = Field(max_length=16)
    subject_id: str = Field(max_length=64)
    job_id: str | None = Field(default=None, max_length=40)
    project_id: str | None = Field(default=None, max_length=40, index=True)
    message: str
    data: dict[str, Any] = Field(default_factory=dict, sa_type=document())
