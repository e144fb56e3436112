"""Compute Engine's way to say no, and one call as its handlers see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import HTMLResponse, JSONResponse, Response

from sandbox.faults import Fault

#: Where resources say they are, whatever address they were asked for at.
LINKS = "https://www.googleapis.com/compute/v1/"

_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ALREADY_EXISTS",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_BAD_GATEWAY = (
    "<!DOCTYPE html><html lang=en><title>Error {status} (Server Error)!!1</title><p><b>{status}.</b> "
    "<ins>That's an error.</ins><p>The server encountered a temporary error.</html>"
)
_THROTTLED = (
    "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service "
    "'compute.googleapis.com' for consumer 'project_number:100000000001'."
)


class ApiError(Exception):
    """An error answer: HTTP status, `errors[].reason`, text."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message

    def response(self) -> Response:
        """The answer on the wire."""
        item = {"message": self.message, "domain": "global", "reason": self.reason}
        error: dict[str, Any] = {"code": self.status, "message": self.message, "errors": [item]}
        if self.status in _STATUS_NAMES:
            error["status"] = _STATUS_NAMES[self.status]
        return JSONResponse({"error": error}, self.status)


@dataclass(frozen=True, slots=True)
class Call:
    """One API call: the method's id (`instances.insert`), its path and query parameters, its body."""

    method: str
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any] = field(default_factory=dict)
    fault: Fault | None = None

    @property
    def project(self) -> str:
        return self.path["project"]

    def link(self, *parts: str) -> str:
        """The URL of something in the call's project."""
        return LINKS + "/".join(("projects", self.project, *parts))

    def faulty(self, action: str) -> Fault | None:
        """The call's scripted fault, if it is of this kind."""
        return self.fault if self.fault is not None and self.fault.action == action else None


def not_found(call: Call, *parts: str) -> ApiError:
    """404 of a resource in the call's project."""
    resource = "/".join(("projects", call.project, *parts))
    return ApiError(404, "notFound", f"The resource '{resource}' was not found")


def invalid(field_name: str, value: object, why: str = "") -> ApiError:
    """400 of a field's value."""
    return ApiError(400, "invalid", f"Invalid value for field '{field_name}': '{value}'. {why}".strip())


def refuse(fault: Fault) -> Response:
    """A scripted error or throttling in the vendor's words; an error without a code is a proxy's page."""
    if fault.action == "throttle":
        answer = ApiError(403, "rateLimitExceeded", fault.message or _THROTTLED).response()
        if fault.retry_after is not None:
            answer.headers["Retry-After"] = f"{fault.retry_after:.0f}"
        return answer
    if not fault.code:
        return HTMLResponse(_BAD_GATEWAY.format(status=fault.http_status), fault.http_status)
    return ApiError(fault.http_status, fault.code, fault.message or fault.code).response()
