"""The application: routes, errors, middleware, and the API's description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from service.agents import routes as agents
from service.api import docs, health
from service.api.authentication import authorize
from service.api.errors import handle_errors
from service.api.metrics import HttpMetrics
from service.api.middleware import Limited, Observed
from service.api.paging import json_response
from service.api.permissions import AGENT_PREFIX, PUBLIC
from service.api.state import Api, LoopsView
from service.blobs import routes as blobs
from service.configuration import Configuration
from service.context import Context
from service.costs import routes as costs
from service.events import routes as events
from service.instances import routes as instances
from service.jobs import routes as jobs
from service.jobs.spec import JobSpec
from service.logs import routes as logs
from service.market import routes as market
from service.nodes import agent_routes
from service.nodes import routes as nodes
from service.notifications import interactions
from service.notifications import routes as notifications
from service.projects import routes as projects
from service.projects import secret_routes
from service.quota_desk import routes as quota_desk
from service.quotas import routes as quotas
from service.reservations import routes as reservations
from service.storage import Store

VERSION = "1"
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False}
_PROBLEM = {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"description": "the body cannot be read", **_PROBLEM},
    401: {"description": "no token, or not a good one", **_PROBLEM},
    403: {"description": "the token's role does not allow it", **_PROBLEM},
    404: {"description": "it does not exist, or is another project's", **_PROBLEM},
    422: {"description": "fields that cannot be accepted; each is named", **_PROBLEM},
    503: {"description": "not now; Retry-After says when", **_PROBLEM},
}


def create_app(ctx: Context, configuration: Configuration, loops: LoopsView) -> FastAPI:
    """The ASGI application. `ctx.store` must be a `service.storage.Store`. Its shared state is
    `app.state.api`; set `app.state.api.closing` to end the streams.
    """
    if not isinstance(ctx.store, Store):
        raise TypeError("the API streams files: ctx.store must be a service.storage.Store")
    metrics = HttpMetrics()
    api = Api(ctx, configuration, loops, ctx.store, metrics)
    app = FastAPI(
        title="Corral",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        telemetry=_NO_TELEMETRY,
        responses=_RESPONSES,
        strict_content_type=False,
        redirect_slashes=False,  # such a redirect would go to whatever the Host header says
    )
    app.state.api = api
    handle_errors(app)
    _include(app, api)
    app.add_middleware(Limited, limit=_limit_of(api), stopping=lambda: loops.stopping)
    app.add_middleware(Observed, metrics=metrics)
    return app


def _include(app: FastAPI, api: Api) -> None:
    v1 = APIRouter(prefix="/v1", dependencies=[Depends(authorize)])
    for part in (
        jobs,
        logs,
        events,
        instances,
        market,
        quotas,
        quota_desk,
        reservations,
        costs,
        nodes,
        notifications,
        blobs,
        projects,
        secret_routes,
    ):
        v1.include_router(part.router)
    app.include_router(v1)
    app.include_router(agents.router(api.ctx, api.aside))
    app.include_router(agent_routes.router(api.ctx, api.aside))
    app.include_router(interactions.router)
    app.include_router(health.router)
    app.include_router(docs.router)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(_request: Request) -> Response:
        return json_response(_description(app))


def _limit_of(api: Api) -> Callable[[str, str], int]:
    """The largest body of a route, in bytes."""

    def limit(method: str, path: str) -> int:
        limits = api.ctx.settings.limits
        if path.startswith("/v1/blobs/"):
            return limits.max_blob
        if method == "POST" and path in ("/v1/jobs", "/v1/jobs:plan"):
            return limits.max_spec
        return limits.max_body

    return limit


def _description(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title="Corral API",
        version=VERSION,
        routes=app.routes,
        description="Ask for GPUs, follow the jobs that run on them. Send `Authorization: Bearer corral_…`.",
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = _PROBLEM_SCHEMA
    spec = JobSpec.model_json_schema(by_alias=True, ref_template="#/components/schemas/{model}")
    schemas.update(spec.pop("$defs", {}))
    schemas["JobSpec"] = spec
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if f"{method.upper()} {path}" not in PUBLIC and not path.startswith(f"{AGENT_PREFIX}hello"):
                operation["security"] = [{"token": []}]
    app.openapi_schema = document
    return document


_PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "examples": ["urn:corral:problem:invalid"]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "problem"],
                "properties": {
                    "field": {"type": "string"},
                    "problem": {"type": "string"},
                    "allowed": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
}
