"""The lifecycle: takes each attempt that exists in a cloud one step closer to its end. It calls no cloud."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy import func, update
from sqlmodel import Session, col, select

from service.attempts.draining import drain, grace_of
from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended, tries_left
from service.attempts.rows import instances_of
from service.attempts.verdict import Drain, End, Facts, Keep, Run, Start, decide
from service.attempts.writers import writes_until
from service.context import Context
from service.db import look_again
from service.events.record import record
from service.instances.model import AgentState, Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.market.blocks import block_preempted, block_unbooted
from service.market.model import Poll
from service.notifications.model import Channel
from service.quota_desk.model import QuotaRequest
from service.reservations.ends import leave_at, taken_at
from service.reservations.slots import reservation_of
from service.states import AttemptState, JobState
from service.transitions import move_attempt, move_job

log = structlog.get_logger(__name__)

LIVE = (AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.DRAINING)
BATCH = 500
AWAY = timedelta(seconds=120)
"""A loop that has not run for so long was stopped, or its clock was set."""
AFTER_FAULT = timedelta(seconds=60)
LOOPS_WITH_DATES = ("market", "scheduler", "launcher", "watcher", "reaper", "notifications")
MASTER_PORTS = range(20000, 30000)


class Lifecycle:
    """Remembers since when this process could hear agents: neither its own absence nor a clock that was set
    is their silence.
    """

    def __init__(self) -> None:
        self._last_step: datetime | None = None

    def step(self, ctx: Context) -> datetime | None:
        """Advance every attempt that is due; when the next one is."""
        now = ctx.now()
        if self._last_step is None or not timedelta(0) <= now - self._last_step <= AWAY:
            ctx.listening_since = now
        if self._was_set_back(ctx, now):
            ctx.database.write(
                lambda session: look_again(session, now, Job, Attempt, Instance, Poll, Channel, QuotaRequest)
            )
            for loop in LOOPS_WITH_DATES:
                ctx.wake(loop)
        self._last_step = now
        due = ctx.database.read(partial(_due, now=now))
        for attempt_id in due:
            _guarded(ctx, attempt_id, now)
        if due:
            for loop in ("scheduler", "reaper"):
                ctx.wake(loop)
        return ctx.database.read(_next_due)

    def _was_set_back(self, ctx: Context, now: datetime) -> bool:
        """True if the clock showed a later time before; a new process asks the rows."""
        if self._last_step is not None:
            return now < self._last_step
        later = select(Poll.id).where(col(Poll.tried_at) > now).limit(1)
        return ctx.database.read(lambda session: session.exec(later).first()) is not None


def _due(session: Session, now: datetime) -> Sequence[str]:
    return session.exec(
        select(Attempt.id)
        .where(col(Attempt.state).in_(LIVE), col(Attempt.wake_at) <= now)
        .order_by(col(Attempt.wake_at))
        .limit(BATCH)
    ).all()


def _next_due(session: Session) -> datetime | None:
    return session.exec(select(func.min(Attempt.wake_at)).where(col(Attempt.state).in_(LIVE))).one()


def _guarded(ctx: Context, attempt_id: str, now: datetime) -> None:
    """A fault of ours over one attempt is logged and holds up no other."""
    try:
        ctx.database.write(partial(advance, ctx, attempt_id))
    except Exception:
        log.exception("attempt_failed", attempt=attempt_id)
        later = update(Attempt).where(col(Attempt.id) == attempt_id).values(wake_at=now + AFTER_FAULT)
        ctx.database.write(lambda session: session.connection().execute(later))


def advance(ctx: Context, attempt_id: str, session: Session) -> None:
    """Look at one attempt under lock, decide, do it."""
    of = select(Attempt.job_id).where(Attempt.id == attempt_id).scalar_subquery()
    # The job first, like everyone who locks both.
    job = session.exec(select(Job).where(Job.id == of).with_for_update()).first()
    attempt = session.exec(select(Attempt).where(Attempt.id == attempt_id).with_for_update()).first()
    if job is None or attempt is None or attempt.state not in LIVE:
        return
    instances = instances_of(session, attempt.id)
    now = ctx.now()
    spec = JobSpec.model_validate(job.spec)
    reservation, grace = reservation_of(session, attempt.offer_key), grace_of(spec)
    facts = Facts(
        attempt=attempt,
        instances=instances,
        cancelled=job.cancel_requested_at is not None,
        predecessor_until=_predecessor_until(session, ctx, attempt, now),
        grace=grace,
        times=ctx.settings.times,
        listening_since=ctx.listening_since,
        leave_at=None if reservation is None else leave_at(reservation.kind, reservation.ends_at, grace),
        taken_at=None if reservation is None else taken_at(reservation.kind, reservation.ends_at),
        replaced=_is_replaced(session, attempt),
    )
    _note_silence(session, ctx, facts, job, now)
    verdict = decide(facts, now)
    if isinstance(verdict, End | Drain) and verdict.ended is Ended.PREEMPTED:
        lasts = timedelta(seconds=ctx.settings.times.avoid_after_preemption)
        block_preempted(session, attempt.offer_key, lasts, now=now, chance=ctx.chance)
    if isinstance(verdict, End):
        if verdict.ended is Ended.BOOT_FAILED and not any(one.exit_at for one in instances):
            _avoid_unbooted(session, ctx, attempt, spec, now)
        end_attempt(session, attempt, verdict.ended, verdict.message, now=now, exit_code=verdict.exit_code)
    elif isinstance(verdict, Drain):
        _leave(session, attempt, job, spec, verdict, now)
    elif isinstance(verdict, Start):
        _start(session, ctx, attempt, job, now)
    elif isinstance(verdict, Run):
        _run(session, attempt, job, spec, now)
    else:
        _keep(session, attempt, verdict, now)
        _tell_predecessor(session, attempt, instances, now)


def _avoid_unbooted(session: Session, ctx: Context, attempt: Attempt, spec: JobSpec, now: datetime) -> None:
    """The next machine comes up elsewhere; after two in a row in one account, in another one."""
    before = session.exec(
        select(Attempt).where(Attempt.job_id == attempt.job_id, Attempt.number == attempt.number - 1)
    ).first()
    again = (
        before is not None
        and before.reason == Ended.BOOT_FAILED
        and (before.provider, before.account) == (attempt.provider, attempt.account)
    )
    block_unbooted(session, attempt.offer_key, spec.image, again=again, now=now, chance=ctx.chance)


def _note_silence(session: Session, ctx: Context, facts: Facts, job: Job, now: datetime) -> None:
    """Unreachable is a state that people see and that has the cloud asked; nothing more."""
    limit = timedelta(seconds=facts.times.silent_after)
    for instance in facts.instances:
        seen = facts.heard(instance)
        if instance.reachable and seen is not None and now - seen >= limit:
            instance.reachable = False
            instance.wake_at = now
            session.add(instance)
            seconds = limit.total_seconds()
            message = f"rank {instance.node} has not spoken for {seconds:.0f} s; the job is left alone"
            record(session, "instance_unreachable", "instance", instance.id, message, at=now, job_id=job.id)
            ctx.wake("watcher")


def _predecessor_until(session: Session, ctx: Context, attempt: Attempt, now: datetime) -> datetime | None:
    """Until when an earlier attempt of the job may still write; None if none may any more."""
    if attempt.state is not AttemptState.BOOTING:
        return None
    earlier = session.exec(
        select(Attempt).where(
            Attempt.job_id == attempt.job_id,
            col(Attempt.epoch) < attempt.epoch,
            col(Attempt.may_start_at).is_not(None),
        )
    ).all()
    pairs = [(other, instances_of(session, other.id)) for other in earlier]
    return writes_until(pairs, ctx.settings.times, now)


def _is_replaced(session: Session, attempt: Attempt) -> bool:
    """True if what a running attempt is to be moved to has booted and every node of it is ready."""
    if attempt.state is not AttemptState.RUNNING:
        return False
    after = session.exec(
        select(Attempt).where(Attempt.replaces == attempt.id, Attempt.state == AttemptState.BOOTING)
    ).all()
    return any(_is_ready(instances_of(session, other.id)) for other in after)


def _is_ready(instances: Sequence[Instance]) -> bool:
    return all(instance.agent_state is AgentState.READY for instance in instances)


def _tell_predecessor(
    session: Session, attempt: Attempt, instances: Sequence[Instance], now: datetime
) -> None:
    """The replacement is ready: what still runs may be told to leave."""
    if attempt.replaces is None or attempt.state is not AttemptState.BOOTING or not _is_ready(instances):
        return
    session.connection().execute(
        update(Attempt)
        .where(col(Attempt.id) == attempt.replaces, col(Attempt.state) == AttemptState.RUNNING)
        .values(wake_at=now)
    )


def _leave(
    session: Session, attempt: Attempt, job: Job, spec: JobSpec, verdict: Drain, now: datetime
) -> None:
    drain(session, attempt, job, verdict.ended, verdict.message, verdict.deadline, now)
    if verdict.ended is Ended.PREEMPTED and tries_left(spec.retry, job.retries_used, verdict.ended, None):
        # The replacement is looked for at once: it boots while the old instance still lives.
        job.waiting_since, job.wake_at = now, now
        session.add(job)


def _start(session: Session, ctx: Context, attempt: Attempt, job: Job, now: datetime) -> None:
    """From here on only this attempt may write."""
    attempt.may_start_at = now
    attempt.master_port = ctx.chance.choice(MASTER_PORTS)
    going_by = now + timedelta(seconds=ctx.settings.times.boot)
    attempt.boot_deadline = max(attempt.boot_deadline or going_by, going_by)
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
        session,
        attempt,
        AttemptState.RUNNING,
        f"running on {place}",
        now=now,
        project_id=job.project_id,
        again=job.started_at is not None,
    )
    job.waiting_since, job.wake_at = None, now  # the scheduler reviews what runs
    session.add(job)
    if job.state is JobState.STARTING:
        move_job(session, job, JobState.RUNNING, f"running on {place}", now=now)


def _run_deadline(session: Session, attempt: Attempt, max_duration: int, now: datetime) -> datetime:
    """max_duration is the job's: what earlier attempts ran is taken off it."""
    earlier = session.exec(
        select(Attempt).where(Attempt.job_id == attempt.job_id, col(Attempt.running_at).is_not(None))
    ).all()
    ran = sum(
        max(0.0, ((other.ended_at or now) - other.running_at).total_seconds())
        for other in earlier
        if other.running_at is not None and other.id != attempt.id
    )
    return now + timedelta(seconds=max(0.0, max_duration - ran))


def _keep(session: Session, attempt: Attempt, verdict: Keep, now: datetime) -> None:
    attempt.wake_at = verdict.until if verdict.until is not None else now + timedelta(seconds=60)
    session.add(attempt)
