"""Events over HTTP: what happened, oldest or newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import or_, select
from sqlmodel import Session, col
from starlette.responses import Response

from service.api.authentication import CurrentCaller
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, page
from service.api.state import CurrentApi
from service.events.model import Event
from service.jobs.model import Job
from service.jobs.repository import find_job
from service.keys import SecretKeys
from service.projects.masking import NOTHING, redactors_of
from service.projects.redaction import Redactor
from service.projects.repository import names_by_id, scope_of

router = APIRouter(tags=["events"])

_EVENT = Event.__table__  # type: ignore[attr-defined]
_FIELDS = ("id", "at", "kind", "subject", "subject_id", "job_id", "message", "data")


@router.get("/jobs/{job_id}/events", summary="A job's events")
async def job_events(
    api: CurrentApi, caller: CurrentCaller, job_id: str, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """Oldest first: what happened to the job, its attempts and their instances. The last page has a
    `next_cursor` of null; to see what came since, ask for that page again.
    """

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        found = find_job(session, caller, job_id)["id"]
        statement = select(_EVENT).where(_EVENT.c.job_id == found)
        return _read(session, api.ctx.secret_keys, statement, limit, cursor, newest_first=False)

    return page(*await api.read(find))


@router.get("/events", summary="All events")
async def events(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 100,
    cursor: Cursor = None,
    project: Annotated[str | None, Query(max_length=40)] = None,
    job: Annotated[str | None, Query(max_length=40, description="A job's id.")] = None,
    kind: Annotated[str | None, Query(max_length=48)] = None,
    subject: Annotated[str | None, Query(max_length=16, description="job, attempt, instance, …")] = None,
    oldest_first: bool = False,
) -> Response:
    """Newest first by default, of every project that the token is good for."""

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        statement = select(_EVENT)
        project_id = scope_of(session, caller, project)
        if project_id is not None:
            jobs = select(col(Job.id)).where(col(Job.project_id) == project_id)
            statement = statement.where(or_(_EVENT.c.project_id == project_id, _EVENT.c.job_id.in_(jobs)))
        if job is not None:
            statement = statement.where(_EVENT.c.job_id == find_job(session, caller, job)["id"])
        if kind is not None:
            statement = statement.where(_EVENT.c.kind == kind)
        if subject is not None:
            statement = statement.where(_EVENT.c.subject == subject)
        return _read(session, api.ctx.secret_keys, statement, limit, cursor, newest_first=not oldest_first)

    return page(*await api.read(find))


def _read(
    session: Session,
    keys: SecretKeys | None,
    statement: Any,
    limit: int,
    cursor: str | None,
    *,
    newest_first: bool,
) -> tuple[list[dict[str, Any]], str | None]:
    key = decode_cursor(cursor, (int,))[0] if cursor else None
    if key is not None:
        statement = statement.where(_EVENT.c.id < key if newest_first else _EVENT.c.id > key)
    order = _EVENT.c.id.desc() if newest_first else _EVENT.c.id
    rows = session.connection().execute(statement.order_by(order).limit(limit + 1)).mappings().all()
    owners = _owners(session, rows[:limit])
    names, redactors = names_by_id(session), redactors_of(session, keys, owners.values())
    items = [_shown(row, names, redactors.get(owners[row["id"]] or "", NOTHING)) for row in rows[:limit]]
    return items, encode_cursor(rows[limit - 1]["id"]) if len(rows) > limit else None


def _owners(session: Session, rows: Sequence[Any]) -> dict[int, str | None]:
    """The project of each event: its own, or its job's."""
    jobs = {row["job_id"] for row in rows if row["project_id"] is None and row["job_id"] is not None}
    by_job: dict[str, str] = {}
    if jobs:
        of_jobs: Any = select(col(Job.id), col(Job.project_id)).where(col(Job.id).in_(jobs))
        by_job = dict(session.connection().execute(of_jobs).all())
    return {row["id"]: row["project_id"] or by_job.get(row["job_id"] or "") for row in rows}


def _shown(row: Any, names: dict[str, str], redactor: Redactor) -> dict[str, Any]:
    return {
        **{name: row[name] for name in _FIELDS},
        "message": redactor.redact(row["message"]),
        "data": redactor.redact_all(row["data"]),
        "project": names.get(row["project_id"] or ""),
    }
