"""Asks for more quota through the Cloud Quotas API, and reads what became of it."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from datetime import timedelta

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import preferences
from providers.gcp.calls import Calls
from providers.gcp.preferences import Target
from providers.gcp.quota_api import SERVICE, QuotaApi
from providers.gcp.quota_feed import QuotaFeed
from providers.gcp.quota_index import GLOBAL, Info
from providers.gcp.rest import Json
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing
from providers.vocabulary import Scope

_FRESH = timedelta(minutes=1)
_RECENT = timedelta(days=45)  # decisions older than this are not told any more


class QuotaDesk:
    """The requests of one project. One list of its preferences serves all regions for a minute."""

    def __init__(self, api: QuotaApi, feed: QuotaFeed, calls: Calls, config: AccountConfig) -> None:
        self._api = api
        self._feed = feed
        self._calls = calls
        self._config = config
        self._lock = threading.Lock()
        self._filing = threading.Lock()
        self._known: Sequence[Json] | None = None
        self._failure: ProviderError | None = None
        self._next = -math.inf

    def of_region(self, region: str) -> QuotaRequestListing:
        """Open requests and those decided within some weeks, the project's own included."""
        try:
            known = self._read()
        except ProviderError:
            return QuotaRequestListing((), (SERVICE,))
        oldest = self._calls.clock.now() - _RECENT
        found = [request for item in known if (request := preferences.shown(item, region)) is not None]
        return QuotaRequestListing(
            tuple(request for request in found if request.changed_at is None or request.changed_at >= oldest)
        )

    def file(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        """See Provider.request_quota. A preference that is being decided on is left as it is."""
        region = self._checked(increase)
        with self._filing:
            info = self._info(increase)
            target = Target(info.quota_id, preferences.dimensions_of(increase.key, increase.region))
            before = self._limit(increase, info)
            existing = self._find(target)
            if existing is not None and preferences.is_open(existing):
                return self._shown(existing, region)
            return self._shown(self._send(target, increase, before, existing), region)

    def _send(self, target: Target, increase: QuotaIncrease, before: float, existing: Json | None) -> Json:
        """File once. Whatever the answer was, what the vendor has on its books then is what counts."""
        body = preferences.body(target, increase, before, self._calls.clock.now())
        try:
            if existing is None:
                return self._api.create(target.preference_id, body)
            changed = body | {"name": existing["name"], "etag": existing.get("etag", "")}
            return self._api.update(preferences.id_of(existing), preferences.UPDATE_MASK, changed)
        except ProviderError as error:
            if not (error.ambiguous or error.kind in (ErrorKind.IDEMPOTENCY, ErrorKind.CONFLICT)):
                raise
            found = self._look_for(target, increase, error)
            if found is None:
                raise
            return found
        finally:
            self._forget()

    def _look_for(self, target: Target, increase: QuotaIncrease, error: ProviderError) -> Json | None:
        """What is on the books after an answer in doubt; None if nothing of what was sent is there."""
        self._forget()
        try:
            found = self._find(target)
        except ProviderError:
            raise error from None
        if found is None:
            return None
        asked = str((found.get("quotaConfig") or {}).get("preferredValue"))
        return found if preferences.is_open(found) or asked == str(int(increase.limit)) else None

    def _checked(self, increase: QuotaIncrease) -> str:
        """A region to look at the request from."""
        if increase.region is not None and increase.region not in self._config.regions:
            allowed = ", ".join(self._config.regions)
            raise self._refusal(increase, f"region {increase.region!r} is none of the account's: {allowed}")
        if not increase.contact:
            raise self._refusal(increase, "contact: Google asks for an e-mail address with every increase")
        if increase.limit != int(increase.limit) or increase.limit < 1:
            raise self._refusal(increase, f"limit {increase.limit:g}: expected a whole number above zero")
        return increase.region or next(iter(self._config.regions))

    def _info(self, increase: QuotaIncrease) -> Info:
        reading = self._feed.refresh()
        if reading.failure is not None:
            raise reading.failure
        info = (reading.infos or {}).get(increase.key.partition("/")[0])
        if info is None or info.regional is not (increase.region is not None):
            raise self._refusal(increase, "the project has no such quota")
        if info.adjustable is False:
            text = f"no increase can be asked for: {info.fixed_because or 'not eligible'}"
            raise self._refusal(increase, text, ErrorKind.UNSUPPORTED)
        return info

    def _limit(self, increase: QuotaIncrease, info: Info) -> float:
        """What is there now. Without it nothing is sent: less than it would be taken at once."""
        dimensions = preferences.dimensions_of(increase.key, None)
        limit = info.limit(increase.region or GLOBAL, dimensions)
        if limit is None:
            raise self._refusal(increase, "the limit is not known; nothing was sent", ErrorKind.TRANSIENT)
        if increase.limit <= limit:
            raise self._refusal(increase, f"the limit is {limit:g}; {increase.limit:g} is no increase")
        return limit

    def _read(self) -> Sequence[Json]:
        with self._lock:
            clock = self._calls.clock
            if clock.monotonic() >= self._next:
                self._failure = None
                try:
                    found = self._calls.again(self._api.preferences)
                except ProviderError as error:
                    self._failure = error
                else:
                    if self._known is not None and self._known != found:
                        self._feed.expire()  # what was decided may be in effect already
                    self._known = found
                self._next = clock.monotonic() + _FRESH.total_seconds()
            if self._failure is not None:
                raise self._failure
            return self._known or ()

    def _find(self, target: Target) -> Json | None:
        self._forget()
        return next((item for item in self._read() if target.is_of(item)), None)

    def _forget(self) -> None:
        with self._lock:
            self._next = -math.inf

    def _shown(self, preference: Json, region: str) -> CloudQuotaRequest:
        found = preferences.shown(preference, region)
        if found is None:
            raise ProviderError(ErrorKind.UNKNOWN, "the answer is about another quota", ambiguous=True)
        return found

    def _refusal(
        self, increase: QuotaIncrease, text: str, kind: ErrorKind = ErrorKind.INVALID_REQUEST
    ) -> ProviderError:
        place = f" in {increase.region}" if increase.region else ""
        scope = Scope(provider="gcp", account=self._config.name, region=increase.region)
        return ProviderError(kind, f"{increase.key}{place}: {text}", scope=scope)
