"""Reading and writing jobs with SQLAlchemy Core: the paths that are called most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, tuple_
from sqlmodel import Session, col

from policies.model import RunClass
from service.api.problems import Problem, not_found
from service.attempts.cost import Span, cost_micros
from service.attempts.model import Attempt, Charge
from service.events.model import Event
from service.jobs.model import Job
from service.metrics import count_event
from service.money import from_micros
from service.projects.tokens import Caller
from service.states import AttemptState, JobState

Row = Mapping[str, Any]
SHORTEST_PREFIX = 6

_JOB = Job.__table__  # type: ignore[attr-defined]
_EVENT = Event.__table__  # type: ignore[attr-defined]
_COLUMNS = [column for column in _JOB.c if not column.name.startswith("claim_")]
_NAMES = [column.name for column in _COLUMNS]
# A list leaves out what only a single job shows, and of the spec takes the resources alone.
_LEFT_OUT = ("spec", "decision", "retries_used", "idempotency_key", "body_hash", "wake_at")
_LISTED = [*(column for column in _COLUMNS if column.name not in _LEFT_OUT), _JOB.c.spec["resources"]]
_LISTED_NAMES = [*(name for name in _NAMES if name not in _LEFT_OUT), "resources"]
_INSERT_JOB, _INSERT_EVENT = insert(_JOB), insert(_EVENT)
_NEWEST_FIRST = select(*_LISTED).order_by(_JOB.c.submitted_at.desc(), _JOB.c.id.desc())


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows. Empty means all; `project_id` None means every project."""

    project_id: str | None = None
    states: tuple[JobState, ...] = ()
    run_class: RunClass | None = None
    name: str | None = None


def list_jobs(
    session: Session, wanted: JobFilter, limit: int, before: tuple[datetime, str] | None
) -> list[dict[str, Any]]:
    """Newest first, at most `limit`, those submitted before the key `before`."""
    statement = _NEWEST_FIRST.limit(limit)
    if wanted.project_id is not None:
        statement = statement.where(_JOB.c.project_id == wanted.project_id)
    if wanted.states:
        statement = statement.where(_JOB.c.state.in_(wanted.states))
    if wanted.run_class is not None:
        statement = statement.where(_JOB.c.run_class == wanted.run_class)
    if wanted.name is not None:
        statement = statement.where(_JOB.c.name == wanted.name)
    if before is not None:
        statement = statement.where(tuple_(_JOB.c.submitted_at, _JOB.c.id) < before)
    rows = session.connection().execute(statement)
    return [dict(zip(_LISTED_NAMES, row, strict=True)) for row in rows]


def find_job(session: Session, caller: Caller, job_id: str) -> dict[str, Any]:
    """A job by its id, or by the beginning of one if that is unambiguous.

    Problem 404 if there is none that the caller may see, 409 with the candidates if there are several.
    """
    connection = session.connection()
    mine = [_JOB.c.project_id == caller.project_id] if caller.project_id is not None else []
    row = connection.execute(select(*_COLUMNS).where(_JOB.c.id == job_id, *mine)).first()
    if row is not None:
        return dict(zip(_NAMES, row, strict=True))
    if len(job_id) >= SHORTEST_PREFIX:
        near = select(*_COLUMNS).where(_JOB.c.id.startswith(job_id, autoescape=True), *mine).limit(10)
        rows = [dict(zip(_NAMES, row, strict=True)) for row in connection.execute(near)]
        if len(rows) == 1:
            return rows[0]
        if rows:
            candidates = [row["id"] for row in rows]
            raise Problem(
                409, f"{job_id} is the beginning of several jobs", code="ambiguous", candidates=candidates
            )
    raise not_found("job")


def insert_job(session: Session, values: Row, event: Row) -> None:
    """Write a job and the event that tells of it."""
    connection = session.connection()
    connection.execute(_INSERT_JOB, dict(values))
    connection.execute(_INSERT_EVENT, dict(event))
    count_event(session, event["kind"])


def by_key(session: Session, project_id: str, key: str) -> dict[str, Any] | None:
    """The job that was submitted with an idempotency key."""
    statement = select(*_COLUMNS).where(_JOB.c.project_id == project_id, _JOB.c.idempotency_key == key)
    row = session.connection().execute(statement).first()
    return None if row is None else dict(zip(_NAMES, row, strict=True))


def costs_usd(session: Session, job_ids: Sequence[str], now: datetime) -> dict[str, float]:
    """What each job has cost up to now; 0 for one that never had an instance."""
    spans: dict[str, list[Span]] = defaultdict(list)
    if not job_ids:
        return {}
    statement = select(
        col(Charge.job_id), col(Charge.starts), col(Charge.ends), col(Charge.price_micros)
    ).where(col(Charge.job_id).in_(job_ids))
    for job_id, starts, ends, price in session.connection().execute(statement):
        spans[job_id].append(Span(starts, ends, price))
    return {job_id: from_micros(cost_micros(spans[job_id], now)) for job_id in job_ids}


def live_offers(session: Session, job_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Where each job runs or is about to: the offer of its oldest attempt that is not over."""
    if not job_ids:
        return {}
    table = Attempt.__table__  # type: ignore[attr-defined]
    names = ("provider", "account", "region", "zone", "instance_type", "capacity_type")
    statement = (
        select(table.c.job_id, table.c.price_micros, *(table.c[name] for name in names))
        .where(table.c.job_id.in_(job_ids), table.c.state != AttemptState.ENDED)
        .order_by(table.c.number.desc())
    )
    offers = {}
    for job_id, price, *values in session.connection().execute(statement):
        offers[job_id] = {**dict(zip(names, values, strict=True)), "price_usd_hour": from_micros(price)}
    return offers
