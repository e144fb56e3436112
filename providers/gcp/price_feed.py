"""Keeps the account's price book fresh from the Cloud Billing catalogue."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clock import Clock
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import BILLING, Clients
from providers.gcp.errors import Where, of_answer, of_exception
from providers.gcp.prices import SERVICE, PriceBook

_FRESH = timedelta(hours=6)  # list prices change at most daily
_RETRY = timedelta(minutes=5)
_PAGE = 1000  # of 5000 at most: a page is some MB of JSON, and one is held at a time
_MOST_PAGES = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """A price book and when it was read; `failure` is why the last try brought none."""

    book: PriceBook | None
    at: datetime | None
    failure: ProviderError | None = None


class PriceFeed:
    """Reads the catalogue every six hours, however many regions ask; after a failure again in 5 min."""

    def __init__(self, clients: Clients, calls: Calls, account: str, regions: frozenset[str]) -> None:
        self._clients = clients
        self._calls = calls
        self._account = account
        self._regions = regions
        self._lock = threading.Lock()
        self._reading = Reading(None, None)
        self._next = 0.0

    @property
    def _clock(self) -> Clock:
        return self._calls.clock

    def read(self) -> Reading:
        """The newest prices; an older book stays in use while the catalogue cannot be read."""
        with self._lock:
            if self._clock.monotonic() < self._next:
                return self._reading
            try:
                book = self._calls.again(self._fetch)
            except ProviderError as error:
                self._reading = Reading(self._reading.book, self._reading.at, error)
                wait = _RETRY
            else:
                self._reading = Reading(book, self._clock.now())
                wait = _FRESH
            self._next = self._clock.monotonic() + wait.total_seconds()
            return self._reading

    def _fetch(self) -> PriceBook:
        book = PriceBook(self._regions)
        try:
            for page in self._pages():
                book.add(page.get("skus", ()))
        except Exception as error:
            raise of_exception(error, Where(self._account), self._clock.now()) from error
        return book

    def _pages(self) -> Iterator[Mapping[str, Any]]:
        import orjson

        path = f"/v1/services/{SERVICE}/skus"
        headers = self._clients.authorization(BILLING + path)
        token = ""
        for _ in range(_MOST_PAGES):
            params = {"currencyCode": "USD", "pageSize": str(_PAGE), "pageToken": token}
            answer = self._clients.http.get(path, params=params, headers=headers)
            if answer.status_code != 200:
                raise of_answer(answer.status_code, answer.content, Where(self._account), self._clock.now())
            page = orjson.loads(answer.content)
            yield page
            token = page.get("nextPageToken", "")
            if not token:
                return
        raise ProviderError(ErrorKind.UNKNOWN, f"the price catalogue has more than {_MOST_PAGES} pages")
