"""What agents report: each report writes facts and wakes the lifecycle; none moves a job by itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import Any

from sqlmodel import Session

from service.agents.directives import Answer, answer
from service.api.problems import Problem
from service.attempts.model import Attempt
from service.attempts.rows import instances_of
from service.context import Context
from service.db import after_commit
from service.events.record import record
from service.instances.facts import wake_attempt
from service.instances.model import AgentState, Instance
from service.jobs.model import Job
from service.jobs.spec import DEFAULT_GRACE_SECONDS, JobSpec

PREEMPTION = "preemption"
LONGEST_NOTICE = timedelta(minutes=15)
LONGEST_AHEAD = timedelta(days=30)
"""A deadline further away than this, of a preemption or of maintenance, is a clock that is wrong."""


_NOTHING: Mapping[str, list[Any]] = MappingProxyType({})


def check_epoch(session: Session, attempt: Attempt, epoch: int) -> Job:
    """The job, if the attempt may still speak for it. Problem 409 if another attempt writes now."""
    job = session.get_one(Job, attempt.job_id)
    if epoch != attempt.epoch or attempt.epoch < job.epoch:
        raise Problem(409, "another attempt of this job writes now", code="stale_epoch")
    return job


def heartbeat(
    session: Session,
    ctx: Context,
    instance: Instance,
    attempt: Attempt,
    *,
    epoch: int,
    state: AgentState,
    vitals: Mapping[str, list[Any]] = _NOTHING,
) -> Answer:
    """An agent is alive and says what it does; the directive it gets. `vitals`: `gpus_now`, and `degraded`,
    which names what the agent cannot do.
    """
    job = check_epoch(session, attempt, epoch)
    now = ctx.now()
    if not instance.reachable:
        message = f"rank {instance.node} speaks again"
        record(session, "instance_reachable", "instance", instance.id, message, at=now, job_id=job.id)
    instance.agent_seen_at, instance.reachable = now, True
    _take_vitals(session, instance, vitals, job, now)
    if instance.agent_state is not state and instance.exit_at is None:
        instance.agent_state = state
        wake_attempt(session, attempt, now)
        after_commit(session, partial(ctx.wake, "lifecycle"))
    session.add(instance)
    return directive(session, ctx, instance, attempt, job)


def _take_vitals(
    session: Session, instance: Instance, vitals: Mapping[str, list[Any]], job: Job, now: datetime
) -> None:
    before = instance.facts.get("degraded", [])
    degraded = vitals.get("degraded", [])
    if degraded != before:
        what = f"degraded: {', '.join(degraded)}" if degraded else "no longer degraded"
        message = f"rank {instance.node} on {instance.provider}/{instance.zone} is {what}"
        kind = "instance_degraded" if degraded else "instance_recovered"
        record(session, kind, "instance", instance.id, message, at=now, job_id=job.id, degraded=degraded)
    given = {name: value for name, value in vitals.items() if value or name in instance.facts}
    if given:
        instance.facts = {**instance.facts, **given}


def directive(session: Session, ctx: Context, instance: Instance, attempt: Attempt, job: Job) -> Answer:
    """What the agent is told now."""
    checkpoint = JobSpec.model_validate(job.spec).checkpoint
    return answer(
        attempt,
        instance,
        instances_of(session, attempt.id),
        grace_seconds=checkpoint.grace_seconds if checkpoint else DEFAULT_GRACE_SECONDS,
        heartbeat_seconds=ctx.settings.times.heartbeat,
        now=ctx.now(),
    )


def notice(
    session: Session,
    ctx: Context,
    instance: Instance,
    attempt: Attempt,
    *,
    epoch: int,
    kind: str,
    deadline: datetime | None,
    source: str,
) -> None:
    """The cloud is about to take the instance away. The deadline is the cloud's word; nonsense is bounded.

    Maintenance without a deadline is a hint: people see it, nothing is done. A preemption counts even if
    maintenance was announced before.
    """
    job = check_epoch(session, attempt, epoch)
    now = ctx.now()
    instance.agent_seen_at = now
    session.add(instance)
    known = instance.notice_kind == kind or instance.notice_kind == PREEMPTION
    if instance.notice_at is not None and known:
        return
    where = f"rank {instance.node} on {instance.provider}/{instance.zone}"
    hint = kind != PREEMPTION and deadline is None
    if hint:
        message = f"{where}: {source or kind}; a hint, nothing is done"
    else:
        left = _take_notice(instance, kind, deadline, now)
        message = f"{where}: {kind} notice, {left}"
    record(
        session,
        "instance_hint" if hint else "instance_notice",
        "instance",
        instance.id,
        message,
        at=now,
        job_id=job.id,
        project_id=job.project_id,
        source=source,
    )
    if not hint:
        wake_attempt(session, attempt, now)
        after_commit(session, partial(ctx.wake, "lifecycle"))


def _take_notice(instance: Instance, kind: str, deadline: datetime | None, now: datetime) -> str:
    """Write a notice down; how much time it leaves, in words."""
    longest = LONGEST_NOTICE if kind == PREEMPTION else LONGEST_AHEAD
    instance.notice_at, instance.notice_kind = now, kind
    instance.notice_deadline = min(max(deadline, now), now + longest) if deadline else None
    if instance.notice_deadline is None:
        return "no time left"
    return f"{(instance.notice_deadline - now).total_seconds():.0f} s left"


def started(
    session: Session, ctx: Context, instance: Instance, attempt: Attempt, *, epoch: int, restored: str | None
) -> None:
    """The job runs on this node."""
    job = check_epoch(session, attempt, epoch)
    now = ctx.now()
    if instance.exit_at is None:
        instance.agent_state = AgentState.RUNNING
    session.add(instance)
    from_where = f"from checkpoint {restored}" if restored else "from the beginning"
    message = f"rank {instance.node}: the job starts {from_where}"
    record(
        session,
        "job_process_started",
        "attempt",
        attempt.id,
        message,
        at=now,
        job_id=job.id,
        project_id=job.project_id,
        restored=restored,
    )
    wake_attempt(session, attempt, now)
    after_commit(session, partial(ctx.wake, "lifecycle"))


def checkpoint(
    session: Session, ctx: Context, instance: Instance, attempt: Attempt, *, epoch: int, name: str, size: int
) -> None:
    """A checkpoint is whole in the store. It counts for the job once each node has reported it, or at once
    for a single node.
    """
    job = check_epoch(session, attempt, epoch)
    now = ctx.now()
    facts = {**instance.facts, "checkpoint": name}
    instance.facts = facts
    session.add(instance)
    nodes = instances_of(session, attempt.id)
    if all(node.facts.get("checkpoint") == name for node in nodes):
        attempt.checkpoint, attempt.checkpoint_at = name, now
        job.checkpoint, job.checkpoint_at = name, now
        session.add(attempt)
        session.add(job)
    record(
        session,
        "checkpoint_stored",
        "attempt",
        attempt.id,
        f"rank {instance.node}: checkpoint {name} stored ({size} bytes)",
        at=now,
        job_id=job.id,
        project_id=job.project_id,
        name=name,
    )


def exited(
    session: Session,
    ctx: Context,
    instance: Instance,
    attempt: Attempt,
    *,
    epoch: int,
    exit_code: int | None,
    reason: str,
    detail: str,
) -> None:
    """The job is over on this node; saying it again changes nothing."""
    job = check_epoch(session, attempt, epoch)
    if instance.exit_at is not None:
        return
    now = ctx.now()
    instance.exit_at, instance.exit_code = now, exit_code
    instance.exit_reason, instance.exit_detail = reason, detail[:500]
    instance.agent_state, instance.agent_seen_at = AgentState.EXITED, now
    session.add(instance)
    how = f"exit code {exit_code}" if exit_code is not None else reason
    record(
        session,
        "job_process_exited",
        "attempt",
        attempt.id,
        f"rank {instance.node}: {how} ({reason})",
        at=now,
        job_id=job.id,
        project_id=job.project_id,
    )
    wake_attempt(session, attempt, now)
    after_commit(session, partial(ctx.wake, "lifecycle"))
