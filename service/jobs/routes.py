"""Jobs over HTTP: submit, plan, list, get, cancel, explain, attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select
from starlette.responses import Response

from policies.model import RunClass
from service.api.authentication import CurrentCaller
from service.api.bodies import read_document
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import invalid
from service.api.state import Api, CurrentApi
from service.attempts.cost import Span, cost_micros
from service.attempts.model import Attempt, Charge
from service.jobs import candidates as market
from service.jobs.aliases import TEXTS_BELOW, canonical
from service.jobs.cancellation import cancel_job
from service.jobs.draft import Draft
from service.jobs.model import Job
from service.jobs.progress import Progress, read_progress, usual_restart
from service.jobs.repository import JobFilter, costs_usd, find_job, list_jobs, live_offers
from service.jobs.rules import rule_for, rule_of_job
from service.jobs.shown import job_detail, job_summary
from service.jobs.spec import JobSpec
from service.jobs.submission import MAX_KEY, Submitted, check, submit, warnings
from service.jobs.view import policy_job, view
from service.keys import SecretKeys
from service.market.waits import expected_start, read_waits
from service.money import from_micros
from service.projects.masking import redactor_of, redactors_of
from service.projects.model import Project
from service.projects.repository import chosen, names_by_id, scope_of
from service.projects.tokens import Caller
from service.quota_desk.hints import hints
from service.states import JobState

router = APIRouter(tags=["jobs"])

MAX_OFFERS = 20
_SPEC_REF = {"$ref": "#/components/schemas/JobSpec"}
SPEC_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _SPEC_REF}, "application/yaml": {"schema": _SPEC_REF}},
    }
}
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        max_length=MAX_KEY,
        pattern=r"^[\x21-\x7e]+$",
        description="The same key with the same spec gives the same job, however often it is sent.",
    ),
]


@router.post(
    "/jobs",
    status_code=201,
    summary="Submit a job",
    openapi_extra=SPEC_BODY,
    responses={200: {"description": "the job that this Idempotency-Key made before"}},
)
async def submit_job(
    request: Request,
    api: CurrentApi,
    caller: CurrentCaller,
    idempotency_key: Key = None,
    project: Annotated[str | None, Query(description="As the field of the spec.")] = None,
) -> Response:
    """The spec as JSON or YAML, in our spelling or in SkyPilot's or dstack's; replies use one spelling."""
    draft, spec = await _spec(request, api)

    def write(session: Session) -> tuple[Submitted, Project]:
        owner = _owner(session, caller, draft, project)
        check(session, api.ctx.settings, owner, spec, draft)
        made = submit(session, api.ctx, owner, spec, key=idempotency_key, by=caller.token_id, said=draft.said)
        return made, owner

    try:
        submitted, owner = await api.write(write)
    except IntegrityError:  # the same key, at the same moment, through another replica
        submitted, owner = await api.write(write)
    if submitted.new:
        api.ctx.wake("scheduler")
    told = [*draft.warnings, *warnings(api.ctx.settings, owner.name, spec)]
    if submitted.new:
        shown = job_detail(submitted.row, owner.name, 0.0, None, api.ctx.now())
    else:
        shown = await api.read(lambda session: _detail(session, api, caller, submitted.row["id"]))
    headers = {"Location": f"/v1/jobs/{submitted.row['id']}"}
    return json_response({**shown, "warnings": told}, 201 if submitted.new else 200, headers)


@router.post("/jobs:plan", summary="Plan a job", openapi_extra=SPEC_BODY)
async def plan_job(
    request: Request,
    api: CurrentApi,
    caller: CurrentCaller,
    project: Annotated[str | None, Query(description="As the field of the spec.")] = None,
    max_offers: Annotated[int, Query(ge=1, le=500)] = MAX_OFFERS,
) -> Response:
    """What would happen to this spec now: the offers it could be run on, best first, and for each offer that
    is passed over the reason. Nothing is kept and nothing is started.
    """
    draft, spec = await _spec(request, api)
    now = api.ctx.now()

    def plan(session: Session) -> dict[str, Any]:
        owner = _owner(session, caller, draft, project)
        check(session, api.ctx.settings, owner, spec, draft)
        rule = rule_for(api.ctx.settings, spec.run_class, owner.name, spec.labels)
        asked = view(spec, "plan", now, now, api.ctx.settings, Progress(usual_restart(session)))
        found = market.candidates(session, api.ctx.book, rule, asked, now)
        offers = market.ranked(found, spec.resources.nodes)
        misfit = [text] if (text := market.misfit(found)) else []
        return {
            "project": owner.name,
            "spec": spec.model_dump(mode="json", by_alias=True),
            "nodes": spec.resources.nodes,
            "offers": offers[:max_offers],
            "total_offers": len(offers),
            "passed_over": market.passed_over(found, spec.resources.nodes),
            "counts": found.counts,
            "warnings": [*draft.warnings, *warnings(api.ctx.settings, owner.name, spec), *misfit],
        }

    return json_response(await api.read(plan))


@router.get("/jobs", summary="List jobs")
async def get_jobs(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[list[str] | None, Query(description="One or several, also comma-separated.")] = None,
    run_class: Annotated[RunClass | None, Query(alias="class")] = None,
    name: Annotated[str | None, Query(max_length=64)] = None,
    project: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """Newest first, of every project that the token is good for."""
    before = tuple(decode_cursor(cursor, (datetime, str))) if cursor else None
    states = _states(state)
    now = api.ctx.now()

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        wanted = JobFilter(scope_of(session, caller, project), states, run_class, name)
        rows = list_jobs(session, wanted, limit + 1, before)
        more = (
            encode_cursor(rows[limit - 1]["submitted_at"], rows[limit - 1]["id"])
            if len(rows) > limit
            else None
        )
        rows = rows[:limit]
        rows = _masked(session, api.ctx.secret_keys, rows)
        tried = [row["id"] for row in rows if row["attempts"]]
        live = [row["id"] for row in rows if row["attempts"] and row["ended_at"] is None]
        names, costs, offers = (
            names_by_id(session),
            costs_usd(session, tried, now),
            live_offers(session, live),
        )
        return [
            job_summary(
                row, names.get(row["project_id"]), costs.get(row["id"], 0.0), offers.get(row["id"]), now
            )
            for row in rows
        ], more

    return page(*await api.read(find))


@router.post("/jobs/{job_id}:cancel", summary="Cancel a job")
async def cancel(api: CurrentApi, caller: CurrentCaller, job_id: str) -> Response:
    """Once this is answered the job will not start again: waiting jobs are cancelled, others are stopping and
    may write a last checkpoint. Safe to repeat; 409 if the job has ended.
    """
    now = api.ctx.now()

    def write(session: Session) -> str:
        found: str = find_job(session, caller, job_id)["id"]
        cancel_job(session, found, by=caller.token_id, now=now)
        return found

    found = await api.write(write)
    for loop in ("lifecycle", "launcher"):
        api.ctx.wake(loop)
    return json_response(await api.read(lambda session: _detail(session, api, caller, found)))


@router.get("/jobs/{job_id}:explain", summary="Why a job is where it is")
async def explain(
    api: CurrentApi,
    caller: CurrentCaller,
    job_id: str,
    limit: Annotated[int, Query(ge=1, le=5000, description="How many offers are listed.")] = market.SHOWN,
) -> Response:
    """For every offer whether the job could run there now, and if not: why, since when and until when."""
    now = api.ctx.now()

    def find(session: Session) -> dict[str, Any]:
        (row,) = _masked(session, api.ctx.secret_keys, [find_job(session, caller, job_id)])
        job = Job.model_construct(**row)
        made = read_progress(session, [job], now)[job.id]
        rule = rule_of_job(session, api.ctx.settings, job)
        asked = policy_job(job, api.ctx.settings, made)
        found = market.candidates(session, api.ctx.book, rule, asked, now, limit)
        nodes = row["spec"]["resources"]["nodes"]
        return {
            "id": row["id"],
            "state": row["state"],
            "reason": row["reason"],
            "detail": row["detail"],
            "waiting_since": row["waiting_since"],
            "decision": row["decision"] or None,
            "counts": found.counts,
            "total_offers": found.total,
            "quotas": hints(session, found.candidates, nodes, now),
            "expected_start": expected_start(found.candidates, read_waits(session), row["waiting_since"], now)
            if row["waiting_since"]
            else None,
            "candidates": [*market.ranked(found, nodes), *market.passed_over(found, nodes, limit)][:limit],
            "now": now,
        }

    return json_response(await api.read(find))


@router.get("/jobs/{job_id}/attempts", summary="A job's attempts")
async def attempts(api: CurrentApi, caller: CurrentCaller, job_id: str) -> Response:
    """Each try to run the job, in order: where, when, why it ended, what it cost."""
    now = api.ctx.now()

    def find(session: Session) -> list[dict[str, Any]]:
        job = find_job(session, caller, job_id)
        rows = session.exec(
            select(Attempt).where(col(Attempt.job_id) == job["id"]).order_by(col(Attempt.number))
        ).all()
        charges = session.exec(select(Charge).where(col(Charge.job_id) == job["id"])).all()
        redactor = redactor_of(session, api.ctx.secret_keys, job["project_id"])
        return [
            redactor.redact_all(_attempt(row, [one for one in charges if one.attempt_id == row.id], now))
            for row in rows
        ]

    return page(await api.read(find), None)


@router.get("/jobs/{job_id}", summary="Get a job")
async def get_job(api: CurrentApi, caller: CurrentCaller, job_id: str) -> Response:
    """By its id, or the beginning of it if that is unambiguous."""
    return json_response(await api.read(lambda session: _detail(session, api, caller, job_id)))


async def _spec(request: Request, api: Api) -> tuple[Draft, JobSpec]:
    data = await read_document(request, api, TEXTS_BELOW)
    draft = canonical(data, api.ctx.now())
    return draft, draft.finish()


def _owner(session: Session, caller: Caller, draft: Draft, project: str | None) -> Project:
    if project is not None and draft.project not in (None, project):
        raise invalid("project", f"is {draft.project} in the spec and {project} in the query")
    return chosen(session, caller, draft.project or project)


def _states(given: list[str] | None) -> tuple[JobState, ...]:
    names = [name for text in given or () for name in text.split(",") if name]
    known = {str(state): state for state in JobState}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise invalid("state", f"{wrong[0]!r} is not a state of a job", tuple(known))
    return tuple(known[name] for name in names)


def _masked(
    session: Session, keys: SecretKeys | None, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Rows without their project's secrets: a failure's detail may quote the job's output."""
    redactors = redactors_of(session, keys, (row["project_id"] for row in rows if row["detail"]))
    return [
        {**row, "detail": redactors[row["project_id"]].redact(row["detail"])}
        if row["detail"] and row["project_id"] in redactors
        else row
        for row in rows
    ]


