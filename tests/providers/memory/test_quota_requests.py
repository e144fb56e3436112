"""Requests for more quota in the cloud in memory: the common promises, and what a test can script."""

from __future__ import annotations

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.memory import Answer, Limit, MemoryCloud, MemoryProvider
from providers.quota_requests import QuotaIncrease, ReviewState
from providers.quotas import QuotaUnit
from providers.vocabulary import (
    Accelerator,
    CapacityType,
    InstanceType,
    LaunchRequest,
    Offer,
    OfferKey,
    Scope,
)
from tests.clocks import FakeClock
from tests.providers.quota_request_contract import QuotaRequestContract

GPU = InstanceType("gpu-8", "GPU", 96, 64.0, Accelerator("H100", 8, 80))
SPOT = OfferKey("memory", "lab", "north", "north-a", GPU.name, CapacityType.SPOT)


class MemoryDesk:
    region = "north"

    def __init__(self, quota_region: str | None) -> None:
        self.clock = FakeClock()
        self.cloud = MemoryCloud(self.clock)
        self.provider = MemoryProvider("lab", ["north"], self.clock, self.cloud)
        self.quota_key, self.quota_region = "gpus", quota_region
        self.cloud.sell(Offer(SPOT, GPU, 1.0))
        everything = (Scope(),)
        self.cloud.market.set_limit(Limit("gpus", "GPUs", quota_region, QuotaUnit.GPU, 4, everything))

    def answer(self, share: float, after: float, effect_after: float) -> None:
        self.cloud.answer_requests(Answer(after, share, effect_after))

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def drop_next_filing_reply(self) -> None:
        self.cloud.drop_reply("request_quota")

    def file_by_hand(self, limit: float) -> None:
        self.cloud.file_by_hand(self.quota_key, self.quota_region, limit)

    def filings(self) -> int:
        return len(self.cloud.reviews.filed)


@pytest.fixture(params=["north", None], ids=["of_a_region", "of_the_account"])
def desk(request: pytest.FixtureRequest) -> MemoryDesk:
    return MemoryDesk(request.param)


class TestMemoryQuotaRequests(QuotaRequestContract):
    """The common promises."""


def ask(limit: float) -> QuotaIncrease:
    return QuotaIncrease("gpus", "north", limit, "why")


def test_a_silent_vendor_closes_the_request_and_only_the_limit_tells() -> None:
    desk = MemoryDesk("north")
    desk.cloud.answer_requests(Answer(after=60, share=0.5, silent=True))
    desk.provider.request_quota(ask(12))
    desk.clock.advance(61)
    (shown,) = desk.provider.quota_requests("north").requests
    assert (shown.state, shown.granted) == (ReviewState.CLOSED, None)
    assert desk.provider.quotas("north").quotas[0].limit == 8


def test_answers_can_differ_by_quota() -> None:
    desk = MemoryDesk("north")
    desk.cloud.answer_requests(Answer(after=0, share=0), "gpus")
    assert desk.provider.request_quota(ask(12)).state is ReviewState.DENIED


def test_an_unknown_quota_cannot_be_asked_for() -> None:
    with pytest.raises(ProviderError) as refused:
        MemoryDesk("north").provider.request_quota(QuotaIncrease("tpus", "north", 8, "why"))
    assert refused.value.kind is ErrorKind.INVALID_REQUEST


def test_a_limit_over_all_regions_refuses_a_launch_that_its_region_would_allow() -> None:
    desk = MemoryDesk(None)
    desk.cloud.market.set_quota("north", "GPU", CapacityType.SPOT, 96)
    raw = LaunchRequest("t" * 32, SPOT, 1, "#cloud-config\n", {}, 10)
    with pytest.raises(ProviderError) as refused:
        desk.provider.launch(desk.provider.prepare(raw))
    assert refused.value.kind is ErrorKind.QUOTA
    assert refused.value.scope == Scope("memory", "lab")
