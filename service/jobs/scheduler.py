"""The scheduler: for each job that wants capacity, ask its policy and write the intent.

Jobs are looked at by priority, then age, and none holds up the others: what cannot be tried is a matter of
the offer, so back-off belongs there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

import structlog
from sqlalchemy import func, update
from sqlmodel import Session, col, select

from policies import cheapest
from policies.model import Decision, Launch, RunClass, Wait
from providers.vocabulary import Offer
from service.attempts.model import Attempt
from service.attempts.plan import NotPlanned, plan_attempt
from service.context import Context
from service.events.record import record
from service.jobs.model import Job
from service.jobs.view import policy_job
from service.market.model import Poll
from service.market.snapshot import MarketSnapshot, offers_version, read_offers, snapshot
from service.projects.model import Project
from service.settings import Settings
from service.states import JobState

log = structlog.get_logger(__name__)

POLICIES: dict[str, ModuleType] = {"cheapest": cheapest}
WANTING = (JobState.QUEUED, JobState.STARTING, JobState.RUNNING)
LOOK_AGAIN = timedelta(seconds=60)
BATCH = 500
FIRST_READINGS = timedelta(seconds=30)
"""How long a process that has just started waits for places that were never read: the cheapest offer may
be there."""


def policy_for(settings: Settings, run_class: RunClass, project: str) -> ModuleType:
    """The policy of the first route that matches class and project name; `cheapest` where none does."""
    for route in settings.routes:
        if route.run_class in (None, run_class) and route.project in (None, project):
            return POLICIES[route.policy]
    return cheapest


class Scheduler:
    """Keeps the offers it has read until they change."""

    def __init__(self) -> None:
        self._began: datetime | None = None
        self._offers: Sequence[Offer] = ()
        self._version: tuple[int, datetime | None] = (0, None)

    def step(self, ctx: Context) -> datetime | None:
        """Decide for every job that is due; when the next one is."""
        if ctx.stopping():
            return None
        now = ctx.now()
        self._began = self._began or now
        if now - self._began < FIRST_READINGS and ctx.database.read(_is_unread):
            return now + timedelta(seconds=1)
        due = ctx.database.read(lambda session: _due(session, now))
        if due:
            market = ctx.database.read(lambda session: self._snapshot(session, now))
            projects = ctx.database.read(_project_names)
            planned = [_alone(ctx, job, projects[job.project_id], market) for job in due]
            if any(planned):
                ctx.wake("launcher")
        return ctx.database.read(_next_due)

    def _snapshot(self, session: Session, now: datetime) -> MarketSnapshot:
        version = offers_version(session)
        if version != self._version:
            self._offers, self._version = read_offers(session), version
        return snapshot(session, now, self._offers)


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


def _project_names(session: Session) -> dict[str, str]:
    return {project.id: project.name for project in session.exec(select(Project)).all()}


def _alone(ctx: Context, job: Job, project: str, market: MarketSnapshot) -> bool:
    """A fault of ours over one job must not starve those behind it: it is logged, and tried again later."""
    try:
        return _schedule(ctx, job, project, market)
    except Exception:
        log.exception("job_not_scheduled", job=job.id)
        _put_off(ctx, job.id)
        return False


def _put_off(ctx: Context, job_id: str) -> None:
    def put_off(session: Session) -> None:
        session.connection().execute(
            update(Job).where(col(Job.id) == job_id).values(wake_at=ctx.now() + LOOK_AGAIN)
        )

    ctx.database.write(put_off)


def _schedule(ctx: Context, job: Job, project: str, market: MarketSnapshot) -> bool:
    policy = policy_for(ctx.settings, job.run_class, project)
    decision: Decision = policy.decide(policy_job(job), market, ctx.now())
    if isinstance(decision, Launch):
        refusals = []
        for offer in decision.offers:
            result = _plan(ctx, job.id, offer)
            if isinstance(result, Attempt):
                market.note_planned(offer, result.nodes)
                return True
            refusals.append(result)
            if result.final:
                break
        decision = _nothing_left(refusals, ctx.now())
    _note_wait(ctx, job.id, decision)
    return False


def _plan(ctx: Context, job_id: str, offer: Offer) -> Attempt | NotPlanned:
    return ctx.database.write(lambda session: plan_attempt(session, ctx, job_id, offer))


def _nothing_left(refusals: Sequence[NotPlanned], now: datetime) -> Wait:
    """What the snapshot promised was gone under lock: look again soon."""
    return Wait(now + timedelta(seconds=1), refusals[-1].why if refusals else "no offer was left")


def _note_wait(ctx: Context, job_id: str, decision: Decision) -> None:
    def note(session: Session) -> None:
        now = ctx.now()
        job = session.exec(select(Job).where(Job.id == job_id).with_for_update()).first()
        if job is None or job.state not in WANTING:
            return
        told = _as_document(decision)
        if told.get("why") != job.decision.get("why") or told.get("counts") != job.decision.get("counts"):
            record(
                session,
                "job_waiting",
                "job",
                job.id,
                f"waiting: {told['why']}",
                at=now,
                job_id=job.id,
                project_id=job.project_id,
                **told,
            )
        until = decision.until if isinstance(decision, Wait) else None
        job.wake_at = min(until or now + LOOK_AGAIN, now + LOOK_AGAIN)
        job.decision = told
        if job.state is JobState.QUEUED:
            job.detail = _sentence(told)
        session.add(job)

    ctx.database.write(note)


def _sentence(told: dict[str, Any]) -> str:
    """Why it waits, with the commonest reasons first."""
    counts = sorted(told["counts"].items(), key=lambda item: -item[1])
    tally = ", ".join(f"{number} {reason}" for reason, number in counts[:3])
    return f"waits: {told['why']}" + (f" ({tally})" if tally else "")


def _as_document(decision: Decision) -> dict[str, Any]:
    until = decision.until if isinstance(decision, Wait) else None
    return {
        "kind": type(decision).__name__.lower(),
        "why": decision.why,
        "until": until.isoformat() if until else None,
        "counts": dict(decision.counts) if isinstance(decision, Wait) else {},
    }
