"""Reads the quotas that gate what a region offers: the region's, the project's, and those of Cloud Quotas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from providers.config import AccountConfig
from providers.errors import ProviderError
from providers.gcp import quota_metrics as metrics
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.offers import Offers, Sold
from providers.gcp.quota_feed import QuotaFeed
from providers.gcp.quota_rows import Metrics, Sources, listing, regional_rows, with_usage
from providers.gcp.quota_usage import Usage, UsageReader, with_reserved
from providers.gcp.reservations import Reservations
from providers.quotas import QuotaListing


class Quotas:
    """The quotas of one account."""

    def __init__(
        self,
        clients: Clients,
        calls: Calls,
        offers: Offers,
        reservations: Reservations,
        feed: QuotaFeed,
        config: AccountConfig,
    ) -> None:
        self._reservations = reservations
        self._clients = clients
        self._calls = calls
        self._offers = offers
        self._config = config
        self._project = str(config.project)
        self._feed = feed
        self._usage = UsageReader(clients, calls, config.name, self._project)

    def of_region(self, region: str) -> QuotaListing:
        """Raises ProviderError if the region cannot be read."""
        sold = self._offers.sold(region)
        families = {family for family, _ in sold.kinds}
        reading = self._feed.read() if families & metrics.GPU_FAMILIES - metrics.OWN_METRIC else None
        sources = Sources(
            self._config.name,
            region,
            self._calls.clock.now(),
            sold.kinds,
            self._region_metrics(region),
            self._project_metrics(),
            reading,
            sold.missing,
        )
        rows = regional_rows(sources)
        if any(row.found.counts and row.found.limit is not None for row in rows):
            usage = self._counted(region, sold)
            rows = [with_usage(row, usage) for row in rows]
            return listing(sources, rows, usage)
        return listing(sources, rows, Usage())

    def _counted(self, region: str, sold: Sold) -> Usage:
        usage = self._usage.read(region, sold.sizes)
        try:
            unused = self._reservations.held(region)
        except ProviderError:
            return Usage(usage.gpus, (*usage.unread, "reservations"))
        return with_reserved(usage, unused, sold.sizes)

    def _region_metrics(self, region: str) -> Metrics | None:
        from google.cloud.compute_v1.types import GetRegionRequest

        request = GetRegionRequest(project=self._project, region=region)
        found: Any = self._calls.read(self._clients.regions.get, request, Where(self._config.name, region))
        # Set where quotas could not be looked up; the list is then empty or in part (API: Region).
        return None if "quota_status_warning" in found else _metrics(found.quotas)

    def _project_metrics(self) -> Metrics | None:
        from google.cloud.compute_v1.types import GetProjectRequest

        request = GetProjectRequest(project=self._project)
        try:
            found: Any = self._calls.read(self._clients.projects.get, request, Where(self._config.name))
        except ProviderError:
            return None
        return _metrics(found.quotas)


def _metrics(quotas: Iterable[Any]) -> Metrics:
    return {quota.metric: (quota.limit, quota.usage) for quota in quotas}
