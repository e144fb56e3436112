"""Jobs that have waited for longer than someone would like to hear of only by chance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import exists
from sqlmodel import Session, col, select

from service.context import Context
from service.events.model import Event
from service.events.record import record
from service.jobs.model import Job
from service.states import JOB_OVER

KIND = "job_waiting_long"
LOOK_EVERY = timedelta(seconds=30)
BATCH = 500


class LongWaits:
    """Looks every half minute, however often it is asked."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None

    def tell(self, ctx: Context) -> datetime:
        """An event for each job that waits for too long; once for each time that it waits. When to look
        again.
        """
        now = ctx.now()
        if self._looked_at is None or not timedelta(0) <= now - self._looked_at < LOOK_EVERY:
            self._looked_at = now
            _look(ctx, now)
        return self._looked_at + LOOK_EVERY


def _look(ctx: Context, now: datetime) -> None:
    before = now - timedelta(seconds=ctx.settings.notifications.waiting_after)
    if ctx.database.read(lambda session: session.exec(_untold(before).limit(1)).first()) is not None:
        ctx.database.write(lambda session: _tell(session, before, now))


def _untold(before: datetime) -> Any:
    told = exists().where(
        col(Event.job_id) == col(Job.id), col(Event.kind) == KIND, col(Event.at) >= col(Job.waiting_since)
    )
    return select(Job).where(col(Job.waiting_since) <= before, col(Job.state).not_in(sorted(JOB_OVER)), ~told)


def _tell(session: Session, before: datetime, now: datetime) -> None:
    for job in session.exec(_untold(before).limit(BATCH).with_for_update(skip_locked=True)).all():
        if job.waiting_since is None:
            continue
        minutes = (now - job.waiting_since).total_seconds() / 60
        why = job.decision.get("why") or "it was not looked at yet"
        record(
            session,
            KIND,
            "job",
            job.id,
            f"waits for {minutes:.0f} min: {why}",
            at=now,
            job_id=job.id,
            project_id=job.project_id,
            waiting_since=job.waiting_since.isoformat(),
        )
