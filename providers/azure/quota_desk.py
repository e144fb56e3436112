"""Asking Azure for more quota through Microsoft.Quota, and reading what became of it.

Source: the REST reference of Microsoft.Quota ("Quota - Create Or Update", "Quota Request Status - List": the
requests of a year, those of the portal among them). A limit is asked for as such, not as a difference. Azure
says that a request has succeeded, not how much it gave: only the limit itself shows that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from clock import Clock
from providers.azure.arm import Arm
from providers.azure.errors import family_key
from providers.azure.quotas import Quotas, counts_addresses
from providers.azure.versions import QUOTA
from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing, ReviewState
from providers.vocabulary import Scope

Limits = Mapping[str, tuple[str, float | None]]
"""Squeezed key -> (key as the usages spell it, limit)."""

RECENT = timedelta(days=45)  # decided requests that are older are not told any more
SLACK = timedelta(minutes=2)  # how far Azure's clock may be behind ours

_STATES = {
    "accepted": ReviewState.FILED,
    "inprogress": ReviewState.IN_REVIEW,
    "failed": ReviewState.DENIED,
    "invalid": ReviewState.DENIED,
}
_OPEN = frozenset({ReviewState.FILED, ReviewState.IN_REVIEW})


class QuotaDesk:
    """One subscription's requests. Files one at a time, so that two callers cannot both find nothing open."""

    def __init__(self, arm: Arm, quotas: Quotas, clock: Clock) -> None:
        self._arm = arm
        self._quotas = quotas
        self._clock = clock
        self._filing = threading.Lock()

    def listing(self, region: str) -> QuotaRequestListing:
        """Open requests, and those of the last weeks; what cannot be read is named with the reason."""
        try:
            found = self._read(region)
        except ProviderError as error:
            return QuotaRequestListing((), (f"quota requests of {region} ({error})",))
        oldest = self._clock.now() - RECENT
        told = [one for one in found if one.state in _OPEN or one.filed_at is None or one.filed_at >= oldest]
        return QuotaRequestListing(tuple(told))

    def file(self, increase: QuotaIncrease, regions: Sequence[str]) -> CloudQuotaRequest:
        """See Provider.request_quota."""
        region = increase.region
        if region is None or region not in regions:
            raise self._refused(increase, f"region is none of the account's: {', '.join(regions)}")
        if increase.limit != int(increase.limit):
            raise self._refused(increase, f"limit {increase.limit:g}: expected a whole number")
        with self._filing:
            limits = self._quotas.limits(region)
            key = self._checked(increase, limits)
            if open_one := _open_request(self._read(region, limits), key):
                return open_one
            self._must_be_applicable(increase, region, key)
            return self._send(increase, region, key)

    def _read(self, region: str, limits: Limits | None = None) -> list[CloudQuotaRequest]:
        rows = self._arm.pages(f"{self._scope(region)}/quotaRequests", QUOTA)
        known = self._quotas.limits(region) if limits is None and rows else limits or {}
        return [one for row in rows for one in shown(row, region, known)]

    def _checked(self, increase: QuotaIncrease, limits: Limits) -> str:
        """The key as Azure spells it, if what is asked for is more than what is there."""
        key, limit = limits.get(family_key(increase.key), ("", None))
        if counts_addresses(increase.key):
            text = "ask for more public addresses in the Azure portal, or do without (public_address)"
            raise self._refused(increase, text, ErrorKind.UNSUPPORTED)
        if not key:
            raise self._refused(increase, "the region has no such quota")
        if limit is None:
            text = "the limit is not known, so nothing was sent: less than it would be taken at once"
            raise self._refused(increase, text, ErrorKind.TRANSIENT)
        if increase.limit <= limit:
            raise self._refused(increase, f"the limit is {limit:g}; {increase.limit:g} is no increase")
        return key

    def _must_be_applicable(self, increase: QuotaIncrease, region: str, key: str) -> None:
        found = self._arm.get(f"{self._scope(region)}/quotas/{quote(key)}", QUOTA)
        if (found.get("properties") or {}).get("isQuotaApplicable") is False:
            text = "Azure takes no requests for it: open a support ticket"
            raise self._refused(increase, text, ErrorKind.UNSUPPORTED)

    def _send(self, increase: QuotaIncrease, region: str, key: str) -> CloudQuotaRequest:
        """File once. What Azure has on its books afterwards is what counts."""
        body = {
            "properties": {
                "limit": {"limitObjectType": "LimitValue", "value": int(increase.limit)},
                "name": {"value": key},
            }
        }
        started = self._clock.now()
        path = f"{self._scope(region)}/quotas/{quote(key)}"
        try:
            _, where = self._arm.put(path, QUOTA, body, region=region)
        except ProviderError as error:
            if not error.ambiguous:
                raise
            found = self._look_for(region, key, increase, started)
            if found is None:
                raise
            return found
        identity = (where or "").partition("?")[0].rpartition("/")[2]
        found = self._look_for(region, key, increase, started)
        return found or CloudQuotaRequest(
            identity, key, region, ReviewState.FILED, increase.limit, filed_at=started
        )

    def _look_for(
        self, region: str, key: str, increase: QuotaIncrease, started: datetime
    ) -> CloudQuotaRequest | None:
        """What was filed just now, if the books show it already and can be read."""
        try:
            found = self._read(region)
        except ProviderError:
            return None
        return _open_request(found, key) or next(
            (
                one
                for one in found
                if one.key == key
                and one.requested == increase.limit
                and one.filed_at is not None
                and one.filed_at >= started - SLACK
            ),
            None,
        )

    def _scope(self, region: str) -> str:
        home = f"{self._arm.subscription}/providers/Microsoft.Compute/locations/{region}"
        return f"{home}/providers/Microsoft.Quota"

    def _refused(
        self, increase: QuotaIncrease, text: str, kind: ErrorKind = ErrorKind.INVALID_REQUEST
    ) -> ProviderError:
        scope = Scope("azure", self._arm.account, increase.region)
        return ProviderError(
            kind, f"{increase.key} in {increase.region}: {text}", code="QuotaRequest", scope=scope
        )


