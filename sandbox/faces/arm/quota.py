"""Microsoft.Quota on a region's compute quotas: what may be asked for, and requests for more."""

from __future__ import annotations

import uuid
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.faces.arm.call import ArmError, Call, listing
from sandbox.faces.arm.market import LOCALIZED, compute_quotas, must_be_known
from sandbox.faces.arm.state import Face
from sandbox.ledger import stamp
from sandbox.quota_reviews import QuotaRequest
from sandbox.quotas import MACHINES, QuotaRow

# Azure does not say that it grants less than was asked for: such a request has succeeded like any other.
_STATES = {
    "filed": "Accepted",
    "in_review": "InProgress",
    "approved": "Succeeded",
    "partly_granted": "Succeeded",
    "denied": "Failed",
}
_PAGE = 100


def quotas(face: Face, call: Call) -> Response:
    """The limits of a region, with whether more can be asked for."""
    return listing(call, [_quota(call, row) for row in _rows(face, call)], page_size=1000)


def quota(face: Face, call: Call) -> Response:
    """One limit."""
    return JSONResponse(_quota(call, _row(face, call)))


def file(face: Face, call: Call) -> Response:
    """Ask for a new limit, absolute and not a difference: 202 and where the request is."""
    row = _row(face, call)
    facts = call.body.get("properties") or {}
    limit, name = facts.get("limit") or {}, (facts.get("name") or {}).get("value")
    if limit.get("limitObjectType") != "LimitValue" or not isinstance(limit.get("value"), int):
        raise ArmError(400, "BadRequest", "properties.limit must be a LimitValue with a whole number.")
    if str(name).lower() != row.name.lower():
        raise ArmError(400, "BadRequest", "properties.name.value must be the resource name of the path.")
    if row.name == MACHINES:
        raise ArmError(400, "QuotaNotAvailableForResource", f"Quota can not be requested for {row.name}.")
    identity = str(uuid.uuid4())
    face.world.file_quota_request(
        "azure", identity, region=row.region, name=row.name, wanted=float(limit["value"])
    )
    where = f"{call.base}{_scope(call)}/quotaRequests/{identity}?api-version={call.query['api-version']}"
    return JSONResponse(_quota(call, row), 202, headers={"Location": where, "Retry-After": "0"})


def requests(face: Face, call: Call) -> Response:
    """The requests of a region, the newest first."""
    region = must_be_known(call)
    found = [one for one in face.world.quota_requests("azure") if one.region == region]
    return listing(call, [_request(call, one) for one in reversed(found)], page_size=_PAGE)


def request(face: Face, call: Call) -> Response:
    """One request."""
    region = must_be_known(call)
    for one in face.world.quota_requests("azure"):
        if (one.region, one.id) == (region, call.path["id"]):
            return JSONResponse(_request(call, one))
    raise ArmError(404, "NotFound", f"Request {call.path['id']} was not found.")


def _rows(face: Face, call: Call) -> list[QuotaRow]:
    return compute_quotas(face, must_be_known(call))


def _row(face: Face, call: Call) -> QuotaRow:
    wanted = call.path["name"].lower()
    for row in _rows(face, call):
        if row.name.lower() == wanted:
            return row
    raise ArmError(400, "InvalidResourceName", f"The resource name {call.path['name']} is invalid.")


def _scope(call: Call) -> str:
    return (
        f"/subscriptions/{call.subscription}/providers/Microsoft.Compute/locations/{call.path['location']}"
        "/providers/Microsoft.Quota"
    )


def _quota(call: Call, row: QuotaRow) -> dict[str, Any]:
    facts = {
        "limit": {"limitObjectType": "LimitValue", "limitType": "Independent", "value": int(row.limit)},
        "unit": "Count",
        "name": {"value": row.name, "localizedValue": LOCALIZED.get(row.name, f"{row.name} vCPUs")},
        "isQuotaApplicable": row.name != MACHINES,
        "properties": {},
    }
    kind = "Microsoft.Quota/quotas"
    return {"id": f"{_scope(call)}/quotas/{row.name}", "name": row.name, "type": kind, "properties": facts}


def _request(call: Call, one: QuotaRequest) -> dict[str, Any]:
    state = _STATES[one.state]
    part = {
        "name": {"value": one.name, "localizedValue": LOCALIZED.get(one.name, f"{one.name} vCPUs")},
        "unit": "Count",
        "provisioningState": state,
        "subRequestId": one.id,
        "limit": {"limitObjectType": "LimitValue", "value": int(one.wanted)},
    }
    facts: dict[str, Any] = {
        "provisioningState": state,
        "message": f"Request {state.lower()}",
        "requestSubmitTime": stamp(one.filed_at),
        "value": [part],
    }
    if one.state == "denied":
        text = "Your request could not be approved. Please file a support request."
        facts["error"] = {"code": "ContactSupport", "message": text}
    kind = "Microsoft.Quota/quotaRequests"
    return {"id": f"{_scope(call)}/quotaRequests/{one.id}", "name": one.id, "type": kind, "properties": facts}
