"""The history of limits and usage: a row whenever one of them changes, kept for a quarter."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlmodel import Session, col

from service.quotas.model import QuotaReading, QuotaRow

KEPT = timedelta(days=92)


def keep_history(session: Session, before: QuotaRow | None, now: QuotaRow) -> None:
    """Write a reading down unless it says what the last one did."""
    if before is None or (before.limit, before.usage) != (now.limit, now.usage):
        session.add(QuotaReading(quota_id=now.id, read_at=now.read_at, limit=now.limit, usage=now.usage))


def forget_history(session: Session, now: datetime) -> None:
    """Drop what is older than is kept."""
    session.connection().execute(delete(QuotaReading).where(col(QuotaReading.read_at) < now - KEPT))
