"""The scheduler: for each job that wants capacity, ask its policy and write the intent.

Jobs are looked at by priority, then age, and none holds up the others: what cannot be tried is a matter of
the offer, so back-off belongs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy import func, update
from sqlmodel import Session, col, select

from policies.deciding import decide
from policies.model import Decision, Launch, RunClass, Stay, Stop
from policies.model import Job as PolicyJob
from policies.rule import Rule
from providers.vocabulary import CapacityType
from service.attempts.model import Attempt
from service.context import Context
from service.jobs.displacement import core_waits, make_room
from service.jobs.fairness import FairQueue
from service.jobs.model import Job
from service.jobs.obedience import LOOK_AGAIN, obey
from service.jobs.progress import Progress, read_progress
from service.jobs.rules import rule_for
from service.jobs.view import policy_job
from service.market.model import Poll
from service.market.snapshot import MarketSnapshot, market_of
from service.projects.model import Project
from service.settings import Settings
from service.states import AttemptState, JobState

log = structlog.get_logger(__name__)

WANTING = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
BATCH = 500
FIRST_READINGS = timedelta(seconds=30)
"""How long a process that has just started waits for places that were never read: the cheapest offer may
be there."""


class Scheduler:
    """Remembers when it began: until every place was read once, the cheapest offer may be missing."""

    def __init__(self) -> None:
        self._began: datetime | None = None

    def step(self, ctx: Context) -> datetime | None:
        """Decide for every job that is due; when the next one is."""
        if ctx.stopping():
            return None
        now = ctx.now()
        self._began = self._began or now
        if now - self._began < FIRST_READINGS and ctx.database.read(_is_unread):
            return now + timedelta(seconds=1)
        due = ctx.database.read(lambda session: _due(session, now))
        if due and any(self._each(ctx, due, now)):
            ctx.wake("launcher")
        return ctx.database.read(_next_due)

    def _each(self, ctx: Context, due: Sequence[Job], now: datetime) -> Sequence[Attempt | None]:
        """What was planned for each."""
        market = ctx.database.read(lambda session: market_of(session, ctx.book, now))
        projects = ctx.database.read(_project_names)
        made = ctx.database.read(lambda session: read_progress(session, due, now))
        with ctx.book.lock:
            kept = ctx.database.read(lambda session: core_waits(session, market))
        weights = {
            id_: ctx.settings.shares[name] for id_, name in projects.items() if name in ctx.settings.shares
        }
        queue = FairQueue(due, ctx.database.read(_use), weights)
        planned = []
        for job in queue:
            rule = _rule(ctx.settings, job, projects)
            if kept and job.run_class is not RunClass.CORE:
                rule = replace(rule, capacity_types=rule.capacity_types - {CapacityType.RESERVED})
            attempt = _alone(ctx, job, rule, made[job.id], market)
            if attempt is not None:
                queue.note_planned(job.project_id, attempt.nodes * max(1, attempt.gpus_per_node))
            planned.append(attempt)
        return planned


def _use(session: Session) -> dict[str, float]:
    """GPUs that each project has; a node without one counts as one."""
    rows = session.exec(
        select(Job.project_id, Attempt.nodes, Attempt.gpus_per_node)
        .join(Attempt, col(Attempt.job_id) == col(Job.id))
        .where(col(Attempt.state) != AttemptState.ENDED)
    ).all()
    use: dict[str, float] = {}
    for project_id, nodes, gpus in rows:
        use[project_id] = use.get(project_id, 0.0) + nodes * max(1, gpus)
    return use


def _is_unread(session: Session) -> bool:
    """True while some place has not been tried even once."""
    unread = select(Poll.id).where(
        col(Poll.kind).in_(("offers", "reservations")), col(Poll.tried_at).is_(None)
    )
    return session.exec(unread.limit(1)).first() is not None


def _due(session: Session, now: datetime) -> Sequence[Job]:
    statement = select(Job).where(col(Job.state).in_(WANTING), col(Job.wake_at) <= now)
    order = (col(Job.priority).desc(), col(Job.submitted_at), col(Job.id))
    return session.exec(statement.order_by(*order).limit(BATCH)).all()


def _next_due(session: Session) -> datetime | None:
    return session.exec(select(func.min(Job.wake_at)).where(col(Job.state).in_(WANTING))).one()


def _rule(settings: Settings, job: Job, projects: Mapping[str, str]) -> Rule:
    return rule_for(settings, job.run_class, projects[job.project_id], job.spec.get("labels") or {})


def _project_names(session: Session) -> dict[str, str]:
    return {project.id: project.name for project in session.exec(select(Project)).all()}


def _alone(ctx: Context, job: Job, rule: Rule, made: Progress, market: MarketSnapshot) -> Attempt | None:
    """A fault of ours over one job must not starve those behind it: it is logged, and tried again later."""
    try:
        asked = policy_job(job, ctx.settings, made)
        decision = _decide(ctx, job, asked, rule, made, market)
        if asked.placement is None and not made.is_busy and not _is_reserved(decision):
            decision = make_room(ctx, job, rule, asked, market) or decision
        return obey(ctx, job, rule, made, decision, market)
    except Exception:
        log.exception("job_not_scheduled", job=job.id)
        _put_off(ctx, job.id)
        return None


def _is_reserved(decision: Decision) -> bool:
    """True for a launch on what is reserved, and for a stop, of which nothing follows."""
    if isinstance(decision, Launch):
        return decision.offers[0].key.capacity_type is CapacityType.RESERVED
    return isinstance(decision, Stop)


def _decide(
    ctx: Context, job: Job, asked: PolicyJob, rule: Rule, made: Progress, market: MarketSnapshot
) -> Decision:
    """What is under way is brought to its end before the policy is asked again; the cap holds even then."""
    if asked.money_left is not None and made.hourly * asked.step.total_seconds() / 3600 > asked.money_left:
        return Stop("max_cost leaves nothing for another step", job.deadline_at_risk)
    if made.is_busy:
        return Stay("an attempt is under way", job.deadline_at_risk)
    with ctx.book.lock:
        return decide(rule, asked, market, ctx.now())


def _put_off(ctx: Context, job_id: str) -> None:
    def put_off(session: Session) -> None:
        session.connection().execute(
            update(Job).where(col(Job.id) == job_id).values(wake_at=ctx.now() + LOOK_AGAIN)
        )

    ctx.database.write(put_off)
