"""Hello: an instance proves with its claim code which attempt it is for, and gets a session of its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, select

from service.agents.claim import attempt_of, new_session, session_hash
from service.api.problems import Problem
from service.attempts.answers import prove_capacity
from service.attempts.charges import open_charge
from service.attempts.model import Attempt
from service.attempts.request import agent_max_age
from service.attempts.rows import attempt_of_instance, instances_of
from service.attempts.verdict import boot_deadline
from service.context import STANDING, Context
from service.events.record import record
from service.instances.facts import wake_attempt
from service.instances.model import AgentState, Instance
from service.instances.sweep import ORPHAN
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.metrics import observe_boot
from service.settings import Times
from service.states import AttemptState, InstanceState
from service.transitions import move_instance

RETRY_SECONDS = 2
UNLIMITED_SECONDS = 10 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Hello:
    """What an agent says first. Sizes in bytes."""

    claim_code: str
    instance_id: str
    boot_id: str
    agent_version: str
    private_ip: str | None
    facts: dict[str, Any]


def hello(session: Session, ctx: Context, said: Hello) -> dict[str, Any]:
    """Let an instance in: the reply to hello. Problem 403, 410 or 503 if it may not, or not yet."""
    attempt_id = check_claim(ctx, said.claim_code)
    attempt = session.exec(select(Attempt).where(Attempt.id == attempt_id).with_for_update()).first()
    if attempt is None:
        return _unknown(session, ctx, said)
    instances = instances_of(session, attempt.id)
    instance = next((one for one in instances if one.provider_id == said.instance_id), None)
    now = ctx.now()
    if attempt.state is AttemptState.ENDED or (instance is not None and _over(instance)):
        raise Problem(410, "the attempt is over", code="gone")
    if instance is None:
        if any(one.provider_id is None for one in instances):
            raise _not_yet("the launch is not written down yet")
        raise Problem(403, "the attempt has no such instance", code="bad_instance")
    if attempt.state in (AttemptState.PLANNED, AttemptState.LAUNCHING):
        raise _not_yet("the launch is not written down yet")
    first = instance.boot_id is None
    deadline = boot_deadline(attempt, ctx.listening_since)
    late = deadline is not None and now >= deadline
    if first and late:
        raise Problem(410, "the boot deadline has passed", code="gone")
    return _admit(session, ctx, attempt, instance, said, now, rebooted=not first)


def check_claim(ctx: Context, code: str) -> str:
    """The attempt that a claim code is for. Problem 403 if the code is not ours."""
    attempt_id = attempt_of(ctx.deployment_key, code)
    if attempt_id is None:
        raise Problem(403, "the claim code is not one of ours", code="bad_claim")
    return attempt_id


def still_serving(instance: Instance, attempt: Attempt) -> None:
    """Problem 410 once the attempt or its instance is over: a session that is left from it must not be good
    for secrets and files.
    """
    if attempt.state is AttemptState.ENDED or _over(instance):
        raise Problem(410, "the attempt is over", code="gone")


def authenticate(session: Session, token: str) -> tuple[Instance, Attempt]:
    """The instance that a session token belongs to, and its attempt. Problem 401 if it belongs to none, 410
    if the instance is proved to be gone: nobody who speaks for it is it.
    """
    statement = select(Instance).where(Instance.session_hash == session_hash(token)).with_for_update()
    instance = session.exec(statement).first()
    attempt = attempt_of_instance(session, instance.id) if instance is not None else None
    if instance is None or attempt is None:
        headers = {"WWW-Authenticate": "Bearer"}
        raise Problem(401, "the session is not valid; say hello again", code="bad_session", headers=headers)
    if instance.state is InstanceState.TERMINATED:
        raise Problem(410, "the instance is gone", code="gone")
    return instance, attempt


def _over(instance: Instance) -> bool:
    return instance.state in (InstanceState.TERMINATING, InstanceState.TERMINATED)


def _not_yet(detail: str) -> Problem:
    return Problem(503, detail, code="not_yet", headers={"Retry-After": str(RETRY_SECONDS)})


def _unknown(session: Session, ctx: Context, said: Hello) -> dict[str, Any]:
    """A claim code of ours for an attempt that this database does not know (it may be a restored one): the
    instance is somebody's job, so it is neither let in nor told to end.
    """
    orphan = session.exec(
        select(Instance).where(Instance.purpose == ORPHAN, Instance.provider_id == said.instance_id)
    ).first()
    if orphan is not None:
        orphan.agent_seen_at = ctx.now()
        session.add(orphan)
        session.commit()  # that it speaks must be remembered, though the answer is a refusal
    raise _not_yet("this attempt is not known here")


def _admit(
    session: Session,
    ctx: Context,
    attempt: Attempt,
    instance: Instance,
    said: Hello,
    now: datetime,
    *,
    rebooted: bool,
) -> dict[str, Any]:
    token, hashed = new_session()
    if instance.state in (InstanceState.REQUESTED, InstanceState.UNCONFIRMED, InstanceState.PENDING):
        move_instance(
            session, instance, InstanceState.RUNNING, "its agent spoke", now=now, job_id=attempt.job_id
        )
    open_charge(session, instance, now)
    prove_capacity(session, attempt, now)
    if rebooted and instance.boot_id != said.boot_id:
        message = f"rank {instance.node}: the instance was rebooted"
        record(session, "instance_rebooted", "instance", instance.id, message, at=now, job_id=attempt.job_id)
    instance.session_hash = hashed
    instance.boot_id, instance.agent_version = said.boot_id[:64], said.agent_version[:32]
    instance.private_ip = said.private_ip or instance.private_ip
    instance.facts = said.facts
    instance.agent_state = instance.agent_state or AgentState.PREPARING
    instance.agent_seen_at, instance.reachable = now, True
    session.add(instance)
    if not rebooted:
        booted = now - (attempt.accepted_at or now)
        observe_boot(session, attempt.provider, booted.total_seconds())
        message = f"rank {instance.node}: the agent on {instance.provider_id} says hello"
        record(session, "agent_hello", "instance", instance.id, message, at=now, job_id=attempt.job_id)
    wake_attempt(session, attempt, now)
    job = session.get_one(Job, attempt.job_id)
    times = ctx.settings.times
    return {
        "session": token,
        "epoch": attempt.epoch,
        "rank": instance.node,
        "num_nodes": attempt.nodes,
        "heartbeat_seconds": times.heartbeat,
        "max_age_seconds": _max_age(attempt, JobSpec.model_validate(job.spec), times),
    }


def _max_age(attempt: Attempt, spec: JobSpec, times: Times) -> float:
    """A limit against machines that nobody knows of; a standing node is known and paid anyway."""
    if attempt.provider == STANDING and spec.max_duration_seconds is None:
        return UNLIMITED_SECONDS
    return agent_max_age(spec, times)
