"""What a cloud answered to a launch, written down: accepted, refused, or not known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlmodel import Session, select

from providers.errors import ProviderError
from providers.vocabulary import CloudInstance, Launched
from service.attempts.ending import end_attempt, let_go
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.attempts.rows import image_of, instances_of
from service.context import Context
from service.db import release
from service.instances.model import Instance
from service.jobs.model import Job
from service.market.blocks import block_failure, lift_proved_wrong
from service.market.history import note_granted
from service.market.model import OfferRow
from service.market.offers import offer_id, to_offer
from service.metrics import count_launch
from service.states import AttemptState, InstanceState
from service.transitions import move_attempt, move_instance

FIRST_LOOK = timedelta(seconds=2)
LOOK_AGAIN = timedelta(seconds=5)


def accept(session: Session, attempt: Attempt, *, ctx: Context, launched: Launched) -> None:
    """The cloud has it: keep the ids, in rank order. One that is no longer wanted is let go at once."""
    now = ctx.now()
    count_launch(session, attempt.provider, attempt.capacity_type, "accepted")
    instances = instances_of(session, attempt.id)
    for instance, made in _matched(instances, launched):
        instance.provider_id = made.provider_id
        instance.operation = launched.operation
        instance.private_ip = made.private_ip
        instance.wake_at = now + FIRST_LOOK
        if instance.state in (InstanceState.REQUESTED, InstanceState.UNCONFIRMED):
            move_instance(
                session,
                instance,
                InstanceState.PENDING,
                f"accepted as {made.provider_id}",
                now=now,
                job_id=attempt.job_id,
            )
        session.add(instance)
    attempt.operation = launched.operation
    attempt.error_kind = attempt.error_code = None  # of an answer that was lost; it came to something
    release(attempt, now)
    session.add(attempt)
    if attempt.state is AttemptState.ENDED:
        attempt.wake_at = None
        for instance in instances:
            let_go(session, instance, attempt.job_id, "no longer wanted", now)
        return
    job = session.get_one(Job, attempt.job_id)
    attempt.accepted_at = now
    attempt.boot_deadline = now + timedelta(seconds=ctx.settings.times.boot)
    move_attempt(
        session, attempt, AttemptState.BOOTING, "accepted by the cloud", now=now, project_id=job.project_id
    )
    if launched.operation is None:
        prove_capacity(session, attempt, now)


def refuse(session: Session, attempt: Attempt, *, ctx: Context, error: ProviderError) -> None:
    """The cloud made nothing of it: avoid what the error speaks of, and let the job try elsewhere."""
    now = ctx.now()
    count_launch(session, attempt.provider, attempt.capacity_type, error.kind)
    attempt.error_kind, attempt.error_code = error.kind, error.code[:128]
    release(attempt, None)
    if not error.ended:  # else some of it may be left: the reaper looks for it by its token
        for instance in instances_of(session, attempt.id):
            _never_was(session, instance, attempt.job_id, now)
    if attempt.state is AttemptState.ENDED:
        return
    if not error.ended:
        block_failure(
            session, error, attempt.offer_key, image=image_of(session, attempt), now=now, chance=ctx.chance
        )
    end_attempt(session, attempt, Ended.REFUSED, f"{error.kind}: {error}", now=now)


def mark_unconfirmed(
    session: Session, attempt: Attempt, *, ctx: Context, error: ProviderError, final: bool = False
) -> None:
    """The answer was lost: it may exist. Nothing else is tried until that is known. `final`: it need not be
    sent again, since the cloud would refuse it.
    """
    now = ctx.now()
    attempt.error_kind, attempt.error_code = error.kind, error.code[:128]
    if final:
        attempt.launch_deadline = now
        block_failure(
            session, error, attempt.offer_key, image=image_of(session, attempt), now=now, chance=ctx.chance
        )
    for instance in instances_of(session, attempt.id):
        if instance.state is InstanceState.REQUESTED:
            move_instance(
                session,
                instance,
                InstanceState.UNCONFIRMED,
                f"the answer was lost: {error}",
                now=now,
                job_id=attempt.job_id,
            )
    release(attempt, now + max(LOOK_AGAIN, timedelta(seconds=error.retry_after or 0)))
    session.add(attempt)


def prove_capacity(session: Session, attempt: Attempt, now: datetime) -> None:
    """The cloud was seen to have the capacity: what said otherwise is lifted, and others may follow."""
    if attempt.proved_at is not None:
        return
    attempt.proved_at = now
    session.add(attempt)
    job = session.get_one(Job, attempt.job_id)
    note_granted(session, attempt, job.waiting_since, now)
    row = session.exec(select(OfferRow).where(OfferRow.id == offer_id(attempt.offer_key))).first()
    if row is not None:
        lift_proved_wrong(session, to_offer(row), image_of(session, attempt), now=now)


def _matched(instances: Sequence[Instance], launched: Launched) -> list[tuple[Instance, CloudInstance]]:
    """Each row with what was made for it: by the number in its name, else in the order given."""
    if all(made.node is not None for made in launched.instances):
        by_node = {made.node: made for made in launched.instances}
        return [(row, by_node[row.node]) for row in instances if row.node in by_node]
    return list(zip(instances, launched.instances, strict=False))


def _never_was(session: Session, instance: Instance, job_id: str, now: datetime) -> None:
    if instance.provider_id is None and instance.state is not InstanceState.TERMINATED:
        move_instance(
            session, instance, InstanceState.TERMINATED, "the cloud made nothing", now=now, job_id=job_id
        )
