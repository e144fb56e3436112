"""Every error as problem+json, whoever raised it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import OperationalError, TimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from service.api.problems import FieldError, InvalidFieldsError, Problem

log = structlog.get_logger(__name__)

_RETRY = {"Retry-After": "2"}
_DETAILS = {404: "no such route", 405: "the route does not have this method"}
# The place that FastAPI names first, and how it is shown; a body's fields are known by their own names.
_SHOWN = {"body": "", "query": "", "path": "", "header": "header "}

_SHOULD = re.compile(r"^(Input|String|List|Tuple|Dictionary|Value) should")


def handle_errors(app: FastAPI) -> None:
    """Register the handlers."""
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _went_away)
    app.add_exception_handler(OperationalError, _database)
    app.add_exception_handler(TimeoutError, _database)
    app.add_exception_handler(Exception, _unexpected)


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - registered for this class
    return error.response()


async def _validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    faults = error.errors()
    if any(fault["type"] == "json_invalid" for fault in faults):
        return Problem(400, "the body is not JSON").response()
    return InvalidFieldsError([_field(fault) for fault in faults]).response()


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    detail = error.detail
    if error.status_code in _DETAILS and detail in ("Not Found", "Method Not Allowed"):
        detail = _DETAILS[error.status_code]
    return Problem(error.status_code, detail, headers=dict(error.headers or {})).response()


async def _went_away(_request: Request, _error: Exception) -> Response:
    """Whoever was sending the body closed the connection: no fault of ours, and nobody reads this."""
    return Problem(400, "the body ended early").response()


async def _database(request: Request, error: Exception) -> Response:
    """The database is busy or away: nothing was done, and it is worth trying again."""
    log.warning("database_unavailable", error=type(error).__name__, path=request.url.path)
    return Problem(503, "the database cannot answer now; try again", headers=_RETRY).response()


async def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of ours. The reply names the request only; what happened is in the log under its id."""
    request_id = getattr(request.state, "request_id", None)
    log.error("request_failed", request_id=request_id, path=request.url.path, exc_info=error)
    detail = f"the service failed on this request; its log has more under request_id {request_id}"
    return Problem(500, detail, request_id=request_id).response()


def _field(fault: Any) -> FieldError:
    location: Sequence[Any] = fault["loc"]
    shown = _SHOWN.get(str(location[0]), f"{location[0]} ") if location else ""
    name = ".".join(str(part) for part in location[1:]) or str(location[0] if location else "body")
    return FieldError(shown + name, *described(fault))


def described(fault: Any) -> tuple[str, tuple[str, ...]]:
    """A pydantic error as a sentence, and what is allowed where it is a choice."""
    kind, context = fault["type"], fault.get("ctx") or {}
    if kind == "missing":
        return "is required", ()
    if kind == "extra_forbidden":
        return "is not a field that is known here", ()
    if kind in ("enum", "literal_error"):
        words = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ")
        return "is not one of the allowed values", tuple(word for word in words.split(", ") if word)
    text = str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    text = _SHOULD.sub("must", text)
    return text[:1].lower() + text[1:], ()
