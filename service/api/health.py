"""Is the process alive, and is it doing its work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import structlog
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session
from starlette.responses import Response

from service.api.authentication import CurrentCaller
from service.api.metrics import counted, loop_age
from service.api.paging import json_response
from service.api.problems import Problem
from service.api.state import Api, CurrentApi
from service.upgrade import HEAD

log = structlog.get_logger(__name__)

router = APIRouter(tags=["health"])

LOOP_LATE = timedelta(seconds=120)
"""A loop beats every 15 s; one that has not run well for this long has stopped."""
LOOP_LATE_REAL = 10.0
"""Seconds of the machine's own time that a loop always has, however fast a sandbox's clock runs."""


@router.get("/healthz", summary="Alive")
async def healthz() -> Response:
    """200 as long as the process answers. Use /readyz to learn whether it does its work."""
    return json_response({"status": "ok"})


@router.get("/readyz", summary="Ready", responses={503: {"description": "not ready; the body says why"}})
async def readyz(api: CurrentApi) -> Response:
    """200 if the database answers a query and every loop moves; 503 otherwise, with what is wrong."""
    revision, failures = await _database(api)
    loops, late = _loops(api)
    failures += late
    if api.loops.stopping:
        failures.append("the service is stopping")
    body: dict[str, Any] = {
        "status": "not ready" if failures else "ready",
        "problems": failures,
        "config": api.configuration.hash,
        "schema": revision,
        "deployment": api.ctx.deployment_id,
        "loops": loops,
    }
    return json_response(body, 503 if failures else 200)


@router.get("/metrics", summary="Metrics for Prometheus", response_class=Response)
async def metrics(api: CurrentApi, caller: CurrentCaller) -> Response:
    """Needs a viewer's token that is good for all projects; with `listen.metrics_port` there is a listener
    of its own, without one.
    """
    if not caller.is_global:
        raise Problem(403, "metrics tell of all projects; the token is for one")
    return await metrics_response(api)


async def metrics_response(api: Api) -> Response:
    """The metrics in the exposition format."""
    families = [*await api.read(counted), loop_age(api.loops.status(), api.ctx.now())]
    return Response(api.metrics.text(families), headers={"content-type": CONTENT_TYPE_LATEST})


async def _database(api: Api) -> tuple[str | None, list[str]]:
    def look(session: Session) -> str | None:
        return session.connection().execute(text("SELECT version_num FROM alembic_version")).scalar()

    try:
        revision = await api.read(look)
    except SQLAlchemyError as error:
        log.warning("database_unavailable", error=type(error).__name__)
        return None, ["the database does not answer"]
    if revision != HEAD:
        return revision, [f"the database has schema {revision}, this version needs {HEAD}"]
    return revision, []


def _loops(api: Api) -> tuple[dict[str, Any], list[str]]:
    """What each loop last did, without the text of its errors: the route is public."""
    shown, late = {}, []
    now = api.ctx.now()
    allowed = max(LOOP_LATE, timedelta(seconds=LOOP_LATE_REAL * getattr(api.ctx.clock, "factor", 1.0)))
    for name, status in api.loops.status().items():
        last = status["last_run"]
        failing = status["last_error"] is not None
        shown[name] = {"last_run": last, "failing": failing}
        if last is None:
            late.append(f"the loop {name} has not run {'well' if failing else 'yet'}")
        elif now - last > allowed:
            late.append(f"the loop {name} has not run well since {last:%Y-%m-%dT%H:%M:%SZ}")
    return shown, late
