"""What a cloud says of an instance, written down, and the one step that follows from it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import update
from sqlmodel import Session, col

from providers.errors import ProviderError
from providers.vocabulary import CapacityType, CloudInstance, EndReason
from providers.vocabulary import InstanceState as CloudState
from service.attempts.answers import prove_capacity
from service.attempts.charges import close_charge, open_charge
from service.attempts.ending import let_go
from service.attempts.model import Attempt
from service.attempts.rows import attempt_of_instance, image_of
from service.context import Context
from service.events.record import record
from service.instances.model import Instance
from service.market.blocks import block_failure
from service.states import AttemptState, InstanceState
from service.transitions import move_instance

READS_LAG = timedelta(seconds=20)
"""How long after it has accepted an end a cloud may show an instance as it was."""
OVER = frozenset({CloudState.TERMINATED, CloudState.ABSENT})


def note(session: Session, ctx: Context, instance: Instance, fact: CloudInstance, window: timedelta) -> None:
    """Write down what was seen of one instance now. `window` is how long its cloud may deny knowing it."""
    if instance.state is InstanceState.TERMINATED:
        return
    now = ctx.now()
    shown = instance.cloud_state not in (None, CloudState.ABSENT)
    last_seen = _last_seen(instance) or now
    if fact.state is not CloudState.UNKNOWN:
        instance.cloud_state, instance.cloud_seen_at = fact.state, now
    # Of what its cloud has forgotten nobody knows the end: when it was last seen is the best estimate.
    forgotten = last_seen if fact.state is CloudState.ABSENT else None
    instance.ending_at = ending_at(instance, fact.state, now, forgotten)
    instance.private_ip = fact.private_ip or instance.private_ip
    instance.public_ip = fact.public_ip or instance.public_ip
    instance.cloud_end_reason = fact.end_reason or instance.cloud_end_reason
    session.add(instance)
    attempt = attempt_of_instance(session, instance.id)
    if isinstance(fact.error, ProviderError):
        _note_refusal(session, ctx, instance, attempt, fact.error)
    if fact.state is CloudState.RUNNING:
        _note_running(session, instance, attempt, now)
    elif fact.state is CloudState.ABSENT:
        _note_absent(session, instance, attempt, now, window, shown=shown)
    elif fact.state is CloudState.TERMINATED:
        _note_over(session, instance, attempt, fact.detail or "the cloud says it is over", now)
    elif fact.state in (CloudState.STOPPED, CloudState.STOPPING) and instance.state is InstanceState.RUNNING:
        wake_attempt(session, attempt, now)
    if fact.state not in OVER:
        instance.unknown_since = None
    if attempt is not None and attempt.state is AttemptState.ENDED:
        # Nobody waits for it any more: whatever it was that it came to, it must end.
        let_go(session, instance, attempt.job_id, "its attempt is over", now)


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
    *,
    shown: bool,
) -> None:
    """Not known to its cloud. Within the window after its launch that is lag, unless it has been shown
    before; an agent that speaks is no proof that the cloud's reads have caught up. Later it is over.
    """
    instance.unknown_since = instance.unknown_since or now
    born = instance.requested_at or instance.planned_at
    if now - born < window and not shown:
        return
    message = "the cloud knows no such instance any more; its end is an estimate: when it was last seen"
    _note_over(session, instance, attempt, message, now)


def _last_seen(instance: Instance) -> datetime | None:
    """When its cloud or its agent last showed that it was there."""
    seen = (
        instance.cloud_seen_at if instance.cloud_state is not CloudState.ABSENT else None,
        instance.agent_seen_at,
        instance.unknown_since,
    )
    return max((one for one in seen if one is not None), default=None)


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
    close_charge(session, instance, now, instance.ending_at)
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
    if attempt is not None:
        _wake_successors(session, attempt, now)


def _wake_successors(session: Session, attempt: Attempt, now: datetime) -> None:
    """Another attempt of the job may have waited for this proof that nothing of the earlier one writes."""
    session.connection().execute(
        update(Attempt)
        .where(
            col(Attempt.job_id) == attempt.job_id,
            col(Attempt.epoch) > attempt.epoch,
            col(Attempt.state) == AttemptState.BOOTING,
        )
        .values(wake_at=now)
    )


def ending_at(
    instance: Instance, state: CloudState, now: datetime, last_seen: datetime | None = None
) -> datetime | None:
    """Since when the cloud ends an instance, as far as we know: no cloud bills what it is ending. A machine
    that is merely off may be billed on, and one that runs is, unless we have been told that it will end.
    """
    if state in (CloudState.STOPPING, CloudState.TERMINATED, CloudState.ABSENT):
        noticed = instance.notice_deadline
        if instance.ending_at is None and noticed is not None and noticed <= now:
            return noticed
        return instance.ending_at or last_seen or now
    sent = instance.terminate_sent_at
    if state in (CloudState.RUNNING, CloudState.STOPPED) and (sent is None or now - sent > READS_LAG):
        return None
    return instance.ending_at


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