def _detail(session: Session, api: Api, caller: Caller, job_id: str) -> dict[str, Any]:
    now = api.ctx.now()
    (row,) = _masked(session, api.ctx.secret_keys, [find_job(session, caller, job_id)])
    ids = [row["id"]]
    project = session.get(Project, row["project_id"])
    cost, offer = costs_usd(session, ids, now)[row["id"]], live_offers(session, ids).get(row["id"])
    return job_detail(row, project.name if project else None, cost, offer, now)


_ATTEMPT_FIELDS = (
    "id",
    "number",
    "epoch",
    "state",
    "reason",
    "detail",
    "provider",
    "account",
    "region",
    "zone",
    "instance_type",
    "capacity_type",
    "nodes",
    "gpus_per_node",
    "replaces",
    "planned_at",
    "sent_at",
    "accepted_at",
    "running_at",
    "draining_at",
    "drain_reason",
    "ended_at",
    "error_kind",
    "error_code",
    "checkpoint",
    "checkpoint_at",
)


def _attempt(row: Attempt, charges: list[Charge], now: datetime) -> dict[str, Any]:
    spans = [Span(charge.starts, charge.ends, charge.price_micros) for charge in charges]
    return {
        **{name: getattr(row, name) for name in _ATTEMPT_FIELDS},
        "price_usd_hour": from_micros(row.price_micros),
        "cost_usd": from_micros(cost_micros(spans, now)),
        "billed_from": min((span.starts for span in spans), default=None),
        "billed_to": None
        if any(span.ends is None for span in spans)
        else max((span.ends for span in spans if span.ends), default=None),
    }
