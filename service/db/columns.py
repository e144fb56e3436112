"""Column types that mean the same on SQLite and PostgreSQL."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, Enum, TypeDecorator

if TYPE_CHECKING:
    from sqlalchemy import Dialect
    from sqlalchemy.types import TypeEngine


def choice(kind: type[StrEnum]) -> Enum:
    """A StrEnum, stored by its wire spelling in a plain text column."""
    return Enum(kind, native_enum=False, length=24, values_callable=lambda e: [member.value for member in e])


class Document(TypeDecorator[Any]):
    """JSON; on PostgreSQL JSONB, of which the code is imported only there: it takes 2.5 MB."""

    impl = JSON
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            from sqlalchemy.dialects.postgresql import JSONB

            return dialect.type_descriptor(JSONB())
        return dialect.type_descriptor(JSON())


def document() -> Any:
    """A JSON document. Reassign it to change it: changes in place are not seen."""
    return Document()
