"""Table: log chunks. The bytes are in the object store; the row says which part of the log they are."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import BigInteger, Field, SQLModel


class LogChunk(SQLModel, table=True):
    """Bytes [offset, offset + bytes) of the log of one rank of an attempt."""

    __tablename__ = "log_chunk"

    attempt_id: str = Field(primary_key=True, foreign_key="attempt.id", max_length=40)
    rank: int = Field(primary_key=True)
    offset: int = Field(primary_key=True, sa_type=BigInteger)
    bytes: int
    received_at: datetime
