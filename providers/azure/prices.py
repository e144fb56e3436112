"""Prices per region and size from Azure's Retail Prices API, which needs no account. A price is the same in
every zone of a region.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from clock import Clock
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.read_retries import ReadRetries
from providers.vocabulary import CapacityType, Scope

if TYPE_CHECKING:
    import ssl

    import httpx

PUBLIC = "https://prices.azure.com"
PATH = "/api/retail/prices"
VERSION = "2023-01-01-preview"
SIZES_PER_QUESTION = 15  # keeps the address under 2,000 characters
PAGES = 100
# USD per hour. What lies outside is a mistake in the list, and unknown: the smallest machine costs a cent,
# the largest a few hundred dollars.
PLAUSIBLE = (0.001, 2_000.0)

PriceKey = tuple[str, CapacityType]
"""Size in lower case, and how it is paid for."""


def classify(rows: Iterable[Mapping[str, Any]], now: datetime) -> dict[PriceKey, float]:
    """USD per hour of Linux machines, whatever the order of rows.

    Left out: Windows and Cloud Services products, Low Priority (Azure Batch), reservations and dev/test,
    prices that are zero, absurd or not yet in force. Of several that remain the primary meter's counts, then
    the newest.
    """
    best: dict[PriceKey, tuple[tuple[bool, datetime, float], float]] = {}
    for row in rows:
        kind = _capacity_type(row)
        since = _time(row.get("effectiveStartDate"))
        if kind is None or since > now:
            continue
        key = (str(row.get("armSkuName") or "").lower(), kind)
        price = float(row["retailPrice"])
        # The price itself last, so that two rows alike in all else give the same answer in any order.
        rank = (bool(row.get("isPrimaryMeterRegion")), since, price)
        if key not in best or rank > best[key][0]:
            best[key] = (rank, price)
    return {key: price for key, (_, price) in best.items()}


def _capacity_type(row: Mapping[str, Any]) -> CapacityType | None:
    """How a row's product is paid for; None if it is not a Linux machine by the hour."""
    product, names = str(row.get("productName") or ""), (row.get("skuName"), row.get("meterName"))
    if (
        row.get("type") != "Consumption"
        or row.get("unitOfMeasure") != "1 Hour"
        or not _plausible(row.get("retailPrice"))
        or " Win" in product  # some rows end in `Srs Win`
        or "Cloud Services" in product
        or "CloudServices" in product
        or any(str(name or "").endswith("Low Priority") for name in names)
    ):
        return None
    if str(row.get("skuName") or "").endswith(" Spot"):
        return CapacityType.SPOT
    return CapacityType.ON_DEMAND


def _plausible(price: Any) -> bool:
    lowest, highest = PLAUSIBLE
    return isinstance(price, int | float) and lowest <= price <= highest


def _time(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@dataclass(slots=True)
class RetailPrices:
    """Reads the API through the account's proxy and authorities. Thread-safe; connections are not kept."""

    config: AccountConfig
    clock: Clock
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _tls: ssl.SSLContext | None = field(default=None, init=False, repr=False)

    def read(self, region: str, sizes: Iterable[str]) -> dict[PriceKey, float]:
        """Prices now in force. ProviderError if any page cannot be read: half a price list misleads."""
        import httpx

        rows: list[Mapping[str, Any]] = []
        try:
            with self._client() as client:
                wanted = sorted(sizes)
                for first in range(0, len(wanted), SIZES_PER_QUESTION):
                    some = wanted[first : first + SIZES_PER_QUESTION]
                    rows.extend(self._rows(client, region, some))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise ProviderError(
                ErrorKind.TRANSIENT,
                f"price list of {region}: {error or type(error).__name__}",
                code="RetailPrices",
                scope=Scope("azure", self.config.name, region),
            ) from error
        return classify(rows, self.clock.now())

    def _client(self) -> httpx.Client:
        import httpx

        config, local = self.config, self.config.endpoint is not None
        return httpx.Client(
            base_url=config.endpoint or PUBLIC,
            timeout=httpx.Timeout(60, connect=10),
            proxy=None if local else config.proxy,
            trust_env=not local,
            verify=self._authorities(),
        )

    def _authorities(self) -> ssl.SSLContext:
        """Read once: reading them takes longer than asking, and all regions ask at once."""
        import ssl

        import httpx

        with self._lock:
            if self._tls is None:
                bundle, local = self.config.ca_bundle, self.config.endpoint is not None
                self._tls = (
                    ssl.create_default_context(cafile=bundle)
                    if bundle
                    else httpx.create_ssl_context(trust_env=not local)
                )
            return self._tls

    def _rows(self, client: httpx.Client, region: str, sizes: Iterable[str]) -> Iterator[Mapping[str, Any]]:
        names = " or ".join(f"armSkuName eq '{size}'" for size in sizes)
        question = {
            "api-version": VERSION,
            "currencyCode": "'USD'",
            "$filter": f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' "
            f"and armRegionName eq '{region}' and ({names})",
        }
        page = self._page(client, PATH, question)
        for _ in range(PAGES):
            yield from page.get("Items") or ()
            following = page.get("NextPageLink")
            if not following:
                return
            page = self._page(client, following, None)
        raise ValueError("the pages do not end")

    def _page(self, client: httpx.Client, address: str, question: dict[str, str] | None) -> Mapping[str, Any]:
        def ask() -> Mapping[str, Any]:
            answer = client.get(address, params=question)
            answer.raise_for_status()
            page: Mapping[str, Any] = answer.json()
            return page

        return ReadRetries(self.clock, passing=_passing)(ask)


def _passing(error: BaseException) -> float | None:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return 0.0 if status == 429 or status >= 500 else None
    return 0.0 if isinstance(error, httpx.TransportError) else None
