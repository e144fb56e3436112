"""Cancelling: a wish that is kept in the database before anyone is told that it was granted."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session, col, select

from service.api.problems import Problem
from service.attempts.model import Attempt
from service.db import release
from service.jobs.model import Job
from service.states import JOB, JOB_OVER, AttemptState, JobState, allowed
from service.transitions import move_job


def cancel_job(session: Session, job_id: str, *, by: str, now: datetime) -> JobState:
    """Have a job stopped; the state that it is in now. Repeating it changes nothing.

    A job that waits is cancelled at once; else it is stopping, and the lifecycle tells its agents. Whoever
    has claimed the row loses it, so that nothing is launched after this commit. Problem 409 if it has ended
    otherwise.
    """
    job = session.exec(select(Job).where(col(Job.id) == job_id).with_for_update()).one()
    if job.state is JobState.CANCELLED or job.state is JobState.STOPPING:
        return job.state
    if job.state in JOB_OVER:
        raise Problem(409, f"the job has {job.state} already", code="job_over", state=job.state)
    release(job, None)
    job.cancel_requested_at = now
    attempts = session.exec(
        select(Attempt)
        .where(col(Attempt.job_id) == job_id, col(Attempt.state) != AttemptState.ENDED)
        .with_for_update()
    ).all()
    to = JobState.STOPPING if allowed(JOB, job.state, JobState.STOPPING) else JobState.CANCELLED
    move_job(session, job, to, "cancelled by a user", now=now, reason="cancelled", by=by)
    for attempt in attempts:
        attempt.wake_at = now
        session.add(attempt)
    return job.state
