"""Ending an attempt: its instances are let go, and the job is done, tried again, or failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlmodel import Session, col, select

from service.attempts.model import Attempt
from service.attempts.outcome import MEANINGS, REPLACED, Ended, tries_left
from service.attempts.rows import instances_of
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.market.history import note_ended
from service.states import INSTANCE, JOB_OVER, AttemptState, InstanceState, JobState
from service.transitions import move_attempt, move_instance, move_job

_FINAL = {"failed": JobState.FAILED, "cancelled": JobState.CANCELLED, "succeeded": JobState.SUCCEEDED}


def end_attempt(
    session: Session,
    attempt: Attempt,
    ended: Ended,
    message: str,
    *,
    now: datetime,
    exit_code: int | None = None,
) -> None:
    """End an attempt and draw the consequence for its job, in the caller's transaction."""
    job = session.exec(select(Job).where(Job.id == attempt.job_id).with_for_update()).one()
    move_attempt(
        session, attempt, AttemptState.ENDED, message, now=now, project_id=job.project_id, reason=ended
    )
    note_ended(session, attempt, ended, now)
    for instance in instances_of(session, attempt.id):
        let_go(session, instance, job.id, f"its attempt ended: {ended}", now)
    _conclude(session, job, attempt, ended, message, exit_code, now)


def let_go(session: Session, instance: Instance, job_id: str | None, message: str, now: datetime) -> None:
    """Have an instance ended; one that was never asked for is over at once."""
    if instance.state is InstanceState.PLANNED:
        move_instance(session, instance, InstanceState.TERMINATED, message, now=now, job_id=job_id)
    elif InstanceState.TERMINATING in INSTANCE[instance.state]:
        move_instance(session, instance, InstanceState.TERMINATING, message, now=now, job_id=job_id)


def _conclude(
    session: Session,
    job: Job,
    attempt: Attempt,
    ended: Ended,
    message: str,
    exit_code: int | None,
    now: datetime,
) -> None:
    """What becomes of the job. Another live attempt (a replacement, or the one being replaced) changes it."""
    if job.state in JOB_OVER:
        return
    others = session.exec(
        select(Attempt).where(
            Attempt.job_id == job.id, Attempt.id != attempt.id, col(Attempt.state) != AttemptState.ENDED
        )
    ).all()
    if _is_vain_move(attempt, others):  # what was to be replaced runs on, as if nothing had been
        return
    final = _final_state(job, ended, exit_code)
    if final is JobState.CANCELLED and others:  # it is over when nothing of it runs any more
        for other in others:
            other.wake_at = now
            session.add(other)
        return
    if final is not None:
        for other in others:
            _supersede(session, other, job, now)
        job.retries_used = _used(job, ended)
        move_job(session, job, final, message, now=now, reason=ended, attempt=attempt.id)
        return
    job.retries_used = _used(job, ended)
    if others:
        ahead = others[0].state in (AttemptState.DRAINING, AttemptState.RUNNING)
        if job.state is JobState.RUNNING and not ahead:
            move_job(session, job, JobState.STARTING, f"{message}; its replacement is on its way", now=now)
        if others[0].drain_reason in REPLACED:  # what has ended was to replace it: the next offer
            job.waiting_since, job.wake_at = job.waiting_since or now, now
        session.add(job)
        others[0].wake_at = now
        session.add(others[0])
        return
    job.waiting_since = job.waiting_since or now
    job.wake_at = now
    if job.state in (JobState.STARTING, JobState.RUNNING):
        move_job(session, job, JobState.QUEUED, message, now=now, reason=ended)
    session.add(job)


def _is_vain_move(attempt: Attempt, others: Sequence[Attempt]) -> bool:
    """True for a replacement that ends while what it was to replace still runs, untold."""
    if attempt.replaces is None or attempt.may_start_at is not None:
        return False
    return any(other.id == attempt.replaces and other.state is AttemptState.RUNNING for other in others)


def _final_state(job: Job, ended: Ended, exit_code: int | None) -> JobState | None:
    """The state in which the job ends now; None if it goes on."""
    meaning = MEANINGS[ended]
    if meaning.job == "succeeded":
        return JobState.SUCCEEDED
    if job.state is JobState.STOPPING or job.cancel_requested_at is not None:
        return JobState.CANCELLED
    retry = JobSpec.model_validate(job.spec).retry
    if tries_left(retry, job.retries_used, ended, exit_code):
        return None
    return _FINAL[meaning.job]


def _used(job: Job, ended: Ended) -> dict[str, int]:
    counts_as = MEANINGS[ended].counts_as
    if counts_as is None:
        return job.retries_used
    return {**job.retries_used, counts_as: job.retries_used.get(counts_as, 0) + 1}


def _supersede(session: Session, attempt: Attempt, job: Job, now: datetime) -> None:
    message = "the job is over"
    note_ended(session, attempt, Ended.SUPERSEDED, now)
    move_attempt(
        session,
        attempt,
        AttemptState.ENDED,
        message,
        now=now,
        project_id=job.project_id,
        reason=Ended.SUPERSEDED,
    )
    for instance in instances_of(session, attempt.id):
        let_go(session, instance, job.id, message, now)
