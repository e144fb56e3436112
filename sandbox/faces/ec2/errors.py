"""The one error that operations raise, and how each protocol spells it."""

from __future__ import annotations

from xml.sax.saxutils import escape

from starlette.responses import JSONResponse, Response

from sandbox.faults import Fault


class AwsError(Exception):
    """A refusal in AWS's words: code, message, HTTP status."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


def respond(protocol: str, error: AwsError, request_id: str) -> Response:
    """An error as `ec2`, `query` or `json` clients read it."""
    if protocol == "json":
        body = {"__type": error.code, "message": error.message}
        return JSONResponse(
            body,
            error.status,
            media_type="application/x-amz-json-1.1",
            headers={"x-amzn-RequestId": request_id},
        )
    inner = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    if protocol == "query":
        kind = "Sender" if error.status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type>{inner}</Error><RequestId>{request_id}</RequestId>"
            "</ErrorResponse>"
        )
    else:
        text = (
            f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
        )
    return Response(xml_head() + text, error.status, media_type="text/xml")


def from_fault(protocol: str, fault: Fault) -> AwsError:
    """A scripted error, or the service's own throttling error."""
    if fault.action == "throttle":
        if protocol == "json":
            return AwsError(fault.code or "ThrottlingException", fault.message or "Rate exceeded", 400)
        code = "RequestLimitExceeded" if protocol == "ec2" else "Throttling"
        status = 503 if protocol == "ec2" else 400
        return AwsError(fault.code or code, fault.message or "Request limit exceeded.", status)
    code = fault.code or "InternalError"
    return AwsError(code, fault.message or "An internal error has occurred", fault.http_status)


def xml_head() -> str:
    return '<?xml version="1.0" encoding="UTF-8"?>\n'


def missing(code: str, what: str, ids: list[str]) -> AwsError:
    """Ids that do not exist, singular or plural as EC2 words it."""
    if len(ids) == 1:
        return AwsError(code, f"The {what} ID '{ids[0]}' does not exist")
    return AwsError(code, f"The {what} IDs '{', '.join(ids)}' do not exist")
