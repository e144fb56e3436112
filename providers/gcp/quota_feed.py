"""Reads the project's GPU limits from the Cloud Quotas API."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_answer, of_exception
from providers.gcp.quota_index import Info, read

SERVICE = "cloudquotas.googleapis.com"

_BASE = f"https://{SERVICE}"
_FRESH = timedelta(minutes=15)
_RETRY = timedelta(minutes=2)
_REFUSED = timedelta(minutes=15)  # an API that is off or a permission that lacks is not mended in a minute
_MOST_PAGES = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """Quotas by metric and when they were read; None and the reason if they could not be."""

    infos: Mapping[str, Info] | None
    at: datetime
    failure: ProviderError | None = None


class QuotaFeed:
    """One list of the project's quotas serves all its regions for a quarter of an hour."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig) -> None:
        self._clients = clients
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

    def _fetch(self) -> dict[str, Info]:
        infos: dict[str, Info] = {}
        regions = frozenset(self._config.regions)
        try:
            for page in self._pages():
                infos |= read(page.get("quotaInfos") or (), regions)
        except Exception as error:
            raise of_exception(error, Where(self._config.name), self._calls.clock.now()) from error
        return infos

    def _pages(self) -> Iterator[Mapping[str, Any]]:
        import orjson

        parent = f"projects/{self._config.project}/locations/global/services/compute.googleapis.com"
        path = f"/v1/{parent}/quotaInfos"
        url = (self._config.endpoint or _BASE).rstrip("/") + path
        headers = self._clients.authorization(_BASE + path)
        token = ""
        for _ in range(_MOST_PAGES):
            params = {"pageToken": token} if token else {}
            answer = self._clients.http.get(url, params=params, headers=headers)
            if answer.status_code != 200:
                where, now = Where(self._config.name), self._calls.clock.now()
                raise of_answer(answer.status_code, answer.content, where, now)
            page = orjson.loads(answer.content)
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return
        raise ProviderError(ErrorKind.UNKNOWN, f"the list of quotas has more than {_MOST_PAGES} pages")
