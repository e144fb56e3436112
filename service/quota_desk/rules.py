"""Rules that ask for quota by themselves: for jobs that have waited on one for long, within set limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy import and_, func, or_
from sqlmodel import Session, col, select

from providers.vocabulary import Offer
from service.context import Context
from service.events.model import Event
from service.events.record import record
from service.jobs.candidates import candidates
from service.jobs.model import Job
from service.jobs.progress import read_progress
from service.jobs.rules import rule_of_job
from service.jobs.view import policy_job
from service.projects.model import Deployment, Project
from service.quota_desk.ask import Asker, AskError, AskPlan, Wish, plan_for, write_requests
from service.quota_desk.decisions import TAKEN_BACK, TURNED_DOWN
from service.quota_desk.filing import NOT_TAKEN
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.settings import QuotaRule, Refile
from service.quota_desk.shortages import Short, cheapest_of_accounts, shortages
from service.quotas.headroom import headroom
from service.quotas.increases import Verdict, in_gpus
from service.states import JOB_OVER, REQUEST_OPEN, QuotaRequestState

log = structlog.get_logger(__name__)

EVERY = timedelta(minutes=1)
LOOK_AGAIN = timedelta(minutes=10)
BATCH = 50
WITHHELD = "quota_request_withheld"
TOLD_EVERY = timedelta(days=1)
SAID_NO = (QuotaRequestState.DENIED, QuotaRequestState.PARTLY_GRANTED, QuotaRequestState.EXPIRED)


@dataclass(frozen=True, slots=True)
class _Need:
    """A job that waits, and the offer of one account that a quota keeps it from."""

    job: Job
    short: Short
    nodes: int


class Rules:
    """Remembers when it looked at which job, so that a crowd is gone through in turn."""

    def __init__(self) -> None:
        self._next: datetime | None = None
        self._looked: dict[str, datetime] = {}

    def due(self, ctx: Context) -> datetime | None:
        """When the rules are to be applied next; None without any."""
        return (self._next or ctx.now()) if ctx.settings.quota_desk.rules else None

    def apply(self, ctx: Context) -> None:
        """Ask for what the jobs that have waited long enough are short of."""
        now, rules = ctx.now(), ctx.settings.quota_desk.rules
        if not rules or (self._next is not None and self._next > now):
            return
        self._next = now + EVERY
        self._looked = {job: at for job, at in self._looked.items() if at <= now < at + LOOK_AGAIN}
        waits = min(rule.waits for rule in rules)
        jobs = ctx.database.read(lambda session: _waiting(session, now - timedelta(seconds=waits)))
        for job in [job for job in jobs if job.id not in self._looked][:BATCH]:
            self._looked[job.id] = now
        looked = [job for job in jobs if self._looked.get(job.id) == now]
        for (rule, _), needs in _grouped(ctx, rules, looked).items():
            _ask(ctx, rule, needs)


def _waiting(session: Session, since: datetime) -> Sequence[Job]:
    """Jobs that have waited for so long and for which nothing was asked yet, the most urgent first."""
    asked = select(QuotaRequest.job_id).where(col(QuotaRequest.job_id).is_not(None))
    return session.exec(
        select(Job)
        .where(col(Job.state).not_in(JOB_OVER), col(Job.waiting_since) <= since, col(Job.id).not_in(asked))
        .order_by(col(Job.priority).desc(), col(Job.submitted_at), col(Job.id))
    ).all()


Place = tuple[str, str, str, str, str]


def _grouped(
    ctx: Context, rules: Sequence[QuotaRule], jobs: Sequence[Job]
) -> dict[tuple[QuotaRule, Place], list[_Need]]:
    """The needs of jobs by rule, place and type; the first rule that fits a need is taken."""
    groups: dict[tuple[QuotaRule, Place], list[_Need]] = defaultdict(list)
    for job in jobs:
        try:
            needs, project = ctx.database.read(partial(_needs, ctx=ctx, job=job))
        except Exception:
            log.exception("quota_rules_failed", job=job.id)  # of one job; the others are looked at
            continue
        for need in needs:
            rule = next((one for one in rules if _fits(one, need, project, ctx.now())), None)
            if rule is not None:
                key = need.short.offer.key
                place = (key.provider, key.account, key.region, key.capacity_type, key.instance_type)
                groups[rule, place].append(need)
    return groups


def _needs(session: Session, ctx: Context, job: Job) -> tuple[list[_Need], str]:
    now = ctx.now()
    made = read_progress(session, [job], now)[job.id]
    view = policy_job(job, ctx.settings, made)
    found = candidates(session, ctx.book, rule_of_job(session, ctx.settings, job), view, now)
    nodes = view.needs.nodes
    short = cheapest_of_accounts(shortages(found.candidates, headroom(session, now), nodes))
    project = session.get_one(Project, job.project_id).name
    return [_Need(job, one, nodes) for one in short], project


def _fits(rule: QuotaRule, need: _Need, project: str, now: datetime) -> bool:
    waited = now - (need.job.waiting_since or now)
    return (
        rule.provider in (None, need.short.offer.key.provider)
        and rule.project in (None, project)
        and rule.run_class in (None, need.job.run_class)
        and waited >= timedelta(seconds=rule.waits)
    )


def _ask(ctx: Context, rule: QuotaRule, needs: Sequence[_Need]) -> None:
    """One request for all of them, or for as many of the most urgent as the rule's limit has room for."""

    def write(session: Session) -> None:
        lock = select(Deployment.id).where(Deployment.id == ctx.deployment_id).with_for_update()
        session.exec(lock).first()
        if _open_of(session, rule) >= rule.max_open:
            return
        for number in range(len(needs), 0, -1):
            plan = _plan(session, ctx, needs[0].short.offer, needs[:number])
            if plan is not None and _answered_lately(session, ctx, plan):
                return
            if plan is not None and _within(rule, plan):
                job = needs[0].job
                asker = Asker(Origin.RULE, rule.file, None, rule.name, job.project_id, job.id)
                write_requests(session, ctx, plan, asker)
                return
        _withheld(session, rule, needs[0], ctx.now())

    try:
        ctx.database.write(write)
    except AskError as error:
        log.info("quota_not_asked_for", rule=rule.name, job=needs[0].job.id, why=str(error))
    except Exception:
        log.exception("quota_rules_failed", rule=rule.name, job=needs[0].job.id)  # the others are asked for


