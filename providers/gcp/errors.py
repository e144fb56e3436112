"""From what went wrong at Compute Engine to a ProviderError."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp import error_table as table
from providers.gcp.causes import Cause, Quota, causes_of_http, causes_of_operation, decisive
from providers.gcp.error_table import About, Rule
from providers.vocabulary import CapacityType, Scope

_LONGEST_TEXT = 600
_GPU_METRIC = re.compile(r"^(NVIDIA_[A-Z0-9_]+)_GPUS$")
_REGION_WIDE = frozenset(
    {"SSD_TOTAL_GB", "DISKS_TOTAL_GB", "IN_USE_ADDRESSES", "STATIC_ADDRESSES", "INSTANCES"}
)


@dataclass(frozen=True, slots=True)
class Where:
    """What a call was about, as far as it is known."""

    account: str
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    family: str | None = None
    capacity_type: CapacityType | None = None
    subnet: str | None = None
    image: str | None = None
    reservation: str | None = None


def of_exception(error: Exception, where: Where, now: datetime) -> ProviderError:
    """From anything that google-cloud-compute, google-auth or requests raises."""
    from google.api_core import exceptions as api

    if isinstance(error, ProviderError):
        return error
    if isinstance(error, api.RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if not isinstance(error, api.GoogleAPICallError):
        return _error(_transport_rule(error), Cause(type(error).__name__, str(error)), where, now)
    causes = causes_of_http(error)
    status = int(error.code or 0)
    cause, rule = decisive(causes) or (causes[0], table.STATUS.get(status, table.UNKNOWN))
    if not cause.code:
        cause = replace(cause, code=cause.reason or f"HTTP {status}")
    return _error(rule, cause, where, now, retry_after=_retry_after(error.response))


def of_answer(status: int, body: bytes, where: Where, now: datetime) -> ProviderError:
    """From the answer of a Google API that is called without the SDK."""
    from google.api_core import exceptions as api

    try:
        said = json.loads(body)["error"]
        details = [item for item in said.get("details", ()) if isinstance(item, dict)]
        text, items = str(said.get("message", "")), said.get("errors", ())
    except (ValueError, KeyError, TypeError, AttributeError):
        details, text, items = [], "the answer is no error in Google's form", ()
    info = next((item for item in details if item.get("@type", "").endswith("google.rpc.ErrorInfo")), None)
    error: Exception = api.from_http_status(  # type: ignore[no-untyped-call]
        status, text, errors=items, details=details, error_info=info
    )
    return of_exception(error, where, now)


def of_operation(operations: Sequence[Any], where: Where, now: datetime) -> ProviderError | None:
    """From an operation and, for a bulk insert, its children; None if the first has not failed."""
    if not operations or not failed(operations[0]):
        return None
    first = operations[0]
    causes = [cause for operation in operations for cause in causes_of_operation(operation)]
    status = first.http_error_status_code
    if not causes:
        text = first.http_error_message or first.status_message or "it names no reason"
        causes = [Cause("", text)]
    # An operation whose code is not known is not explained by its HTTP status.
    fallback = table.UNKNOWN if causes[0].code else table.OPERATION_STATUS.get(status, table.UNKNOWN)
    cause, rule = decisive(causes) or (causes[0], fallback)
    if not cause.code:
        cause = replace(cause, code=f"HTTP {status}" if status else "no code")
    return _error(rule, cause, where, now, source=f" (operation {first.name})")


def done(operation: Any) -> bool:
    """True once nothing more comes of it."""
    return bool(operation.status == type(operation).Status.DONE)


def failed(operation: Any) -> bool:
    """True if it has ended in an error: one without an HTTP status counts too, though the SDK's own
    `result()` overlooks it (google-cloud-compute 1.57 on google-api-core 2.44).
    """
    return done(operation) and ("error" in operation or operation.http_error_status_code >= 400)


def _error(
    rule: Rule,
    cause: Cause,
    where: Where,
    now: datetime,
    *,
    retry_after: float | None = None,
    source: str = "",
) -> ProviderError:
    if rule.kind is ErrorKind.QUOTA and cause.quota and cause.quota.rising:
        rule = table.ROLLOUT
    if rule.kind is ErrorKind.THROTTLED and retry_after is None:
        retry_after = _until_next_minute(now)
    where = _completed(where, cause)
    return ProviderError(
        rule.kind,
        _text(cause) + source,
        code=cause.code,
        scope=scope_of(rule.about, where, cause.quota),
        ambiguous=rule.ambiguous,
        retry_after=retry_after,
        avoid_for=_avoid_for(rule, where.capacity_type),
        available=_available(cause, where),
    )


def _available(cause: Cause, where: Where) -> tuple[Scope, ...]:
    """The zones of the region that the error names as having the type (ErrorInfo `zonesAvailable`)."""
    named = (zone.strip() for zone in cause.facts.get("zonesAvailable", "").split(","))
    return tuple(
        replace(scope_of(About.POOL, where), region=where.region, zone=zone) for zone in named if zone
    )


def _completed(where: Where, cause: Cause) -> Where:
    """The request's own type stands; where it is not known any more the error may name it."""
    if where.instance_type is None and (named := cause.facts.get("vmType")):
        return replace(where, instance_type=named)
    return where


