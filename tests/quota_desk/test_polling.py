"""What following costs: one listing a place, however many requests are open, within the vendors' limits."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from providers.memory import Limit, MemoryCloud, MemoryProvider
from providers.quota_requests import QuotaRequestListing
from providers.quotas import QuotaUnit
from providers.vocabulary import Scope
from service.states import QuotaRequestState
from tests.clocks import FakeClock
from tests.loops.conftest import MakeBench
from tests.quota_desk.desk import requests

REGIONS = [f"r-{number}" for number in range(40)]
A_REGION = 5
MINUTE = 60.0

# Calls of one listing of a region (the adapters' own tests count them), and what the vendor allows a minute.
# AWS: a page of 100; 5 a second and Region [Service Quotas User Guide, "Quotas for Service Quotas"].
# Azure: requests and usages; a bucket of 250 reads a region [Azure Resource Manager, "Throttling limits"].
# Google publishes no figure for quotaPreferences: its adapter lists them once a minute for all regions.
ALLOWED = {"aws": (1, 300), "azure": (2, 250)}


class CountingProvider(MemoryProvider):
    """Notes when it is asked for a region's requests."""

    calls: list[tuple[datetime, str]]

    def quota_requests(self, region: str) -> QuotaRequestListing:
        self.calls.append((self._clock.now(), region))
        return super().quota_requests(region)


def test_200_open_requests_over_40_regions_cost_one_listing_a_region_and_interval(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    made = MemoryCloud(clock)
    for region in REGIONS:
        for number in range(A_REGION):
            key = f"q-{number}"
            made.market.set_limit(Limit(key, key, region, QuotaUnit.VCPU, 0, (Scope(),)))
            made.file_by_hand(key, region, 96)
    bench = make_bench()
    provider = CountingProvider("aws", REGIONS, clock, made)
    provider.calls = []
    bench.ctx.providers = {("memory", "aws"): provider}
    bench.ctx.wake("market")
    bench.turn()
    for _ in range(20):
        clock.advance(3 * MINUTE)
        bench.ctx.wake("quota_desk")
        bench.turn()
    assert Counter(row.state for row in requests(bench)) in (
        Counter({QuotaRequestState.IN_REVIEW: 200}),
        Counter({QuotaRequestState.APPROVED: 200}),
    )
    minutes = Counter((at.replace(second=0), region) for at, region in provider.calls)
    assert max(minutes.values()) == 1
    assert all(calls * max(minutes.values()) <= allowed for calls, allowed in ALLOWED.values())
    per_region = Counter(region for _, region in provider.calls)
    assert len(per_region) == 40
    interval = timedelta(seconds=bench.settings.times.poll_quota_requests)
    assert max(per_region.values()) <= timedelta(hours=1) / interval + 1, (
        "no call more than the interval allows"
    )
