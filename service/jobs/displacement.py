"""Making room for core: jobs of other classes that were let in to idle reserved capacity leave it, with
notice and a checkpoint, when a core job wants it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy import and_, or_
from sqlmodel import Session, col, select

from policies.fit import fits, permitted
from policies.model import Job as PolicyJob
from policies.model import RunClass, Wait
from policies.rule import Rule
from providers.vocabulary import CapacityType, OfferKey
from service.attempts.draining import drain, grace_of
from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.context import Context
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.jobs.view import needs_of
from service.market.snapshot import MarketSnapshot
from service.states import AttemptState, JobState

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=5)
SEEN_FREE_AFTER = timedelta(minutes=3)
"""How long after an attempt has left its slot may still be counted as used."""
LEAVING = (AttemptState.DRAINING, AttemptState.ENDED)
MOST_CORE = 100
"""So many core jobs that wait are looked at."""


def core_waits(session: Session, market: MarketSnapshot) -> bool:
    """Whether some core job that has nothing yet could use what is reserved: it is kept for it then."""
    waiting = select(Job).where(Job.run_class == RunClass.CORE, Job.state == JobState.QUEUED).limit(MOST_CORE)
    return any(_could_use_reserved(job, market) for job in session.exec(waiting))


def _could_use_reserved(job: Job, market: MarketSnapshot) -> bool:
    """False too for a job whose spec cannot be read any more: one such must not stop the others."""
    try:
        needs = needs_of(JobSpec.model_validate(job.spec).resources)
    except ValueError:
        log.warning("core_job_unreadable", job=job.id)
        return False
    return bool(market.fitting(needs).entries[CapacityType.RESERVED])


def make_room(ctx: Context, job: Job, rule: Rule, asked: PolicyJob, market: MarketSnapshot) -> Wait | None:
    """Have others leave what is reserved, if that lets a core job in; what the job does meanwhile. None where
    nothing could be won.
    """
    if job.run_class is not RunClass.CORE or CapacityType.RESERVED not in rule.capacity_types:
        return None
    tenants = ctx.database.read(lambda session: _tenants(session, ctx.now()))
    key = _worth_clearing(asked, market, tenants, ctx.now())
    if key is None:
        return None
    ids = [attempt.id for attempt in tenants[key]]
    free, now = market.free_slots(key), ctx.now()
    left = ctx.database.write(lambda session: _clear(session, job, ids, asked, free, now))
    ctx.wake("lifecycle")
    what = f"{left} attempt{'s' if left != 1 else ''} of other classes to leave {key.reservation}"
    return Wait(ctx.now() + LOOK_AGAIN, f"waits for {what}")


def _tenants(session: Session, now: datetime) -> dict[OfferKey, list[Attempt]]:
    """Attempts of other classes on reserved capacity, the youngest first: they lose least. Those that left
    lately are among them until the reservation is seen to be free.
    """
    left_lately = and_(col(Attempt.reason) == Ended.DISPLACED, col(Attempt.ended_at) > now - SEEN_FREE_AFTER)
    rows = session.exec(
        select(Attempt)
        .join(Job, col(Job.id) == col(Attempt.job_id))
        .where(
            Attempt.capacity_type == CapacityType.RESERVED,
            or_(col(Attempt.state) != AttemptState.ENDED, left_lately),
            Job.run_class != RunClass.CORE,
        )
        .order_by(col(Job.priority), col(Attempt.planned_at).desc())
    ).all()
    found: dict[OfferKey, list[Attempt]] = defaultdict(list)
    for attempt in rows:
        found[attempt.offer_key].append(attempt)
    return dict(found)


def _worth_clearing(
    asked: PolicyJob,
    market: MarketSnapshot,
    tenants: Mapping[OfferKey, Sequence[Attempt]],
    now: datetime,
) -> OfferKey | None:
    """The reservation that the job could use if they left, the one with the fewest to disturb."""
    found = []
    for key, attempts in tenants.items():
        offer = market.get(key)
        if offer is None or fits(asked.needs, offer.type) or permitted(asked, offer):
            continue
        if market.is_shut(offer, now, asked.image):
            continue  # they would leave for nothing
        free = market.free_slots(key) or 0
        if free + sum(attempt.nodes for attempt in attempts) >= asked.needs.nodes:
            found.append((len(attempts), str(key), key))
    return min(found)[2] if found else None


def _clear(
    session: Session, core: Job, ids: Sequence[str], asked: PolicyJob, free: int | None, now: datetime
) -> int:
    """Have as many leave as it takes; how many are leaving. One that leaves already counts."""
    room, leaving = free or 0, 0
    attempts = {
        one.id: one for one in session.exec(select(Attempt).where(col(Attempt.id).in_(ids)).with_for_update())
    }
    order = sorted(ids, key=lambda one: (attempts[one].state not in LEAVING, ids.index(one)))
    for attempt_id in order:
        if room >= asked.needs.nodes:
            break
        attempt = attempts[attempt_id]
        room, leaving = room + attempt.nodes, leaving + 1
        if attempt.state not in LEAVING:
            _send_away(session, attempt, core, now)
    return leaving


def _send_away(session: Session, attempt: Attempt, core: Job, now: datetime) -> None:
    job = session.exec(select(Job).where(Job.id == attempt.job_id).with_for_update()).one()
    message = f"core job {core.name} needs what is reserved"
    if attempt.may_start_at is None:
        end_attempt(session, attempt, Ended.DISPLACED, message, now=now)
        return
    until = now + grace_of(JobSpec.model_validate(job.spec))
    drain(session, attempt, job, Ended.DISPLACED, message, until, now)
    job.waiting_since, job.wake_at = now, now  # it boots elsewhere while it still runs here
    session.add(job)
