"""Table: blobs. The bytes are in the object store under their hash."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import BigInteger, Field, SQLModel


class Blob(SQLModel, table=True):
    """Bytes that a project uploaded, kept once per project and content."""

    project_id: str = Field(primary_key=True, foreign_key="project.id", max_length=40)
    sha256: str = Field(primary_key=True, max_length=64)
    bytes: int = Field(sa_type=BigInteger)
    created_at: datetime
    used_at: datetime
