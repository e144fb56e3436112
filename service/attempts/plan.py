"""The intent: an attempt and its instances, committed before anything is asked of a cloud."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func
from sqlmodel import Session, col, select

from policies.model import Block
from providers.vocabulary import CapacityType, Offer
from service.attempts.model import Attempt, AttemptInstance
from service.attempts.outcome import REPLACED
from service.attempts.request import launch_request, stored
from service.context import Context
from service.events.record import record
from service.identifiers import new_id
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.market.blocks import covering
from service.market.model import BlockRow, OfferRow
from service.market.offers import offer_id, to_offer
from service.market.snapshot import snapshot
from service.money import to_micros
from service.projects.model import Deployment
from service.states import JOB_OVER, AttemptState, InstanceState, JobState
from service.transitions import move_job


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """Why no attempt was planned after all. `final`: no other offer would fare better now."""

    why: str
    final: bool = False


def plan_attempt(
    session: Session, ctx: Context, job_id: str, offer: Offer, *, moving: bool = False
) -> Attempt | NotPlanned:
    """Write the intent to run a job on an offer, if that is still right. Call inside a write transaction.
    `moving`: what runs is to be replaced; it goes on until the replacement is ready.

    Everything that the snapshot said is looked at again under lock: the job, the offer and its price, the
    blocks, and how many launches are under way.
    """
    now = ctx.now()
    # One plan at a time in the whole deployment: limits and blocks speak of more than one job and one offer.
    session.exec(select(Deployment.id).where(Deployment.id == ctx.deployment_id).with_for_update()).first()
    job = session.exec(select(Job).where(Job.id == job_id).with_for_update()).first()
    if job is None or job.state in JOB_OVER or job.state is JobState.STOPPING:
        return NotPlanned("the job is over or stopping", final=True)
    predecessor = _live_attempts(session, job_id)
    if len(predecessor) > 1 or (predecessor and not _is_replaceable(predecessor[0], moving)):
        return NotPlanned("an attempt is under way", final=True)
    spec = JobSpec.model_validate(job.spec)
    if not _room(session, ctx, spec.resources.nodes):
        return NotPlanned(
            f"limits.max_instances ({ctx.settings.limits.max_instances}) is reached", final=True
        )
    fresh = _fresh_offer(session, offer)
    if fresh is None or not _is_affordable(fresh, spec):
        return NotPlanned("the offer is gone or its price has changed")
    market = snapshot(session, now, [fresh], signals=False)
    block = market.block_of(fresh, now, spec.image, spec.resources.nodes)
    if block is not None:
        return NotPlanned(_told(block))
    attempt = _insert(session, ctx, job, spec, fresh, predecessor[0] if predecessor else None, now)
    for row in covering(session.exec(select(BlockRow)).all(), fresh, spec.image):
        row.trial_attempt = attempt.id
        session.add(row)
    return attempt


def _live_attempts(session: Session, job_id: str) -> list[Attempt]:
    statement = select(Attempt).where(Attempt.job_id == job_id, col(Attempt.state) != AttemptState.ENDED)
    return list(session.exec(statement.with_for_update()).all())


def _is_replaceable(attempt: Attempt, moving: bool) -> bool:
    """True for one that drains to make way, and, for a move, for one that runs."""
    if attempt.state is AttemptState.DRAINING:
        return attempt.drain_reason in REPLACED
    return moving and attempt.state is AttemptState.RUNNING


def _room(session: Session, ctx: Context, nodes: int) -> bool:
    live = session.exec(
        select(func.count()).select_from(Instance).where(col(Instance.state) != InstanceState.TERMINATED)
    ).one()
    return live + nodes <= ctx.settings.limits.max_instances


def _fresh_offer(session: Session, offer: Offer) -> Offer | None:
    row = session.exec(select(OfferRow).where(OfferRow.id == offer_id(offer.key)).with_for_update()).first()
    return None if row is None else to_offer(row)


def _is_affordable(offer: Offer, spec: JobSpec) -> bool:
    """Reserved capacity is paid whether it is used or not: what it costs is no reason against it."""
    if offer.key.capacity_type is CapacityType.RESERVED:
        return True
    return offer.price is not None and (spec.max_price is None or offer.price <= spec.max_price)


def _told(block: Block) -> str:
    return f"{block.kind}: {block.message}" if block.message else block.kind


def _insert(
    session: Session,
    ctx: Context,
    job: Job,
    spec: JobSpec,
    offer: Offer,
    predecessor: Attempt | None,
    now: datetime,
) -> Attempt:
    key, accelerator = offer.key, offer.type.accelerator
    attempt_id = new_id("a", now, ctx.chance)
    request = launch_request(
        spec,
        key,
        attempt_id=attempt_id,
        job_id=job.id,
        deployment_id=ctx.deployment_id,
        service_url=ctx.service_url,
        service_ca=ctx.service_ca,
        subnet=offer.subnet,
        times=ctx.settings.times,
    )
    job.attempts += 1
    attempt = Attempt(
        id=attempt_id,
        job_id=job.id,
        number=job.attempts,
        epoch=job.attempts,
        provider=key.provider,
        account=key.account,
        region=key.region,
        zone=key.zone,
        instance_type=key.instance_type,
        capacity_type=key.capacity_type,
        reservation=key.reservation,
        nodes=request.nodes,
        gpus_per_node=accelerator.count if accelerator else 0,
        price_micros=to_micros(offer.price or 0.0),
        token=request.token,
        request=stored(request),
        replaces=predecessor.id if predecessor else None,
        planned_at=now,
        wake_at=now,
    )
    session.add(attempt)
    session.flush()
    for node in range(request.nodes):
        _add_instance(session, ctx, attempt, node, now)
    price = "paid ahead" if offer.price is None else f"${offer.price:.4f}/h a node"
    place = f"{key.provider}/{key.zone}, {key.instance_type}, {key.capacity_type}, {price}"
    record(
        session,
        "attempt_planned",
        "attempt",
        attempt.id,
        f"attempt {attempt.number}: {place}",
        at=now,
        job_id=job.id,
        project_id=job.project_id,
        offer=str(key),
        price=offer.price,
        replaces=attempt.replaces,
    )
    if job.state is JobState.QUEUED:
        move_job(session, job, JobState.STARTING, f"attempt {attempt.number} on {key}", now=now)
    job.wake_at = None
    session.add(job)
    return attempt


def _add_instance(session: Session, ctx: Context, attempt: Attempt, node: int, now: datetime) -> None:
    instance = Instance(
        id=new_id("i", now, ctx.chance),
        node=node,
        token=attempt.token,
        provider=attempt.provider,
        account=attempt.account,
        region=attempt.region,
        zone=attempt.zone,
        instance_type=attempt.instance_type,
        capacity_type=attempt.capacity_type,
        planned_at=now,
    )
    session.add(instance)
    session.flush()
    session.add(AttemptInstance(attempt_id=attempt.id, rank=node, instance_id=instance.id))
