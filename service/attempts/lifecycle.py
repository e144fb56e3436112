"""The lifecycle: takes each attempt that exists in a cloud one step closer to its end. It calls no cloud."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import func
from sqlmodel import Session, col, select

from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.attempts.rows import instances_of
from service.attempts.verdict import Drain, End, Facts, Keep, Run, Start, decide
from service.context import Context
from service.db import after_commit
from service.events.record import record
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.spec import DEFAULT_GRACE_SECONDS, JobSpec
from service.market.blocks import block_preempted
from service.states import AttemptState, JobState
from service.transitions import move_attempt, move_job

LIVE = (AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.DRAINING)
BATCH = 500
MASTER_PORTS = range(20000, 30000)


def step(ctx: Context) -> datetime | None:
    """Advance every attempt that is due; when the next one is."""
    now = ctx.now()
    due = ctx.database.read(
        lambda session: session.exec(
            select(Attempt.id)
            .where(col(Attempt.state).in_(LIVE), col(Attempt.wake_at) <= now)
            .order_by(col(Attempt.wake_at))
            .limit(BATCH)
        ).all()
    )
    for attempt_id in due:
        ctx.database.write(partial(advance, ctx, attempt_id))
    if due:
        for loop in ("scheduler", "reaper"):
            ctx.wake(loop)
    return ctx.database.read(
        lambda session: session.exec(
            select(func.min(Attempt.wake_at)).where(col(Attempt.state).in_(LIVE))
        ).one()
    )


def advance(ctx: Context, attempt_id: str, session: Session) -> None:
    """Look at one attempt under lock, decide, do it."""
    attempt = session.exec(select(Attempt).where(Attempt.id == attempt_id).with_for_update()).first()
    if attempt is None or attempt.state not in LIVE:
        return
    job = session.exec(select(Job).where(Job.id == attempt.job_id).with_for_update()).one()
    instances = instances_of(session, attempt.id)
    now = ctx.now()
    _note_silence(session, ctx, instances, job, now)
    spec = JobSpec.model_validate(job.spec)
    grace = timedelta(seconds=spec.checkpoint.grace_seconds if spec.checkpoint else DEFAULT_GRACE_SECONDS)
    facts = Facts(
        attempt=attempt,
        instances=instances,
        cancelled=job.cancel_requested_at is not None,
        predecessor_until=_predecessor_until(session, attempt, now),
        grace=grace,
        times=ctx.settings.times,
    )
    verdict = decide(facts, now)
    if isinstance(verdict, End | Drain) and verdict.ended is Ended.PREEMPTED:
        lasts = timedelta(seconds=ctx.settings.times.avoid_after_preemption)
        block_preempted(session, attempt.offer_key, lasts, now=now, chance=ctx.chance)
    if isinstance(verdict, End):
        end_attempt(session, attempt, verdict.ended, verdict.message, now=now, exit_code=verdict.exit_code)
    elif isinstance(verdict, Drain):
        _drain(session, attempt, job, verdict, now)
    elif isinstance(verdict, Start):
        _start(session, ctx, attempt, job, now)
    elif isinstance(verdict, Run):
        _run(session, attempt, job, spec, now)
    else:
        _keep(session, attempt, verdict, now)


def _note_silence(
    session: Session, ctx: Context, instances: Sequence[Instance], job: Job, now: datetime
) -> None:
    """Unreachable is a state that people see and that has the cloud asked; nothing more."""
    limit = timedelta(seconds=ctx.settings.times.silent_after)
    for instance in instances:
        if (
            instance.reachable
            and instance.agent_seen_at is not None
            and now - instance.agent_seen_at >= limit
        ):
            instance.reachable = False
            instance.wake_at = now
            session.add(instance)
            seconds = limit.total_seconds()
            message = f"rank {instance.node} has not spoken for {seconds:.0f} s; the job is left alone"
            record(session, "instance_unreachable", "instance", instance.id, message, at=now, job_id=job.id)
            after_commit(session, partial(ctx.wake, "watcher"))


def _predecessor_until(session: Session, attempt: Attempt, now: datetime) -> datetime | None:
    """Until when an earlier attempt of the job may still write, at the latest; None if none may any more:
    ended, its end reported by every node, or its time over.
    """
    others = session.exec(
        select(Attempt).where(
            Attempt.job_id == attempt.job_id,
            col(Attempt.epoch) < attempt.epoch,
            col(Attempt.state) != AttemptState.ENDED,
        )
    ).all()
    untils = [
        other.drain_deadline or now + timedelta(seconds=60)
        for other in others
        if not all(instance.exit_at is not None for instance in instances_of(session, other.id))
    ]
    last = max(untils, default=now)
    return last if last > now else None


def _drain(session: Session, attempt: Attempt, job: Job, verdict: Drain, now: datetime) -> None:
    attempt.drain_deadline = verdict.deadline
    attempt.wake_at = now
    move_attempt(
        session,
        attempt,
        AttemptState.DRAINING,
        f"{verdict.message}; the job is told and may checkpoint until {verdict.deadline:%H:%M:%S}",
        now=now,
        project_id=job.project_id,
        reason=verdict.ended,
    )
    if verdict.ended is Ended.PREEMPTED:
        # The replacement is looked for at once: it boots while the old instance still lives.
        job.waiting_since, job.wake_at = now, now
        session.add(job)


def _start(session: Session, ctx: Context, attempt: Attempt, job: Job, now: datetime) -> None:
    """From here on only this attempt may write."""
    attempt.may_start_at = now
    attempt.master_port = ctx.chance.choice(MASTER_PORTS)
    attempt.wake_at = attempt.boot_deadline
    job.epoch = attempt.epoch
    session.add(attempt)
    session.add(job)


def _run(session: Session, attempt: Attempt, job: Job, spec: JobSpec, now: datetime) -> None:
    if spec.max_duration_seconds is not None:
        attempt.run_deadline = _run_deadline(session, attempt, spec.max_duration_seconds, now)
    attempt.wake_at = now
    place = f"{attempt.provider}/{attempt.zone} ({attempt.instance_type}, {attempt.capacity_type})"
    move_attempt(
        session, attempt, AttemptState.RUNNING, f"running on {place}", now=now, project_id=job.project_id
    )
    job.waiting_since = None
    session.add(job)
    if job.state is JobState.STARTING:
        move_job(session, job, JobState.RUNNING, f"running on {place}", now=now)


def _run_deadline(session: Session, attempt: Attempt, max_duration: int, now: datetime) -> datetime:
    """max_duration is the job's: what earlier attempts ran is taken off it."""
    earlier = session.exec(
        select(Attempt).where(Attempt.job_id == attempt.job_id, col(Attempt.running_at).is_not(None))
    ).all()
    ran = sum(
        ((other.ended_at or now) - other.running_at).total_seconds()
        for other in earlier
        if other.running_at is not None and other.id != attempt.id
    )
    return now + timedelta(seconds=max(0.0, max_duration - ran))


def _keep(session: Session, attempt: Attempt, verdict: Keep, now: datetime) -> None:
    attempt.wake_at = verdict.until if verdict.until is not None else now + timedelta(seconds=60)
    session.add(attempt)
