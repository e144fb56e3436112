"""Instances over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import select
from sqlmodel import Session, col
from starlette.responses import Response

from service.api.authentication import CurrentCaller, global_only
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, page
from service.api.problems import invalid
from service.api.state import CurrentApi
from service.attempts.model import Attempt, AttemptInstance
from service.instances.care import adopt_orphan, confirm_sweep, end_orphan
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.repository import find_job
from service.money import from_micros
from service.projects.model import Role
from service.projects.repository import names_by_id, scope_of
from service.states import INSTANCE_LIVE, InstanceState

router = APIRouter(tags=["instances"])

_TABLE = Instance.__table__  # type: ignore[attr-defined]
_FIELDS = (
    "id",
    "node",
    "state",
    "reason",
    "purpose",
    "provider",
    "account",
    "region",
    "zone",
    "instance_type",
    "capacity_type",
    "provider_id",
    "cloud_state",
    "reachable",
    "private_ip",
    "public_ip",
    "planned_at",
    "requested_at",
    "running_at",
    "terminating_at",
    "terminated_at",
    "agent_state",
    "agent_seen_at",
    "agent_version",
    "notice_at",
    "notice_deadline",
    "notice_kind",
    "exit_code",
    "exit_reason",
)


@router.get("/instances", summary="List instances")
async def instances(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[list[str] | None, Query(description="One or several, also comma-separated.")] = None,
    everything: Annotated[bool, Query(alias="all", description="Also those that are over.")] = False,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    job: Annotated[str | None, Query(max_length=40, description="A job's id.")] = None,
    project: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """Newest first: those that are not over, each with the job that it serves and its price."""
    before = decode_cursor(cursor, (str,))[0] if cursor else None
    states = _states(state, everything)

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        statement = (
            select(
                _TABLE,
                col(Attempt.id).label("attempt_id"),
                col(Attempt.price_micros).label("price_micros"),
                col(Job.id).label("job_id"),
                col(Job.name).label("job_name"),
                col(Job.project_id).label("project_id"),
            )
            .outerjoin(AttemptInstance, col(AttemptInstance.instance_id) == _TABLE.c.id)
            .outerjoin(Attempt, col(Attempt.id) == col(AttemptInstance.attempt_id))
            .outerjoin(Job, col(Job.id) == col(Attempt.job_id))
            .where(_TABLE.c.state.in_(states))
            .order_by(_TABLE.c.id.desc())
        )
        project_id = scope_of(session, caller, project)
        if project_id is not None:
            statement = statement.where(col(Job.project_id) == project_id)
        if job is not None:
            statement = statement.where(col(Job.id) == find_job(session, caller, job)["id"])
        if provider is not None:
            statement = statement.where(_TABLE.c.provider == provider)
        if before is not None:
            statement = statement.where(_TABLE.c.id < before)
        rows = session.connection().execute(statement.limit(limit + 1)).mappings().all()
        names = names_by_id(session)
        more = encode_cursor(rows[limit - 1]["id"]) if len(rows) > limit else None
        return [_shown(row, names) for row in rows[:limit]], more

    return page(*await api.read(find))


def _states(given: list[str] | None, everything: bool) -> list[InstanceState]:
    names = [name for text in given or () for name in text.split(",") if name]
    known = {str(state): state for state in InstanceState}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise invalid("state", f"{wrong[0]!r} is not a state of an instance", tuple(known))
    if names:
        return [known[name] for name in names]
    return list(InstanceState) if everything else sorted(INSTANCE_LIVE)


def _shown(row: Any, names: dict[str, str]) -> dict[str, Any]:
    price = row["price_micros"]
    return {
        **{name: row[name] for name in _FIELDS},
        "attempt_id": row["attempt_id"],
        "job_id": row["job_id"],
        "job_name": row["job_name"],
        "project": names.get(row["project_id"] or ""),
        "price_usd_hour": None if price is None else from_micros(price),
        "gpus_now": row["facts"].get("gpus_now", []),
        "degraded": row["facts"].get("degraded", []),
    }


@router.post("/instances/{instance_id}:end", summary="End an orphan")
async def end(api: CurrentApi, caller: CurrentCaller, instance_id: str) -> dict[str, Any]:
    """End an instance that bears our tag and belongs to no job. Needs an admin of all projects."""
    return await _decide(api, caller, instance_id, end_orphan)


@router.post("/instances/{instance_id}:adopt", summary="Leave an orphan alone")
async def adopt(api: CurrentApi, caller: CurrentCaller, instance_id: str) -> dict[str, Any]:
    """Leave an instance alone that bears our tag and belongs to no job. Needs an admin of all projects."""
    return await _decide(api, caller, instance_id, adopt_orphan)


@router.post("/deployment:confirm-sweep", summary="Turn the orphan sweep on again")
async def confirm(api: CurrentApi, caller: CurrentCaller) -> dict[str, Any]:
    """After a restored backup or a changed deployment id. Needs an admin of all projects."""
    global_only(caller, Role.ADMIN)
    ctx = api.ctx
    changed = await api.write(
        lambda session: confirm_sweep(session, ctx.deployment_id, by=caller.token_id, now=ctx.now())
    )
    ctx.wake("watcher")
    return {"deployment": ctx.deployment_id, "sweep": "on", "changed": changed}


async def _decide(
    api: CurrentApi, caller: CurrentCaller, instance_id: str, decision: Callable[..., Instance]
) -> dict[str, Any]:
    global_only(caller, Role.ADMIN)

    def write(session: Session) -> dict[str, Any]:
        row = decision(session, instance_id, by=caller.token_id, now=api.ctx.now())
        return {"id": row.id, "provider_id": row.provider_id, "state": row.state, "reason": row.reason}

    shown = await api.write(write)
    api.ctx.wake("reaper")
    return shown
