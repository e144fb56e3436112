"""Doing what a policy decided about one job. A table of decisions, by whether something of the job runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, select

from policies.model import Decision, Launch, Move, Probe, Stay, Stop, Wait
from policies.rule import Rule
from providers.vocabulary import Offer
from service.attempts.draining import stop_job
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.attempts.plan import plan_attempt
from service.context import Context
from service.events.record import record
from service.jobs.model import Job
from service.jobs.progress import Progress
from service.jobs.spec import JobSpec
from service.jobs.view import REVIEW
from service.market.snapshot import MarketSnapshot
from service.states import JOB_OVER, JobState

LOOK_AGAIN = timedelta(seconds=60)
SOON = timedelta(seconds=1)
WOULD_MOVE = "a move would"
HOLDING = f"{WOULD_MOVE} pay, if that holds: "


def obey(
    ctx: Context, job: Job, rule: Rule, made: Progress, decision: Decision, market: MarketSnapshot
) -> Attempt | None:
    """Act on a decision; the attempt that was planned, if one was."""
    if isinstance(decision, Stop):
        ctx.database.write(partial(_stop, ctx=ctx, job_id=job.id, decision=decision))
        for loop in ("lifecycle", "reaper"):
            ctx.wake(loop)
        return None
    moving = made.placement is not None
    if isinstance(decision, Move) and moving:
        decision = _after_hold(ctx, job, rule, decision)
    if isinstance(decision, Launch | Move):
        planned = _plan_first(ctx, job.id, decision.offers, market, moving=moving)
        if isinstance(planned, Attempt):
            ctx.database.write(lambda session: _note_planned(session, ctx, job.id, rule, decision))
            return planned
        decision = Wait(ctx.now() + SOON, planned, deadline_at_risk=decision.deadline_at_risk)
    note(ctx, job.id, rule, decision, job.wake_at)
    return None


def _plan_first(
    ctx: Context, job_id: str, offers: Sequence[Offer], market: MarketSnapshot, *, moving: bool
) -> Attempt | str:
    """An attempt on the first offer that still stands under lock, else why there is none."""
    why = "no offer was left"
    for offer in offers:
        plan = partial(plan_attempt, ctx=ctx, job_id=job_id, offer=offer, moving=moving)
        result = ctx.database.write(plan)
        if isinstance(result, Attempt):
            market.note_planned(offer, result.nodes)
            return result
        why = result.why
        if result.final:
            break
    return why


def _after_hold(ctx: Context, job: Job, rule: Rule, decision: Move) -> Move | Stay:
    """A move only once it has been worth it for a while: prices that cross move nobody to and fro."""
    since = job.decision.get("worth_since")
    began = datetime.fromisoformat(since) if since else ctx.now()
    if ctx.now() - began >= rule.hold:
        return decision
    return Stay(f"{HOLDING}{decision.why}", decision.deadline_at_risk)


def _stop(session: Session, ctx: Context, job_id: str, decision: Stop) -> None:
    now = ctx.now()
    job = session.exec(select(Job).where(Job.id == job_id).with_for_update()).first()
    if job is None or job.state in JOB_OVER or job.state is JobState.STOPPING:
        return
    _raise_risk(session, job, _at_risk(decision), decision.why, now)
    stop_job(session, job, Ended.MAX_COST, decision.why, now)
    if job.state not in JOB_OVER:
        job.wake_at = now + LOOK_AGAIN
    job.decision = _as_document(decision, now)
    session.add(job)


def _note_planned(session: Session, ctx: Context, job_id: str, rule: Rule, decision: Decision) -> None:
    """After a plan: a job with a cap is looked at while it boots, for booting is billed."""
    job = session.exec(select(Job).where(Job.id == job_id).with_for_update()).one()
    now = ctx.now()
    job.decision = _as_document(decision, now)
    _raise_risk(session, job, _at_risk(decision), decision.why, now)
    if is_reviewed(rule, job):
        job.wake_at = now + REVIEW
    session.add(job)


def note(ctx: Context, job_id: str, rule: Rule, decision: Decision, seen_wake: datetime | None) -> None:
    """Keep what was decided, tell people of what is new in it, and set when to look again, unless that was
    set by something that happened since: `seen_wake` is what it was when the job was read.
    """

    def write(session: Session) -> None:
        now = ctx.now()
        job = session.exec(select(Job).where(Job.id == job_id).with_for_update()).first()
        if job is None or job.state in JOB_OVER or job.state is JobState.STOPPING:
            return
        told = _as_document(decision, now, before=job.decision)
        if _is_news(told, job.decision):
            kind, verb = ("job_stays", "stays") if isinstance(decision, Stay) else ("job_waiting", "waiting")
            record(
                session,
                kind,
                "job",
                job.id,
                f"{verb}: {told['why']}",
                at=now,
                job_id=job.id,
                project_id=job.project_id,
                **told,
            )
        _raise_risk(session, job, _at_risk(decision), decision.why, now)
        if job.wake_at == seen_wake:  # else something has happened to it since it was decided about
            job.wake_at = _next_look(decision, is_reviewed(rule, job), now)
        job.decision = told
        if job.state is JobState.QUEUED:
            job.detail = _sentence(told)
        session.add(job)

    ctx.database.write(write)


def is_reviewed(rule: Rule, job: Job) -> bool:
    """Whether something could come of looking at a job that runs: a move, a stop, a word on its deadline."""
    spec = JobSpec.model_validate(job.spec)
    moves = rule.moves and spec.checkpoint is not None
    return moves or spec.max_cost is not None or spec.deadline is not None


def _next_look(decision: Decision, reviewed: bool, now: datetime) -> datetime | None:
    if isinstance(decision, Stay):
        return now + REVIEW if reviewed else None
    until = decision.until if isinstance(decision, Wait) else None
    return min(until or now + LOOK_AGAIN, now + LOOK_AGAIN)


def _is_news(told: dict[str, Any], before: dict[str, Any]) -> bool:
    """A job that waits says each new reason; one that stays only that a move would pay and is not made."""
    if told["kind"] == "stay":
        return told["why"].startswith(WOULD_MOVE) and not str(before.get("why")).startswith(WOULD_MOVE)
    return bool(told["why"] != before.get("why") or told["counts"] != before.get("counts"))


def _raise_risk(session: Session, job: Job, at_risk: bool, why: str, now: datetime) -> None:
    if job.deadline is None or at_risk == job.deadline_at_risk:
        return
    job.deadline_at_risk = at_risk
    kind = "deadline_at_risk" if at_risk else "deadline_safe"
    message = (
        f"on-demand could no longer finish by {job.deadline:%Y-%m-%d %H:%M} UTC and within the money: {why}"
        if at_risk
        else f"on-demand could finish by {job.deadline:%Y-%m-%d %H:%M} UTC again"
    )
    record(session, kind, "job", job.id, message, at=now, job_id=job.id, project_id=job.project_id)


def _at_risk(decision: Decision) -> bool:
    return not isinstance(decision, Probe) and decision.deadline_at_risk


def _sentence(told: dict[str, Any]) -> str:
    """Why it waits, with the commonest reasons first."""
    counts = sorted(told["counts"].items(), key=lambda item: -item[1])
    tally = ", ".join(f"{number} {reason}" for reason, number in counts[:3])
    return f"waits: {told['why']}" + (f" ({tally})" if tally else "")


def _as_document(decision: Decision, now: datetime, before: dict[str, Any] | None = None) -> dict[str, Any]:
    until = decision.until if isinstance(decision, Wait) else None
    worth_since = None
    if isinstance(decision, Stay) and decision.why.startswith(HOLDING):
        worth_since = (before or {}).get("worth_since") or now.isoformat()
    return {
        "kind": type(decision).__name__.lower(),
        "why": decision.why,
        "until": until.isoformat() if until else None,
        "counts": dict(decision.counts) if isinstance(decision, Wait) else {},
        "worth_since": worth_since,
    }
