"""One call to Resource Manager as its handlers see it, and how they answer or refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from sandbox.faults import Fault

if TYPE_CHECKING:
    from sandbox.faces.arm.state import Face


@dataclass(frozen=True, slots=True)
class Call:
    """path: what the route's braces matched. base: this server's own address, for absolute URLs. fault: what
    the scenario wants of the handler itself, beyond what is played on the wire.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: dict[str, Any]
    base: str
    url: str
    fault: Fault | None = None

    @property
    def subscription(self) -> str:
        return self.path["subscription"]

    @property
    def shown(self) -> str:
        """The state that a fault wants shown, empty for the true one."""
        return self.fault.value if self.fault is not None and self.fault.action == "state" else ""

    @property
    def group(self) -> str:
        return self.path["group"]


class ArmError(Exception):
    """A refusal: HTTP status, ARM's code and message, and what the property at fault is called."""

    def __init__(self, status: int, code: str, message: str, *, target: str | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.target = target

    def body(self) -> dict[str, Any]:
        """`{"error": {"code", "message"}}`."""
        error = {"code": self.code, "message": self.message}
        return {"error": error if self.target is None else {**error, "target": self.target}}

    def response(self) -> Response:
        """The refusal as an answer."""
        return JSONResponse(self.body(), self.status)


def missing(kind: str, name: str, group: str) -> ArmError:
    """404 for a resource of a resource group."""
    text = f"The Resource '{kind}/{name}' under resource group '{group}' was not found."
    return ArmError(404, "ResourceNotFound", text)


def throttled(fault: Fault) -> Response:
    """Too many calls, as the compute provider says it: no outer `error`, and a code that says little."""
    seconds = 1 if fault.retry_after is None else int(-(-fault.retry_after // 1))
    body = {
        "code": "OperationNotAllowed",
        "message": fault.message
        or "The server rejected the request because too many requests have been received for this "
        "subscription.",
        "details": [
            {
                "code": "TooManyRequests",
                "target": "PutVM",
                "message": '{"operationGroup":"PutVM","startTime":"","endTime":"","allowedRequestCount":4,'
                '"measuredRequestCount":5}',
            }
        ],
    }
    return JSONResponse(body, 429, headers={"Retry-After": str(seconds)})


def refused(fault: Fault) -> Response:
    """A scripted error or throttle in ARM's words."""
    if fault.action == "throttle":
        return throttled(fault)
    error = ArmError(
        fault.http_status, fault.code or "InternalServerError", fault.message or "scripted fault"
    )
    response = error.response()
    if fault.retry_after is not None:
        response.headers["Retry-After"] = str(int(-(-fault.retry_after // 1)))
    return response


def listing(call: Call, rows: list[dict[str, Any]], page_size: int = 50) -> Response:
    """`{"value": [...], "nextLink"}`, the link absolute and with a token of its own."""
    start = int(call.query.get("$skiptoken") or 0)
    if call.fault is not None and call.fault.action == "empty_page":
        return JSONResponse({"value": [], "nextLink": _link(call, start)})
    page: dict[str, Any] = {"value": rows[start : start + page_size]}
    if start + page_size < len(rows):
        page["nextLink"] = _link(call, start + page_size)
    return JSONResponse(page)


def _link(call: Call, start: int) -> str:
    return f"{call.base}{call.url}?{urlencode({**call.query, '$skiptoken': str(start)})}"


@dataclass(frozen=True, slots=True)
class Route:
    """method and template of the REST reference; `operation` is its operationId, which fault rules name.
    private: a token and an api-version are asked for.
    """

    method: str
    template: str
    operation: str
    handler: Callable[[Face, Call], Response] = field(repr=False)
    private: bool = True
