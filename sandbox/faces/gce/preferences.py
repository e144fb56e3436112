"""Cloud Quotas' QuotaPreferences: asking for more, one preference for a quota and a set of dimensions.

What becomes of a request is the world's business (sandbox.quota_reviews). A preference is `reconciling` until
what was granted is in effect (Cloud Quotas API v1, QuotaPreference: "pending approval and fulfillment").
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.faces.gce.answers import ApiError, Call
from sandbox.faces.gce.cloudquotas import PROJECT_NUMBER, SERVICE, paged
from sandbox.ledger import stamp
from sandbox.quota_reviews import QuotaRequest
from sandbox.quotas import GLOBAL
from sandbox.world import World

PREFIX = "cloudquotas.projects.locations.quotaPreferences"
_REGIONAL, _PROJECT_WIDE = "-per-project-region", "-per-project"
Body = dict[str, Any]


class Preferences:
    """The preferences of the one project. `handlers`: method id -> what answers it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.handlers: Mapping[str, Callable[[Call], Body]] = {
            f"{PREFIX}.list": self._list,
            f"{PREFIX}.get": lambda call: self._shown(self._named(call)),
            f"{PREFIX}.create": self._create,
            f"{PREFIX}.patch": self._patch,
        }

    def _list(self, call: Call) -> Body:
        shown = [self._shown(request) for request in self._world.quota_requests("gcp")]
        return paged(call.query, "quotaPreferences", shown)

    def _create(self, call: Call) -> Body:
        name, region = _quota_of(call.body)
        wanted_id = call.query.get("quotaPreferenceId") or str(uuid.uuid4())
        for known in self._world.quota_requests("gcp"):
            if known.id == wanted_id or (known.name, known.region) == (name, region):
                text = f"Resource 'quotaPreferences/{known.id}' already exists"
                raise ApiError(409, "alreadyExists", text)
        return self._shown(self._file(call, wanted_id, name, region, {}))

    def _patch(self, call: Call) -> Body:
        known = self._named(call)
        if call.body.get("etag") not in (None, "", _etag(known)):
            raise ApiError(409, "aborted", "The etag does not match that of the quota preference.")
        kept = {"created": known.extra["created"], "granted": known.granted or known.before}
        return self._shown(self._file(call, known.id, known.name, known.region, kept))

    def _file(self, call: Call, request_id: str, name: str, region: str, kept: Body) -> QuotaRequest:
        config = call.body.get("quotaConfig") or {}
        wanted = float(int(config.get("preferredValue", 0)))
        limit = self._limit(name, region)
        if limit is None:
            raise ApiError(404, "notFound", f"Quota {call.body.get('quotaId')} was not found")
        if wanted < limit:
            raise ApiError(400, "failedPrecondition", "QUOTA_DECREASE_PERCENTAGE_TOO_HIGH")
        if "@" not in str(call.body.get("contactEmail", "")):
            raise ApiError(400, "badRequest", "contact_email is required for a quota increase.")
        request = self._world.file_quota_request("gcp", request_id, region=region, name=name, wanted=wanted)
        request.extra |= {"created": request.filed_at, **kept}
        request.extra["annotations"] = dict(config.get("annotations") or {})
        request.extra["justification"] = str(call.body.get("justification", ""))
        return request

    def _named(self, call: Call) -> QuotaRequest:
        wanted = call.path["preference"]
        for request in self._world.quota_requests("gcp"):
            if request.id == wanted:
                return request
        raise ApiError(404, "notFound", f"Resource 'quotaPreferences/{wanted}' was not found")

    def _limit(self, name: str, region: str) -> float | None:
        rows = self._world.quotas("gcp", region)
        return next((row.limit for row in rows if row.name == name), None)

    def _reconciling(self, request: QuotaRequest) -> bool:
        granted, limit = request.granted, self._limit(request.name, request.region)
        return request.open or (granted is not None and limit is not None and limit < granted)

    def _shown(self, request: QuotaRequest) -> Body:
        metric, _, family = request.name.partition("/")
        everywhere = request.region == GLOBAL
        config: Body = {
            "preferredValue": str(int(request.wanted)),
            "traceId": hashlib.sha256(f"{request.id}/{request.wanted}".encode()).hexdigest()[:16],
            "annotations": request.extra["annotations"],
        }
        reconciling = self._reconciling(request)
        granted = request.extra.get("granted") if reconciling else request.granted
        if granted is not None:
            config["grantedValue"] = str(int(granted))
        if request.state == "denied":
            config["stateDetail"] = "The quota increase request was denied."
        dimensions = {} if everywhere else {"region": request.region}
        shown: Body = {
            "name": f"projects/{PROJECT_NUMBER}/locations/global/quotaPreferences/{request.id}",
            "service": SERVICE,
            "quotaId": metric.replace("_", "-") + (_PROJECT_WIDE if everywhere else _REGIONAL),
            "dimensions": {**dimensions, **({"gpu_family": family} if family else {})},
            "quotaConfig": config,
            "etag": _etag(request),
            "createTime": stamp(request.extra["created"]),
            "updateTime": stamp(request.changed_at),
            "justification": request.extra["justification"],
        }
        return {**shown, "reconciling": True} if reconciling else shown  # proto3 leaves False out


def _quota_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """The world's name and region of the quota that a preference is about."""
    quota_id, dimensions = str(body.get("quotaId", "")), body.get("dimensions") or {}
    if body.get("service") != SERVICE:
        raise ApiError(400, "badRequest", f"service {body.get('service')!r} is not served here")
    everywhere = not quota_id.endswith(_REGIONAL)
    metric = quota_id.removesuffix(_PROJECT_WIDE if everywhere else _REGIONAL).replace("-", "_")
    family = dimensions.get("gpu_family", "")
    if everywhere is ("region" in dimensions):
        raise ApiError(400, "badRequest", f"dimensions {sorted(dimensions)} are not those of {quota_id}")
    return (f"{metric}/{family}" if family else metric), (GLOBAL if everywhere else dimensions["region"])


def _etag(request: QuotaRequest) -> str:
    return f'"{request.changed_at.timestamp():.6f}/{request.state}/{request.wanted:g}"'
