"""Requests for more vCPUs: filing one, and what Service Quotas says of those that were filed.

Open requests are limited (one for a quota, two in a region, twenty in an account), so one that is open is
adopted. Service Quotas takes no justification: support asks for it in the case. [Service Quotas API
Reference, RequestServiceQuotaIncrease; Service Quotas User Guide, "Quotas for Service Quotas"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from clock import Clock
from providers.aws.api import Api
from providers.aws.quota_table import is_known
from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing, ReviewState

SERVICE = "ec2"
ALREADY_OPEN = "ResourceAlreadyExistsException"
NOTHING_APPLIED = "NoSuchResourceException"
REMEMBERED = timedelta(days=30)
"""How long a decided request is listed."""

# CASE_CLOSED says nothing of the outcome. [Service Quotas API Reference, RequestedServiceQuotaChange]
STATES = {
    "PENDING": ReviewState.FILED,
    "CASE_OPENED": ReviewState.IN_REVIEW,
    "APPROVED": ReviewState.APPROVED,
    "DENIED": ReviewState.DENIED,
    "NOT_APPROVED": ReviewState.DENIED,
    "INVALID_REQUEST": ReviewState.DENIED,
    "CASE_CLOSED": ReviewState.CLOSED,
}
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
OPEN = frozenset({ReviewState.FILED, ReviewState.IN_REVIEW})


def read_requests(api: Api, region: str, clock: Clock) -> QuotaRequestListing:
    """The region's requests, newest first, in one paged reading. Raises ProviderError."""
    oldest = clock.now() - REMEMBERED
    return QuotaRequestListing(tuple(one for one in _listed(api, region) if _recent(one, oldest)))


def _recent(one: CloudQuotaRequest, oldest: datetime) -> bool:
    return one.state in OPEN or one.changed_at is None or one.changed_at >= oldest


def _listed(api: Api, region: str) -> list[CloudQuotaRequest]:
    changes = api.pages(
        "service-quotas",
        region,
        "list_requested_service_quota_change_history",
        "RequestedQuotas",
        ServiceCode=SERVICE,
        MaxResults=100,
    )
    found = [parse(change, region) for change in changes if is_known(change)]
    return sorted(found, key=lambda one: one.filed_at or _LONG_AGO, reverse=True)


def parse(change: Mapping[str, Any], region: str) -> CloudQuotaRequest:
    """A RequestedServiceQuotaChange. What was granted is told only of one that was approved."""
    state = STATES.get(change.get("Status", ""), ReviewState.UNKNOWN)
    wanted = change.get("DesiredValue")
    requested = None if wanted is None else float(wanted)
    case = change.get("CaseId")
    told = f"{change.get('QuotaName', change['QuotaCode'])}: {change.get('Status', 'no status')}"
    return CloudQuotaRequest(
        provider_id=change["Id"],
        key=change["QuotaCode"],
        region=region,
        state=state,
        requested=requested,
        granted=requested if state is ReviewState.APPROVED else None,
        filed_at=change.get("Created"),
        changed_at=change.get("LastUpdated"),
        detail=f"{told}, support case {case}" if case else told,
    )


def file(api: Api, increase: QuotaIncrease) -> CloudQuotaRequest:
    """File it, or adopt the open one. Sent once: where the answer is lost or the quota turns out to have an
    open request, it is looked for, and only if there is none the error stands.
    """
    region = increase.region
    if region is None:
        message = f"{increase.key}: EC2's quotas hold per region, and none is named"
        raise ProviderError(ErrorKind.INVALID_REQUEST, message, scope=api.account)
    already = _open(_listed(api, region), increase.key)
    if already is not None:
        return already
    _refuse_pointless(api, region, increase)
    try:
        return parse(_send(api, region, increase), region)
    except ProviderError as error:
        if error.ambiguous or error.code == ALREADY_OPEN:
            return _found(api, region, increase, error)
        raise


def _send(api: Api, region: str, increase: QuotaIncrease) -> Mapping[str, Any]:
    answer = api.write(
        "service-quotas",
        region,
        "request_service_quota_increase",
        launches=True,
        ServiceCode=SERVICE,
        QuotaCode=increase.key,
        DesiredValue=increase.limit,
        SupportCaseAllowed=True,
    )
    change: Mapping[str, Any] = answer["RequestedQuota"]
    return change


def _found(api: Api, region: str, increase: QuotaIncrease, error: ProviderError) -> CloudQuotaRequest:
    try:
        found = _open(_listed(api, region), increase.key)
    except ProviderError:
        raise error from None
    if found is None:
        raise error
    return found


def _open(listed: Iterable[CloudQuotaRequest], key: str) -> CloudQuotaRequest | None:
    return next((one for one in listed if one.key == key and one.state in OPEN), None)


def _refuse_pointless(api: Api, region: str, increase: QuotaIncrease) -> None:
    """Raise ProviderError unless more is asked for than there is, of a quota that can be raised."""
    entry = _entry(api, region, increase.key)
    scope = api.subject(region)
    if entry.get("Adjustable") is False:
        message = f"{increase.key} in {region} cannot be raised"
        raise ProviderError(ErrorKind.UNSUPPORTED, message, scope=scope)
    value = entry.get("Value")
    if entry.get("ErrorReason") or value is None:
        message = f"{increase.key} in {region}: AWS does not tell the limit now, so nothing is asked for"
        raise ProviderError(ErrorKind.TRANSIENT, message, scope=scope)
    if increase.limit <= value:
        message = f"{increase.key} in {region} is {value:g} already; ask for more than that"
        raise ProviderError(ErrorKind.INVALID_REQUEST, message, scope=scope)


def _entry(api: Api, region: str, key: str) -> Mapping[str, Any]:
    """The limit as it is now: the account's own, else the vendor's default."""

    def read(action: str) -> Mapping[str, Any]:
        answer = api.read("service-quotas", region, action, ServiceCode=SERVICE, QuotaCode=key)
        entry: Mapping[str, Any] = answer["Quota"]
        return entry

    try:
        return read("get_service_quota")
    except ProviderError as error:
        if error.code != NOTHING_APPLIED:
            raise
    return read("get_aws_default_service_quota")
