"""Reads the project's limits from the Cloud Quotas API."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.quota_api import QuotaApi
from providers.gcp.quota_index import Info, read

_FRESH = timedelta(minutes=15)
_RETRY = timedelta(minutes=2)
_REFUSED = timedelta(minutes=15)  # an API that is off or a permission that lacks is not mended in a minute


@dataclass(frozen=True, slots=True)
class Reading:
    """Quotas by metric and when they were read; None and the reason if they could not be."""

    infos: Mapping[str, Info] | None
    at: datetime
    failure: ProviderError | None = None


class QuotaFeed:
    """One list of the project's quotas serves all its regions for a quarter of an hour."""

    def __init__(self, api: QuotaApi, calls: Calls, config: AccountConfig) -> None:
        self._api = api
        self._calls = calls
        self._config = config
        self._lock = threading.Lock()
        self._reading: Reading | None = None
        self._next = 0.0

    def read(self) -> Reading:
        """The newest list; never raises."""
        clock = self._calls.clock
        with self._lock:
            if self._reading is not None and clock.monotonic() < self._next:
                return self._reading
            try:
                infos = self._calls.again(self._fetch)
            except ProviderError as error:
                self._reading = Reading(None, clock.now(), error)
                refused = error.kind in (ErrorKind.AUTH, ErrorKind.ACCOUNT_BLOCKED)
                wait = _REFUSED if refused else _RETRY
            else:
                self._reading = Reading(infos, clock.now())
                wait = _FRESH
            self._next = clock.monotonic() + wait.total_seconds()
            return self._reading

    def refresh(self) -> Reading:
        """The list as it is now."""
        self.expire()
        return self.read()

    def expire(self) -> None:
        """Read anew at the next call: a limit is known to have moved."""
        with self._lock:
            self._next = 0.0

    def _fetch(self) -> dict[str, Info]:
        return read(self._api.infos(), frozenset(self._config.regions))
