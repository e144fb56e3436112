"""Having an attempt leave: the job is told, may checkpoint and stops; what never ran is ended at once."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.jobs.model import Job
from service.jobs.spec import DEFAULT_GRACE_SECONDS, JobSpec
from service.states import AttemptState, JobState
from service.transitions import move_attempt, move_job


def grace_of(spec: JobSpec) -> timedelta:
    """From SIGTERM until the last checkpoint is written."""
    return timedelta(seconds=spec.checkpoint.grace_seconds if spec.checkpoint else DEFAULT_GRACE_SECONDS)


def drain(
    session: Session, attempt: Attempt, job: Job, ended: Ended, message: str, until: datetime, now: datetime
) -> None:
    """Tell a running attempt to stop by `until`."""
    attempt.drain_deadline, attempt.wake_at = until, now
    move_attempt(
        session,
        attempt,
        AttemptState.DRAINING,
        f"{message}; the job is told and may checkpoint until {until:%H:%M:%S}",
        now=now,
        project_id=job.project_id,
        reason=ended,
    )


def stop_job(session: Session, job: Job, ended: Ended, message: str, now: datetime) -> None:
    """Have a job fail: at once where nothing of it runs, else once it was told and had its grace."""
    grace = grace_of(JobSpec.model_validate(job.spec))
    live = session.exec(
        select(Attempt)
        .where(Attempt.job_id == job.id, col(Attempt.state) != AttemptState.ENDED)
        .order_by(col(Attempt.number))
        .with_for_update()
    ).all()
    running = [attempt for attempt in live if attempt.may_start_at is not None]
    for attempt in live:
        if attempt not in running:
            end_attempt(session, attempt, Ended.SUPERSEDED if running else ended, message, now=now)
        elif attempt.state is not AttemptState.DRAINING:
            drain(session, attempt, job, ended, message, now + grace, now)
    if not live:
        move_job(session, job, JobState.FAILED, message, now=now, reason=ended)
