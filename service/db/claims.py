"""Claiming rows: by compare-and-set on owner, token and expiry, the same on SQLite and PostgreSQL.

A loop claims what is due, works on it outside any transaction, and writes back only while its token still
holds: a worker that was away too long finds its token gone and its result refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, or_, update
from sqlmodel import Field, Session, SQLModel, col, select

CLAIM_LASTS = timedelta(seconds=60)
LONGEST_CLAIM = timedelta(minutes=10)


class Claimable(SQLModel):
    """Columns of a row that loops work on. `wake_at`: not due before; None: only an event makes it due."""

    claim_owner: str | None = Field(default=None, max_length=64)
    claim_token: str | None = Field(default=None, max_length=32)
    claim_until: datetime | None = None
    wake_at: datetime | None = Field(default=None, index=True)


Row = TypeVar("Row", bound=Claimable)


def claim_due(
    session: Session,
    model: type[Row],
    *conditions: ColumnElement[bool],
    owner: str,
    now: datetime,
    chance: Random,
    limit: int,
    lasts: timedelta = CLAIM_LASTS,
) -> Sequence[tuple[str, str]]:
    """Claim up to `limit` due rows that meet the conditions; (id, token) of each, longest due first."""
    table: Any = model
    free = or_(col(table.claim_until).is_(None), col(table.claim_until) <= now)
    due = col(table.wake_at) <= now
    ids = session.exec(
        select(table.id)
        .where(*conditions, free, due)
        .order_by(col(table.wake_at), col(table.id))
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    claims = []
    for row_id in ids:
        token = f"{chance.getrandbits(128):032x}"
        taken = session.connection().execute(
            update(table)
            .where(col(table.id) == row_id, free)
            .values(claim_owner=owner, claim_token=token, claim_until=now + lasts)
        )
        if taken.rowcount == 1:
            claims.append((row_id, token))
    return claims


def held(session: Session, model: type[Row], row_id: str, token: str) -> Row | None:
    """The row, locked, if the claim still holds; None if someone else has it by now."""
    table: Any = model
    row: Row | None = session.exec(
        select(table).where(col(table.id) == row_id, col(table.claim_token) == token).with_for_update()
    ).first()
    return row


def release(row: Claimable, wake_at: datetime | None) -> None:
    """Give a row back; it is due again at `wake_at`."""
    row.claim_owner = row.claim_token = row.claim_until = None
    row.wake_at = wake_at


def release_all(session: Session, *models: type[Claimable]) -> None:
    """Give back every claim: for a process that knows itself to be the only one, as on SQLite, when it
    starts. Whoever held them is dead.
    """
    for model in models:
        table: Any = model
        session.connection().execute(
            update(table)
            .where(col(table.claim_token).is_not(None))
            .values(claim_owner=None, claim_token=None, claim_until=None)
        )


def look_again(session: Session, now: datetime, *models: type[Claimable]) -> None:
    """Have every row looked at now: for when the clock was set back, so that times that were written before
    it may be far away. Looking early does no harm. A claim that ends later than any can is void.
    """
    for model in models:
        table: Any = model
        session.connection().execute(update(table).where(col(table.wake_at) > now).values(wake_at=now))
        session.connection().execute(
            update(table)
            .where(col(table.claim_until) > now + LONGEST_CLAIM)
            .values(claim_owner=None, claim_token=None, claim_until=None)
        )
