"""When a loop has work next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, case, func
from sqlmodel import Session, col, select

from service.db.claims import Claimable


def next_due(session: Session, model: type[Claimable], *conditions: ColumnElement[bool]) -> datetime | None:
    """The earliest moment at which a row that meets the conditions is due and free; None if there is none."""
    table: Any = model
    free_at = case(
        (col(table.claim_until) > col(table.wake_at), col(table.claim_until)), else_=col(table.wake_at)
    )
    moment: datetime | None = session.exec(
        select(func.min(free_at)).where(*conditions, col(table.wake_at).is_not(None))
    ).one()
    return moment
