"""Errors as people and programs get them: RFC 9457 problem+json, the same shape for every status.

{"type": "urn:corral:problem:not_found", "title": "Not found", "status": 404, "detail": "…",
 "errors": [{"field": "resources.gpu", "problem": "…", "allowed": ["H100", …]}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson
from starlette.responses import Response

MEDIA_TYPE = "application/problem+json"
_TYPE_PREFIX = "urn:corral:problem:"
_BY_STATUS = {
    400: "bad_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    410: "gone",
    411: "length_required",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    426: "upgrade",
    429: "too_many",
    500: "internal",
    503: "unavailable",
}


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field. `field` is the path as the caller wrote it, dotted."""

    field: str
    problem: str
    allowed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"field": self.field, "problem": self.problem}
        if self.allowed:
            body["allowed"] = list(self.allowed)
        return body


class Problem(Exception):  # noqa: N818 - the standard's own word
    """Raise it anywhere below a route; the caller gets it as problem+json.

    `code` ends the `type` URN and names the case for programs; None takes the status's own. `members` are
    further members of the body, `next_offset` for example.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.code = code or _BY_STATUS.get(status, "error")
        self.errors = tuple(errors)
        self.headers = dict(headers or {})
        self.members = members

    def body(self) -> dict[str, Any]:
        """The JSON document."""
        document: dict[str, Any] = {
            "type": _TYPE_PREFIX + self.code,
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [error.as_json() for error in self.errors]
        return document | self.members

    def response(self) -> Response:
        """The reply."""
        return Response(
            orjson.dumps(self.body()), status_code=self.status, media_type=MEDIA_TYPE, headers=self.headers
        )


class InvalidFieldsError(Problem):
    """422: one or more fields of what was sent cannot be accepted; nothing was done."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(422, f"{first.field}: {first.problem}{more}", errors=errors)


def invalid(field: str, problem: str, allowed: Sequence[str] = ()) -> InvalidFieldsError:
    """422 about one field."""
    return InvalidFieldsError([FieldError(field, problem, tuple(allowed))])


def not_found(what: str) -> Problem:
    """404. The same whether it does not exist or belongs to a project that the caller may not see."""
    return Problem(404, f"no such {what}")
