"""Requests for more vCPUs, against the local Service Quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, ReviewState
from sandbox.quota_reviews import ReviewRule
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.aws.conftest import REGION
from tests.providers.aws.stub import StubServer, json_error, json_ok
from tests.providers.quota_request_contract import QuotaRequestContract

G_SPOT, P_SPOT, P_ON_DEMAND = "L-3819A6DF", "L-7212CCBC", "L-417A185B"
FILE, LIST = "RequestServiceQuotaIncrease", "ListRequestedServiceQuotaChangeHistory"


class AwsDesk:
    """The local Service Quotas, as the contract wants it."""

    region = "us-east-1"
    quota_key = G_SPOT
    quota_region: str | None = "us-east-1"

    def __init__(self, bench: AwsBench) -> None:
        self.bench = bench
        self.provider = bench.provider

    def answer(self, share: float, after: float, effect_after: float) -> None:
        verdict = {0.0: "denied", 1.0: "approved"}.get(share, "partly_granted")
        times = {"taken_up": after / 2, "decided": after, "takes_effect": effect_after}
        rule = {"provider": "aws", "verdict": verdict, **times}
        self.bench.world.set_review(
            ReviewRule.model_validate(rule | ({"share": share} if 0 < share < 1 else {}))
        )

    def advance(self, seconds: float) -> None:
        self.bench.advance(seconds)

    def drop_next_filing_reply(self) -> None:
        self.bench.fault(FILE, "drop_reply", effect=True)

    def file_by_hand(self, limit: float) -> None:
        self.bench.world.file_quota_request(
            "aws", f"{7:032x}", region=self.region, name="G/spot", wanted=limit
        )

    def filings(self) -> int:
        return len([one for one in self.bench.world.quota_requests("aws") if one.name == "G/spot"])


@pytest.fixture
def desk() -> Iterator[AwsDesk]:
    with opened() as bench:
        yield AwsDesk(bench)


class TestAwsQuotaRequests(QuotaRequestContract):
    """The whole contract."""


def ask(
    desk: AwsDesk, key: str = G_SPOT, limit: float = 5000, region: str | None = "us-east-1"
) -> CloudQuotaRequest:
    return desk.provider.request_quota(QuotaIncrease(key, region, limit, "To train a model."))


def refusal(desk: AwsDesk, **asked: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(desk, **asked)
    return caught.value


def listed(desk: AwsDesk) -> dict[str, ReviewState]:
    return {one.key: one.state for one in desk.provider.quota_requests("us-east-1").requests}


@pytest.mark.parametrize("verdict", ["approved", "denied", "partly_granted"])
def test_a_closed_case_says_nothing_of_its_outcome(desk: AwsDesk, verdict: str) -> None:
    rule = {"provider": "aws", "verdict": verdict, "told": False}
    desk.bench.world.set_review(ReviewRule.model_validate(rule))
    ask(desk)
    desk.advance(3600)
    (shown,) = desk.provider.quota_requests("us-east-1").requests
    assert (shown.state, shown.granted, shown.requested) == (ReviewState.CLOSED, None, 5000)
    assert "case" in shown.detail


def test_all_requests_of_a_region_are_read_in_one_call(desk: AwsDesk) -> None:
    ask(desk, G_SPOT)
    ask(desk, P_SPOT)
    before = desk.bench.calls()[LIST]
    assert listed(desk) == {G_SPOT: ReviewState.FILED, P_SPOT: ReviewState.FILED}
    assert desk.bench.calls()[LIST] == before + 1


def test_a_request_of_another_region_is_not_listed_here(desk: AwsDesk) -> None:
    ask(desk, region="us-west-2")
    assert listed(desk) == {}


def test_requests_that_were_decided_long_ago_are_forgotten_and_open_ones_never(desk: AwsDesk) -> None:
    ask(desk, G_SPOT)
    desk.advance(3600)
    desk.answer(1, 90 * 86400, 0)
    ask(desk, P_SPOT)
    desk.advance(31 * 86400)
    assert listed(desk) == {P_SPOT: ReviewState.FILED}


def test_a_third_request_in_a_region_waits_for_one_of_the_first_two(desk: AwsDesk) -> None:
    ask(desk, G_SPOT)
    ask(desk, P_SPOT)
    error = refusal(desk, key=P_ON_DEMAND)
    assert (error.kind, error.code) == (ErrorKind.THROTTLED, "QuotaExceededException")
    assert not error.ambiguous
    desk.advance(3600)
    assert ask(desk, P_ON_DEMAND).state is ReviewState.FILED


def test_what_somebody_else_files_at_the_same_moment_is_adopted(
    provider: AwsProvider, stub: StubServer
) -> None:
    theirs = {"Id": "r-9", "QuotaCode": G_SPOT, "Status": "PENDING", "DesiredValue": 400.0}
    stub.script(LIST, json_ok({"RequestedQuotas": []}), json_ok({"RequestedQuotas": [theirs]}))
    stub.script("GetServiceQuota", json_error("NoSuchResourceException"))
    stub.script("GetAWSDefaultServiceQuota", json_ok({"Quota": {"QuotaCode": G_SPOT, "Value": 0.0}}))
    stub.script(FILE, json_error("ResourceAlreadyExistsException"))
    adopted = provider.request_quota(QuotaIncrease(G_SPOT, REGION, 64, "To train a model."))
    assert (adopted.provider_id, adopted.requested) == ("r-9", 400)


def test_a_limit_that_cannot_be_told_now_is_not_asked_to_be_raised(
    provider: AwsProvider, stub: StubServer
) -> None:
    unsure = {"QuotaCode": G_SPOT, "ErrorReason": {"ErrorCode": "DEPENDENCY_THROTTLING_ERROR"}}
    stub.script(LIST, json_ok({"RequestedQuotas": []}))
    stub.script("GetServiceQuota", json_ok({"Quota": unsure}))
    with pytest.raises(ProviderError) as caught:
        provider.request_quota(QuotaIncrease(G_SPOT, REGION, 64, "To train a model."))
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert FILE not in [action for action, _ in stub.requests]


def test_a_filing_that_never_arrived_is_ambiguous_and_can_be_sent_again(desk: AwsDesk) -> None:
    desk.bench.fault(FILE, "drop_reply", effect=False)
    error = refusal(desk)
    assert error.ambiguous
    assert desk.filings() == 0
    assert ask(desk).state is ReviewState.FILED


def test_without_the_permission_nothing_is_filed_and_the_error_says_so(desk: AwsDesk) -> None:
    desk.bench.fault(FILE, "error", code="AccessDeniedException", http_status=400, message="no")
    error = refusal(desk)
    assert (error.kind, error.ambiguous, desk.filings()) == (ErrorKind.AUTH, False, 0)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"limit": 2304}, "L-3819A6DF in us-east-1 is 2304 already"),
        ({"region": None}, "none is named"),
        ({"key": "L-00000000"}, "L-00000000"),
    ],
)
def test_a_pointless_request_is_refused_before_it_is_sent(
    desk: AwsDesk, asked: dict[str, Any], says: str
) -> None:
    error = refusal(desk, **asked)
    assert says in error.message
    assert not error.ambiguous
    assert FILE not in desk.bench.calls()
