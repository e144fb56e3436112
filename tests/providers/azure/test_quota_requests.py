"""Requests for more quota on Azure: filed once, adopted, followed in one reading per region."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import QuotaIncrease, ReviewState
from sandbox.quota_reviews import ReviewRule
from tests.providers.azure.bench import AzureBench
from tests.providers.azure.bench import bench as opened
from tests.providers.quota_request_contract import QuotaRequestContract

T4 = "Standard NCASv3_T4 Family"


class AzureDesk:
    """The region's spot cores, which every subscription has."""

    region = "eastus"
    quota_key = "lowPriorityCores"
    quota_region = "eastus"

    def __init__(self, bench: AzureBench) -> None:
        self._bench = bench
        self.provider = bench.provider
        self._by_hand = 0

    def answer(self, share: float, after: float, effect_after: float) -> None:
        verdict = "approved" if share == 1 else "partly_granted" if share else "denied"
        rule = {
            "provider": "azure",
            "verdict": verdict,
            "taken_up": min(60.0, after),
            "decided": after,
            "takes_effect": effect_after,
        }
        shares = {"share": share} if verdict == "partly_granted" else {}
        self._bench.cloud.world.set_review(ReviewRule.model_validate(rule | shares))

    def advance(self, seconds: float) -> None:
        self._bench.advance(seconds)

    def drop_next_filing_reply(self) -> None:
        self._bench.cloud.fault("Quota_CreateOrUpdate", "drop_reply")

    def file_by_hand(self, limit: float) -> None:
        self._by_hand += 1
        self._bench.cloud.world.file_quota_request(
            "azure", f"by-hand-{self._by_hand}", region="eastus", name=self.quota_key, wanted=limit
        )

    def filings(self) -> int:
        found = self._bench.cloud.world.quota_requests("azure")
        return len([one for one in found if (one.region, one.name) == ("eastus", self.quota_key)])


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


@pytest.fixture
def desk(bench: AzureBench) -> AzureDesk:
    return AzureDesk(bench)


class TestAzure(QuotaRequestContract):
    """The whole contract."""


def ask(bench: AzureBench, key: str, limit: float, region: str | None = "eastus") -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        bench.provider.request_quota(QuotaIncrease(key, region, limit, "why"))
    assert bench.cloud.world.quota_requests("azure") == []
    return caught.value


def test_a_family_with_blanks_in_its_name_is_asked_for_by_any_spelling(bench: AzureBench) -> None:
    filed = bench.provider.request_quota(QuotaIncrease("standardNCASv3_T4Family", "eastus", 2000, "why"))
    assert (filed.key, filed.requested, filed.state) == (T4, 2000, ReviewState.FILED)
    assert [one.name for one in bench.cloud.world.quota_requests("azure")] == [T4]


@pytest.mark.parametrize(
    ("key", "limit", "region", "kind", "said"),
    [
        ("cores", 4000, "eastus", ErrorKind.INVALID_REQUEST, "the limit is 4000"),
        ("cores", 4000.5, "eastus", ErrorKind.INVALID_REQUEST, "whole number"),
        ("nothingOfTheKind", 10, "eastus", ErrorKind.INVALID_REQUEST, "no such quota"),
        ("cores", 9000, "marseast", ErrorKind.INVALID_REQUEST, "eastus, westeurope"),
        ("cores", 9000, None, ErrorKind.INVALID_REQUEST, "eastus, westeurope"),
        ("virtualMachines", 99000, "eastus", ErrorKind.UNSUPPORTED, "support ticket"),
        ("IPv4StandardSkuPublicIpAddresses", 2000, "eastus", ErrorKind.UNSUPPORTED, "portal"),
    ],
)
def test_what_cannot_be_asked_for_is_said_and_not_sent(
    bench: AzureBench, key: str, limit: float, region: str | None, kind: ErrorKind, said: str
) -> None:
    error = ask(bench, key, limit, region)
    assert (error.kind, said in str(error), error.ambiguous) == (kind, True, False)


@pytest.mark.parametrize("call", ["Usage_List", "QuotaRequestStatus_List", "Quota_Get"])
def test_nothing_is_sent_while_it_is_not_known_what_is_there(bench: AzureBench, call: str) -> None:
    bench.cloud.fault(call, "error", code="AuthorizationFailed", http_status=403, times=None)
    error = ask(bench, "cores", 9000)
    assert (error.kind, error.ambiguous) == (ErrorKind.AUTH, False)


def test_a_refusal_is_no_doubt_and_a_broken_answer_is(bench: AzureBench) -> None:
    bench.cloud.fault("Quota_CreateOrUpdate", "error", code="AuthorizationFailed", http_status=403)
    assert not ask(bench, "cores", 9000).ambiguous
    bench.cloud.fault("Quota_CreateOrUpdate", "error", code="InternalServerError", http_status=500)
    assert ask(bench, "cores", 9000).ambiguous
    assert bench.cloud.calls()["Quota_CreateOrUpdate"] == 2


def test_a_request_of_another_region_or_quota_is_not_adopted(bench: AzureBench) -> None:
    first = bench.provider.request_quota(QuotaIncrease("cores", "eastus", 9000, "why"))
    second = bench.provider.request_quota(QuotaIncrease("cores", "westeurope", 9000, "why"))
    third = bench.provider.request_quota(QuotaIncrease(T4, "eastus", 9000, "why"))
    assert len({first.provider_id, second.provider_id, third.provider_id}) == 3


def test_all_requests_of_a_region_are_read_in_pages_and_never_one_by_one(bench: AzureBench) -> None:
    for number in range(150):
        bench.cloud.world.file_quota_request(
            "azure", f"r{number}", region="eastus", name="cores", wanted=5000 + number
        )
    listing = bench.provider.quota_requests("eastus")
    assert (len(listing.requests), listing.incomplete) == (150, ())
    assert bench.provider.quota_requests("westeurope").requests == ()
    calls = bench.cloud.calls()
    assert (calls["QuotaRequestStatus_List"], calls.get("QuotaRequestStatus_Get", 0)) == (3, 0)
    assert calls["Usage_List"] == 1


def test_what_was_decided_long_ago_is_not_told_any_more_and_what_is_open_is(bench: AzureBench) -> None:
    world = bench.cloud.world
    never = {"provider": "azure", "name": "cores", "taken_up": 0, "decided": 99_000_000}
    world.set_review(ReviewRule.model_validate(never))
    world.file_quota_request("azure", "old", region="eastus", name=T4, wanted=5000)
    world.file_quota_request("azure", "open", region="eastus", name="cores", wanted=5000)
    bench.advance(50 * 86_400)
    assert [one.provider_id for one in bench.provider.quota_requests("eastus").requests] == ["open"]


def test_requests_that_cannot_be_read_are_named_and_none_is_missing_by_that(bench: AzureBench) -> None:
    bench.cloud.fault("QuotaRequestStatus_List", "error", code="AuthorizationFailed", http_status=403)
    listing = bench.provider.quota_requests("eastus")
    assert listing.requests == ()
    assert "AuthorizationFailed" in listing.incomplete[0]


def test_a_denial_tells_azures_reason(bench: AzureBench) -> None:
    world = bench.cloud.world
    world.set_review(ReviewRule.model_validate({"provider": "azure", "verdict": "denied"}))
    bench.provider.request_quota(QuotaIncrease("cores", "eastus", 9000, "why"))
    bench.advance(7200)
    (shown,) = bench.provider.quota_requests("eastus").requests
    assert (shown.state, shown.granted) == (ReviewState.DENIED, None)
    assert shown.detail.startswith("ContactSupport: ")