def _plan(session: Session, ctx: Context, offer: Offer, needs: Sequence[_Need]) -> AskPlan | None:
    key = offer.key
    nodes = sum(need.nodes for need in needs)
    jobs = f"job {needs[0].job.name} waits" if len(needs) == 1 else f"{len(needs)} jobs wait"
    wish = Wish(
        key.provider,
        key.account,
        key.region,
        key.capacity_type,
        instance_type=key.instance_type,
        instances=nodes,
        why=f"{jobs} for it.",
    )
    return plan_for(session, ctx, wish, offer, nodes)


def _within(rule: QuotaRule, plan: AskPlan) -> bool:
    """No limit beyond what the rule may ask for, whether for one that is open already or for a new one."""
    type_ = plan.offer.type
    raised = [one.gate for one in plan.limits if one.gate.verdict is Verdict.RAISE]
    return all(in_gpus(gate.quota, gate.limit or 0.0, type_) <= rule.max_gpus for gate in raised)


def _answered_lately(session: Session, ctx: Context, plan: AskPlan) -> bool:
    """Whether a cloud, or a person, has lately said no to more of a quota of the plan. Then no other job that
    waits asks again: only the settings' `refile` does.
    """
    refile = ctx.settings.quota_desk.refile or Refile()
    found = session.exec(
        select(QuotaRequest.id)
        .where(
            col(QuotaRequest.quota_id).in_([one.quota_id for one in plan.to_file()]),
            col(QuotaRequest.decided_at) > ctx.now() - timedelta(seconds=refile.after),
            or_(
                col(QuotaRequest.state).in_(SAID_NO),
                and_(
                    col(QuotaRequest.state) == QuotaRequestState.WITHDRAWN,
                    col(QuotaRequest.reason).in_((NOT_TAKEN, TURNED_DOWN, TAKEN_BACK)),
                ),
            ),
        )
        .limit(1)
    )
    return found.first() is not None


def _open_of(session: Session, rule: QuotaRule) -> int:
    statement = select(func.count()).select_from(QuotaRequest)
    mine = (QuotaRequest.rule == rule.name, col(QuotaRequest.state).in_(REQUEST_OPEN))
    return session.exec(statement.where(*mine)).one()


def _withheld(session: Session, rule: QuotaRule, need: _Need, now: datetime) -> None:
    """Told once a day: the rule may not ask for as much."""
    job = need.job
    told = select(Event.id).where(
        Event.kind == WITHHELD, Event.job_id == job.id, col(Event.at) > now - TOLD_EVERY
    )
    if session.exec(told.limit(1)).first() is not None:
        return
    record(
        session,
        WITHHELD,
        "job",
        job.id,
        f"{need.short.shortage}; rule {rule.name} may not ask for more than {rule.max_gpus} GPUs",
        at=now,
        job_id=job.id,
        project_id=job.project_id,
        rule=rule.name,
    )
