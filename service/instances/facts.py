"""What a cloud says of an instance, written down, and the one step that follows from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlmodel import Session

from providers.errors import ProviderError
from providers.vocabulary import CapacityType, CloudInstance, EndReason
from providers.vocabulary import InstanceState as CloudState
from service.attempts.answers import prove_capacity
from service.attempts.charges import close_charge, open_charge
from service.attempts.model import Attempt
from service.attempts.rows import attempt_of_instance, image_of
from service.context import Context
from service.events.record import record
from service.instances.model import Instance
from service.market.blocks import block_failure
from service.states import InstanceState
from service.transitions import move_instance

OVER = frozenset({CloudState.TERMINATED, CloudState.ABSENT})


def note(session: Session, ctx: Context, instance: Instance, fact: CloudInstance, window: timedelta) -> None:
    """Write down what was seen of one instance now. `window` is how long its cloud may deny knowing it."""
    if instance.state is InstanceState.TERMINATED:
        return
    now = ctx.now()
    if fact.state is not CloudState.UNKNOWN:
        instance.cloud_state, instance.cloud_seen_at = fact.state, now
    instance.private_ip = fact.private_ip or instance.private_ip
    instance.public_ip = fact.public_ip or instance.public_ip
    instance.cloud_end_reason = fact.end_reason or instance.cloud_end_reason
    session.add(instance)
    attempt = attempt_of_instance(session, instance.id)
    if isinstance(fact.error, ProviderError):
        _note_refusal(session, ctx, instance, attempt, fact.error)
    elif fact.state is CloudState.RUNNING:
        _note_running(session, instance, attempt, now)
    elif fact.state is CloudState.ABSENT:
        _note_absent(session, instance, attempt, now, window)
    elif fact.state is CloudState.TERMINATED:
        _note_over(session, instance, attempt, fact.detail or "the cloud says it is over", now)
    elif fact.state in (CloudState.STOPPED, CloudState.STOPPING) and instance.state is InstanceState.RUNNING:
        wake_attempt(session, attempt, now)
    if fact.state not in OVER:
        instance.unknown_since = None


def wake_attempt(session: Session, attempt: Attempt | None, now: datetime) -> None:
    """Have the lifecycle look at an attempt now."""
    if attempt is not None and attempt.ended_at is None:
        attempt.wake_at = now
        session.add(attempt)


def _note_refusal(
    session: Session, ctx: Context, instance: Instance, attempt: Attempt | None, error: ProviderError
) -> None:
    """A create that was accepted has failed after all; what is left of it must still be ended."""
    now = ctx.now()
    if attempt is not None and attempt.error_kind is None:
        attempt.error_kind, attempt.error_code = error.kind, error.code[:128]
        session.add(attempt)
        block_failure(
            session, error, attempt.offer_key, image=image_of(session, attempt), now=now, chance=ctx.chance
        )
    if instance.state is not InstanceState.TERMINATING:
        move_instance(
            session,
            instance,
            InstanceState.TERMINATING,
            f"the cloud could not make it: {error}",
            now=now,
            job_id=attempt.job_id if attempt else None,
            reason=str(error.kind),
        )
    wake_attempt(session, attempt, now)


def _note_running(session: Session, instance: Instance, attempt: Attempt | None, now: datetime) -> None:
    if instance.state in (InstanceState.REQUESTED, InstanceState.UNCONFIRMED, InstanceState.PENDING):
        move_instance(
            session,
            instance,
            InstanceState.RUNNING,
            "the cloud shows it running",
            now=now,
            job_id=attempt.job_id if attempt else None,
        )
    open_charge(session, instance, now)
    if attempt is not None:
        prove_capacity(session, attempt, now)


def _note_absent(
    session: Session,
    instance: Instance,
    attempt: Attempt | None,
    now: datetime,
    window: timedelta,
) -> None:
    """Not known to its cloud. Within the window after its launch that may be lag; later it is over."""
    instance.unknown_since = instance.unknown_since or now
    born = instance.requested_at or instance.planned_at
    if now - born < window and instance.running_at is None:
        return
    _note_over(session, instance, attempt, "the cloud knows no such instance any more", now)


def _note_over(
    session: Session,
    instance: Instance,
    attempt: Attempt | None,
    message: str,
    now: datetime,
) -> None:
    ours = instance.state is InstanceState.TERMINATING
    reason = end_reason(instance, ours=ours)
    instance.cloud_end_reason = instance.cloud_end_reason or reason
    close_charge(session, instance, now)
    job_id = attempt.job_id if attempt else None
    move_instance(
        session,
        instance,
        InstanceState.TERMINATED,
        message,
        now=now,
        job_id=job_id,
        reason="ours" if ours else str(reason),
    )
    if not ours and reason is EndReason.PREEMPTED and attempt is not None:
        record(
            session,
            "instance_preempted",
            "instance",
            instance.id,
            f"{instance.provider}/{instance.zone} took {instance.provider_id} back",
            at=now,
            job_id=job_id,
        )
    wake_attempt(session, attempt, now)


def end_reason(instance: Instance, *, ours: bool) -> EndReason:
    """Why an instance is over. A notice, or a spot instance that vanished without anyone ending it, is a
    preemption; nothing is called one that the cloud gives another reason for.
    """
    if instance.cloud_end_reason not in (None, EndReason.UNKNOWN):
        return instance.cloud_end_reason
    if instance.notice_at is not None and instance.notice_kind == "preemption":
        return EndReason.PREEMPTED
    if not ours and instance.capacity_type is CapacityType.SPOT:
        return EndReason.PREEMPTED
    return EndReason.UNKNOWN