def shown(row: Mapping[str, Any], region: str, limits: Limits) -> Iterator[CloudQuotaRequest]:
    """A request's parts, one for each quota that it asks for."""
    facts = row.get("properties") or {}
    parts = facts.get("value") or ()
    for part in parts:
        name = str((part.get("name") or {}).get("value") or "")
        key, limit = limits.get(family_key(name), (name, None))
        wanted = _number((part.get("limit") or {}).get("value"))
        said = str(part.get("provisioningState") or facts.get("provisioningState") or "").lower()
        state = _state(said, wanted, limit)
        identity = str(row.get("name") or "")
        yield CloudQuotaRequest(
            provider_id=identity if len(parts) == 1 else f"{identity}/{part.get('subRequestId') or key}",
            key=key,
            region=region,
            state=state,
            requested=wanted,
            granted=wanted if state is ReviewState.APPROVED else None,
            filed_at=_time(facts.get("requestSubmitTime")),
            detail=_detail(facts, part),
        )


def _state(said: str, wanted: float | None, limit: float | None) -> ReviewState:
    """A request that has succeeded is approved once the limit is what it asked for. Until then it is over
    without a word about how much was given, and when.
    """
    if said != "succeeded":
        return _STATES.get(said, ReviewState.UNKNOWN)
    reached = wanted is not None and limit is not None and limit >= wanted
    return ReviewState.APPROVED if reached else ReviewState.CLOSED


def _detail(facts: Mapping[str, Any], part: Mapping[str, Any]) -> str:
    error = facts.get("error") or {}
    texts = (error.get("code"), error.get("message") or part.get("message") or facts.get("message"))
    return ": ".join(str(text) for text in texts if text)


def _open_request(found: Sequence[CloudQuotaRequest], key: str) -> CloudQuotaRequest | None:
    return next((one for one in found if one.key == key and one.state in _OPEN), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _time(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
