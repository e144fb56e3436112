"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, Enum
from sqlalchemy.dialects.postgresql import JSONB


def choice(kind: type[StrEnum]) -> Enum:
    """A StrEnum, stored by its wire spelling in a plain text column."""
    return Enum(kind, native_enum=False, length=24, values_callable=lambda e: [member.value for member in e])


def document() -> Any:
    """A JSON document. Reassign it to change it: changes in place are not seen."""
    return JSON().with_variant(JSONB(), "postgresql")
