"""Asking for more quota: the promises of every provider, and what is Cloud Quotas' own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp.adapter import GcpProvider
from providers.quota_requests import QuotaIncrease, ReviewState
from sandbox.faces.gce import cloudquotas
from sandbox.faces.gce.preferences import PREFIX
from sandbox.quota_reviews import ReviewRule
from sandbox.scenario import QuotaRule
from tests.clocks import FakeClock
from tests.providers.gcp.bench import REGION, account
from tests.providers.quota_request_contract import QuotaRequestContract, increase, limit_of
from tests.sandbox.gce import PROJECT, LocalGce, local_gce

PREFERENCES = f"/v1/projects/{PROJECT}/locations/global/quotaPreferences"
H200 = "GPUS_PER_GPU_FAMILY/NVIDIA_H200"
HOUR = 3600.0


class GceDesk:
    """See tests.providers.quota_request_contract.Desk. The provider's clock runs ahead of the cloud's, so
    that what it remembers grows old.
    """

    region = REGION

    def __init__(self, gce: LocalGce, key: str, **settings: Any) -> None:
        self.gce = gce
        self.quota_key = key
        self.quota_region = None if key.endswith("_ALL_REGIONS") else REGION
        self.clock = FakeClock(waits_advance=True)
        regions = settings.pop("regions", {REGION: {}, "us-east4": {}})
        settings = {"regions": regions, **settings}
        self.provider = GcpProvider(account(gce.url, **settings), self.clock, read_timeout=5, write_timeout=5)

    def answer(self, share: float, after: float, effect_after: float) -> None:
        verdict = "denied" if share == 0 else "approved" if share == 1 else "partly_granted"
        rule: dict[str, Any] = {"provider": "gcp", "verdict": verdict, "taken_up": 0, "decided": after}
        rule |= {"takes_effect": effect_after} | ({"share": share} if verdict == "partly_granted" else {})
        self.gce.world.set_review(ReviewRule.model_validate(rule))

    def advance(self, seconds: float) -> None:
        self.gce.advance(seconds)
        self.clock.advance(seconds + HOUR)

    def drop_next_filing_reply(self) -> None:
        self.gce.fault(f"{PREFIX}.create", "drop_reply")

    def file_by_hand(self, limit: float) -> None:
        metric, _, family = self.quota_key.partition("/")
        everywhere = self.quota_region is None
        body = {
            "service": "compute.googleapis.com",
            "quotaId": metric.replace("_", "-") + ("-per-project" if everywhere else "-per-project-region"),
            "dimensions": ({} if everywhere else {"region": REGION})
            | ({"gpu_family": family} if family else {}),
            "quotaConfig": {"preferredValue": str(int(limit))},
            "contactEmail": "someone@example.com",
        }
        assert httpx.post(self.gce.url + PREFERENCES, json=body).status_code == 200

    def filings(self) -> int:
        events = self.gce.world.ledger()["events"]
        return sum(1 for e in events if e["what"] == "quota_requested" and e["name"] == self.quota_key)


@pytest.fixture(params=["NVIDIA_L4_GPUS", H200, "PREEMPTIBLE_NVIDIA_H100_GPUS", "GPUS_ALL_REGIONS"])
def desk(request: pytest.FixtureRequest) -> Iterator[GceDesk]:
    quotas = [{"provider": "gcp", "region": "global", "name": "GPUS_ALL_REGIONS", "limit": 64}]
    quotas += [{"provider": "gcp", "region": REGION, "name": "PREEMPTIBLE_NVIDIA_H200_GPUS", "limit": 0}]
    with local_gce({"quotas": quotas}) as gce:
        made = GceDesk(gce, request.param)
        yield made
        made.provider.close()


class TestQuotaRequests(QuotaRequestContract):
    """The whole contract, for a limit that regions tell, one by GPU family, a Spot one and a project's."""


@pytest.fixture
def h200() -> Iterator[GceDesk]:
    with local_gce() as gce:
        made = GceDesk(gce, H200)
        yield made
        made.provider.close()


def asked(desk: GceDesk, limit: float) -> QuotaIncrease:
    return QuotaIncrease(desk.quota_key, REGION, limit, "To train.", contact="ops@example.com")


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"contact": None}, ErrorKind.INVALID_REQUEST, "an e-mail address"),
        ({"limit": 130.5}, ErrorKind.INVALID_REQUEST, "a whole number"),
        ({"limit": 128}, ErrorKind.INVALID_REQUEST, "the limit is 128; 128 is no increase"),
        ({"limit": 8}, ErrorKind.INVALID_REQUEST, "is no increase"),
        ({"region": "europe-west4"}, ErrorKind.INVALID_REQUEST, "none of the account's: us-central1"),
        ({"region": None}, ErrorKind.INVALID_REQUEST, "no such quota"),
        ({"key": "NVIDIA_Z9_GPUS"}, ErrorKind.INVALID_REQUEST, "no such quota"),
    ],
)
def test_what_cannot_be_asked_for_is_said_and_not_sent(
    h200: GceDesk, changes: dict[str, Any], kind: ErrorKind, said: str
) -> None:
    with pytest.raises(ProviderError, match=said) as caught:
        h200.provider.request_quota(replace(asked(h200, 192), **changes))
    assert caught.value.kind is kind
    assert not caught.value.ambiguous
    assert f"{PREFIX}.create" not in h200.gce.calls()