def _avoid_for(rule: Rule, capacity_type: CapacityType | None) -> timedelta | None:
    longer = rule.on_demand_minutes if capacity_type is not CapacityType.SPOT else None
    minutes = longer or rule.minutes
    return None if minutes is None else timedelta(minutes=minutes)


def _text(cause: Cause) -> str:
    text = " ".join(cause.message.split()) or cause.reason or "no message"
    others = cause.facts.get("zonesAvailable")
    hint = f" Available in: {others}." if others else ""
    return text[:_LONGEST_TEXT] + hint


def scope_of(about: About, where: Where, quota: Quota | None = None) -> Scope:
    """The offers of this account that an error speaks of."""
    account = Scope(provider="gcp", account=where.account)
    spot = where.capacity_type
    match about:
        case About.POOL:
            return replace(account, zone=where.zone, instance_type=where.instance_type, capacity_type=spot)
        case About.RESERVATION:
            if where.reservation is None:
                return scope_of(About.POOL, where)
            return replace(account, zone=where.zone, reservation=where.reservation)
        case About.TYPE_IN_ZONE:
            return replace(account, zone=where.zone, instance_type=where.instance_type)
        case About.TYPE_IN_REGION:
            return replace(
                account, region=where.region, instance_type=where.instance_type, capacity_type=spot
            )
        case About.TYPE:
            return replace(account, instance_type=where.instance_type)
        case About.ZONE:
            return replace(account, region=where.region, zone=where.zone)
        case About.SUBNET:
            return replace(account, region=where.region, subnet=where.subnet)
        case About.IMAGE:
            return replace(account, region=where.region, image=where.image)
        case About.METRIC:
            return _quota_scope(account, where, quota)
    return account


def _quota_scope(account: Scope, where: Where, quota: Quota | None) -> Scope:
    """Quota is regional and counts a family's GPUs, apart for spot, unless it is the project's."""
    if quota is None:
        return replace(account, region=where.region, family=where.family, capacity_type=where.capacity_type)
    if quota.everywhere or quota.metric in table.GLOBAL_METRICS:
        return account
    regional = replace(account, region=quota.region or where.region)
    metric = quota.metric.removeprefix("PREEMPTIBLE_")
    if metric != quota.metric:
        regional = replace(regional, capacity_type=CapacityType.SPOT)
    elif where.capacity_type is CapacityType.ON_DEMAND:
        # A spot request refused by the standard metric shows that the project has no preemptible quota and
        # spends this one for both (Compute Engine: provisioning models, "preemptible quota").
        regional = replace(regional, capacity_type=CapacityType.ON_DEMAND)
    if metric in _REGION_WIDE:
        return replace(regional, capacity_type=None)
    if metric == "GPUS_PER_GPU_FAMILY":
        return replace(regional, family=quota.gpu_family or where.family)
    gpu = _GPU_METRIC.match(metric)
    return replace(regional, family=gpu[1] if gpu else where.family)


def _until_next_minute(now: datetime) -> float:
    """Rate quotas are refilled at each full minute (Compute Engine: API rate quotas)."""
    return 60.0 - now.second - now.microsecond / 1e6


def _retry_after(response: Any) -> float | None:
    text = (getattr(response, "headers", None) or {}).get("Retry-After", "")
    return float(text) if text.isdigit() else None


def _transport_rule(error: Exception) -> Rule:
    """Whether a call that got no answer can have reached the cloud."""
    import httpx
    import requests.exceptions as transport
    from google.auth import exceptions as auth
    from google.protobuf.json_format import ParseError  # type: ignore[import-untyped]

    if isinstance(error, auth.TransportError):
        return table.NOT_SENT
    if isinstance(error, auth.GoogleAuthError):
        return table.NOT_SENT if getattr(error, "retryable", False) else table.SIGNED_OUT
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return table.NOT_SENT
    if isinstance(error, transport.ConnectTimeout) or _never_connected(error):
        return table.NOT_SENT
    if isinstance(error, transport.RequestException | httpx.HTTPError | ParseError):
        return table.UNANSWERED
    return table.UNKNOWN


def _never_connected(error: Exception) -> bool:
    """True for a refused connection or an unknown host, which urllib3 says deep inside requests' error."""
    from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError

    inner = error.args[0] if error.args else None
    reason = inner.reason if isinstance(inner, MaxRetryError) else inner
    return isinstance(reason, NewConnectionError | ConnectTimeoutError)
