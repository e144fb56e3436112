"""Cancelling a job: at once where nothing of it exists, else by having its attempts stop."""

from __future__ import annotations

from sqlmodel import Session, col, select

from service.attempts.model import Attempt
from service.context import Context
from service.jobs.model import Job
from service.states import JOB_OVER, AttemptState, JobState
from service.transitions import move_job


def cancel_job(session: Session, ctx: Context, job: Job) -> None:
    """Have a job end. Nothing happens to one that is over or stopping."""
    if job.state in JOB_OVER or job.state is JobState.STOPPING:
        return
    now = ctx.now()
    job.cancel_requested_at = now
    live = session.exec(
        select(Attempt).where(Attempt.job_id == job.id, col(Attempt.state) != AttemptState.ENDED)
    ).all()
    if not live:
        move_job(session, job, JobState.CANCELLED, "cancelled", now=now, reason="cancelled")
        return
    job.wake_at = None
    move_job(session, job, JobState.STOPPING, "cancelled; it is being stopped", now=now, reason="cancelled")
    for attempt in live:
        attempt.wake_at = now
        session.add(attempt)