def test_a_limit_that_cannot_be_read_is_not_asked_to_be_more(h200: GceDesk) -> None:
    h200.gce.fault(cloudquotas.METHOD, "error", code="forbidden", http_status=403, times=None)
    with pytest.raises(ProviderError) as caught:
        h200.provider.request_quota(asked(h200, 192))
    assert caught.value.kind is ErrorKind.AUTH
    assert h200.filings() == 0


def test_a_filing_is_sent_once_even_where_the_vendor_is_in_trouble(h200: GceDesk) -> None:
    h200.gce.fault(f"{PREFIX}.create", "error", http_status=503, times=None)
    with pytest.raises(ProviderError) as caught:
        h200.provider.request_quota(asked(h200, 192))
    assert caught.value.ambiguous
    assert h200.gce.calls()[f"{PREFIX}.create"] == 1


def test_a_lost_answer_is_looked_for_before_anything_is_said(h200: GceDesk) -> None:
    h200.answer(1, HOUR, 0)
    h200.drop_next_filing_reply()
    filed = h200.provider.request_quota(asked(h200, 192))
    assert (filed.requested, filed.state) == (192, ReviewState.IN_REVIEW)


def test_a_refused_filing_is_an_error_in_the_vendors_words(h200: GceDesk) -> None:
    h200.gce.fault(f"{PREFIX}.create", "error", code="forbidden", http_status=403, message="no permission")
    with pytest.raises(ProviderError, match="no permission") as caught:
        h200.provider.request_quota(asked(h200, 192))
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.AUTH, False)


def test_after_a_denial_the_preference_is_changed_and_shows_the_new_request_alone(h200: GceDesk) -> None:
    h200.answer(0, 60, 0)
    first = h200.provider.request_quota(asked(h200, 192))
    h200.advance(120)
    h200.answer(1, HOUR, 0)
    second = h200.provider.request_quota(asked(h200, 160))
    (shown,) = h200.provider.quota_requests(REGION).requests
    assert shown == second
    assert first.provider_id != second.provider_id
    assert first.provider_id.partition("@")[0] == second.provider_id.partition("@")[0]
    assert h200.gce.calls()[f"{PREFIX}.patch"] == 1


def test_one_read_serves_all_regions_for_a_minute(h200: GceDesk) -> None:
    for _ in range(3):
        for region in (REGION, "us-east4"):
            assert not h200.provider.quota_requests(region).incomplete
    assert h200.gce.calls()[f"{PREFIX}.list"] == 1
    h200.clock.advance(61)
    h200.provider.quota_requests(REGION)
    assert h200.gce.calls()[f"{PREFIX}.list"] == 2


def test_requests_that_cannot_be_read_are_said_to_be_and_not_asked_for_by_every_region(h200: GceDesk) -> None:
    h200.gce.fault(f"{PREFIX}.list", "error", code="SERVICE_DISABLED", http_status=403, times=None)
    for region in (REGION, "us-east4"):
        assert h200.provider.quota_requests(region).incomplete == ("cloudquotas.googleapis.com",)
    assert h200.gce.calls()[f"{PREFIX}.list"] == 1


def test_a_request_is_shown_in_its_own_region_and_forgotten_after_some_weeks(h200: GceDesk) -> None:
    h200.answer(1, 60, 0)
    h200.provider.request_quota(increase(h200, 192))
    assert not h200.provider.quota_requests("us-east4").requests
    h200.advance(120)
    assert h200.provider.quota_requests(REGION).requests
    h200.clock.advance(60 * 24 * HOUR)
    assert not h200.provider.quota_requests(REGION).requests


def test_once_a_decision_is_seen_the_limit_is_read_anew(h200: GceDesk) -> None:
    """Without that the new limit would show a quarter of an hour late."""
    h200.gce.world.set_quota(
        QuotaRule(provider="gcp", region=REGION, name="PREEMPTIBLE_NVIDIA_H200_GPUS", limit=0)
    )
    h200.answer(1, 60, 0)
    h200.provider.request_quota(asked(h200, 192))
    h200.provider.quota_requests(REGION)
    assert limit_of(h200) == 128
    h200.gce.advance(61)
    h200.clock.advance(61)
    assert limit_of(h200) == 128  # remembered
    (shown,) = h200.provider.quota_requests(REGION).requests
    assert shown.state is ReviewState.APPROVED
    assert limit_of(h200) == 192
