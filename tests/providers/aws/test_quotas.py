"""The vCPU limits of a region over the wire: how large each is, what is in use, what cannot be told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.region_check import quotas_above_zero
from providers.errors import ErrorKind, ProviderError
from providers.quotas import QuotaListing
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, REGION, account
from tests.providers.aws.quota_lists import HERE, NAMES, ON_DEMAND, SPLIT, SPOT, entry, listed, offer, reading
from tests.providers.aws.stub import Answer, StubServer, error, json_error, json_ok, ok


def sizes(**vcpus: int) -> Answer:
    items = "".join(
        f"<item><instanceType>{name.replace('_', '.')}</instanceType>"
        f"<vCpuInfo><defaultVCpus>{count}</defaultVCpus></vCpuInfo></item>"
        for name, count in vcpus.items()
    )
    return ok("DescribeInstanceTypes", f"<instanceTypeSet>{items}</instanceTypeSet>")


def instances(*kinds: tuple[str, str], token: str = "") -> Answer:
    """Instances by type and lifecycle, which is empty on demand."""
    items = "".join(
        f"<item><instanceId>i-{number:017x}</instanceId><instanceType>{name}</instanceType><instanceState>"
        "<name>running</name></instanceState>"
        + (f"<instanceLifecycle>{lifecycle}</instanceLifecycle>" if lifecycle else "")
        + "</item>"
        for number, (name, lifecycle) in enumerate(kinds)
    )
    return ok(
        "DescribeInstances",
        f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>"
        f"<nextToken>{token}</nextToken>",
    )


def reservations(*kinds: tuple[str, int, str, str]) -> Answer:
    """Capacity reservations by type, free instances, state and kind."""
    items = "".join(
        f"<item><capacityReservationId>cr-{number:017x}</capacityReservationId><instanceType>{name}"
        f"</instanceType><availableInstanceCount>{free}</availableInstanceCount><state>{state}</state>"
        f"<reservationType>{kind}</reservationType></item>"
        for number, (name, free, state, kind) in enumerate(kinds)
    )
    return ok("DescribeCapacityReservations", f"<capacityReservationSet>{items}</capacityReservationSet>")


@pytest.fixture
def region(stub: StubServer) -> StubServer:
    """A region with applied limits for G, default limits for the rest, and nothing that runs."""
    stub.script("ListServiceQuotas", json_ok({"Quotas": [entry("L-DB2E81BA", 64), entry("L-3819A6DF", 32)]}))
    stub.script("ListAWSDefaultServiceQuotas", json_ok({"Quotas": listed({"L-1216C47A": 5})}))
    stub.script("DescribeInstances", instances())
    stub.script("DescribeCapacityReservations", reservations())
    return stub


@pytest.fixture
def cloud(region: StubServer) -> Iterator[AwsProvider]:
    """An adapter that has read nothing yet."""
    provider = AwsProvider(account(region.url), FakeClock(waits_advance=True), environment=ENVIRONMENT)
    yield provider
    provider.close()


def limits(listing: QuotaListing) -> dict[str, float | None]:
    return {quota.key: quota.limit for quota in listing.quotas}


def usage(listing: QuotaListing) -> dict[str, float | None]:
    return {quota.key: quota.usage for quota in listing.quotas if quota.usage != 0}


def test_the_accounts_own_limits_hold_before_the_defaults(cloud: AwsProvider, region: StubServer) -> None:
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ()
    found = limits(listing)
    assert found.keys() == NAMES.keys()
    assert {code: limit for code, limit in found.items() if limit} == {
        "L-DB2E81BA": 64,
        "L-3819A6DF": 32,
        "L-1216C47A": 5,
    }
    assert json.loads(region.sent("ListServiceQuotas")[0]["body"]) == {
        "ServiceCode": "ec2",
        "MaxResults": 100,
    }


def test_limits_are_read_to_the_last_page(cloud: AwsProvider, region: StubServer) -> None:
    first = {"Quotas": [entry("L-DB2E81BA", 64)], "NextToken": "more"}
    region.script("ListServiceQuotas", json_ok(first), json_ok({"Quotas": [entry("L-417A185B", 192)]}))
    assert limits(cloud.quotas(REGION))["L-417A185B"] == 192
    assert json.loads(region.sent("ListServiceQuotas")[1]["body"])["NextToken"] == "more"


def test_without_any_limit_of_its_own_an_account_has_the_defaults(
    cloud: AwsProvider, region: StubServer
) -> None:
    region.script("ListServiceQuotas", json_error("NoSuchResourceException", "none"))
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ()
    assert {code: limit for code, limit in limits(listing).items() if limit} == {"L-1216C47A": 5}


@pytest.mark.parametrize(
    "more", [{"Value": 0.0, "ErrorReason": {"ErrorCode": "DEPENDENCY_THROTTLING_ERROR"}}, {"Value": None}]
)
def test_a_value_that_aws_itself_could_not_find_out_is_unknown(
    cloud: AwsProvider, region: StubServer, more: dict[str, Any]
) -> None:
    told = {name: value for name, value in more.items() if value is not None}
    region.script("ListServiceQuotas", json_ok({"Quotas": [entry("L-DB2E81BA", None, **told)]}))
    assert limits(cloud.quotas(REGION))["L-DB2E81BA"] is None


def test_defaults_are_read_once_a_day_and_limits_each_time(region: StubServer) -> None:
    clock = FakeClock(waits_advance=True)
    provider = AwsProvider(account(region.url), clock, environment=ENVIRONMENT)
    provider.quotas(REGION)
    clock.advance(600)
    region.script("ListServiceQuotas", json_ok({"Quotas": [entry("L-DB2E81BA", 128)]}))
    later = provider.quotas(REGION)
    assert limits(later)["L-DB2E81BA"] == 128
    assert {quota.read_at for quota in later.quotas} == {clock.now()}
    assert len(region.sent("ListAWSDefaultServiceQuotas")) == 1
    clock.advance(25 * 3600)
    provider.quotas(REGION)
    assert len(region.sent("ListAWSDefaultServiceQuotas")) == 2
    provider.close()


def test_usage_counts_all_that_the_account_runs_spot_apart(cloud: AwsProvider, region: StubServer) -> None:
    region.script(
        "DescribeInstances",
        instances(("g6.xlarge", ""), ("g6.xlarge", "spot"), ("g5.12xlarge", ""), token="more"),
        instances(("m7i.large", ""), ("g6.xlarge", "spot")),
    )
    region.script("DescribeInstanceTypes", sizes(g6_xlarge=4, g5_12xlarge=48, m7i_large=2))
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ()
    assert usage(listing) == {"L-DB2E81BA": 52, "L-3819A6DF": 8, "L-1216C47A": 2}
    asked = region.sent("DescribeInstances")[0]
    assert (asked["Filter.1.Name"], asked["Filter.1.Value.1"], asked["Filter.1.Value.2"]) == (
        "instance-state-name",
        "pending",
        "running",
    )
    assert "Filter.2.Name" not in asked


def test_an_unused_capacity_reservation_counts_and_a_block_or_one_that_is_over_does_not(
    cloud: AwsProvider, region: StubServer
) -> None:
    plain, block = "default", "capacity-block"
    region.script(
        "DescribeCapacityReservations",
        reservations(
            ("g6.xlarge", 3, "active", plain),
            ("g6.xlarge", 5, "active", block),
            ("g6.xlarge", 7, "expired", plain),
        ),
    )
    region.script("DescribeInstances", instances(("g6.xlarge", "")))
    region.script("DescribeInstanceTypes", sizes(g6_xlarge=4))
    assert usage(cloud.quotas(REGION)) == {"L-DB2E81BA": 16}


def test_the_size_of_a_type_is_asked_for_once(cloud: AwsProvider, region: StubServer) -> None:
    region.script(
        "DescribeInstances", instances(("g6.xlarge", "")), instances(("g6.xlarge", ""), ("g6.xlarge", ""))
    )
    region.script("DescribeInstanceTypes", sizes(g6_xlarge=4))
    assert usage(cloud.quotas(REGION)) == {"L-DB2E81BA": 4}
    assert usage(cloud.quotas(REGION)) == {"L-DB2E81BA": 8}
    assert len(region.sent("DescribeInstanceTypes")) == 1


DENIED = json_error("AccessDeniedException", "User: x is not authorized")


@pytest.mark.parametrize(
    "action", ["DescribeInstances", "DescribeInstanceTypes", "DescribeCapacityReservations"]
)
def test_without_usage_limits_stand_and_usage_is_unknown(
    cloud: AwsProvider, region: StubServer, action: str
) -> None:
    region.script("DescribeInstances", instances(("g6.xlarge", "")))
    region.script(action, error("UnauthorizedOperation", "You are not authorized", 403))
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ("us-east-1 quota usage",)
    assert limits(listing)["L-DB2E81BA"] == 64
    assert {quota.usage for quota in listing.quotas} == {None}


def test_without_the_defaults_a_limit_that_is_one_is_left_out(cloud: AwsProvider, region: StubServer) -> None:
    region.script("ListAWSDefaultServiceQuotas", DENIED)
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ("us-east-1 quota defaults",)
    assert limits(listing) == {"L-DB2E81BA": 64, "L-3819A6DF": 32}


def test_where_types_cannot_be_told_the_limits_that_divide_them_are_left_out(
    cloud: AwsProvider, region: StubServer
) -> None:
    region.script("ListServiceQuotas", json_ok({"Quotas": listed({"L-C4BD4855": 192}, NAMES | SPLIT)}))
    region.script("DescribeInstanceTypes", error("UnauthorizedOperation", "You are not authorized", 403))
    listing = cloud.quotas(REGION)
    assert listing.incomplete == ("us-east-1 instance types",)
    assert limits(listing).keys() == NAMES.keys() - SPLIT.keys()


def test_limits_that_are_denied_are_an_error_of_permission(cloud: AwsProvider, region: StubServer) -> None:
    region.script("ListServiceQuotas", DENIED)
    with pytest.raises(ProviderError) as caught:
        cloud.quotas(REGION)
    assert caught.value.kind is ErrorKind.AUTH
    assert caught.value.scope == HERE


@pytest.mark.parametrize(
    "refusal",
    [
        json_error("TooManyRequestsException", "Rate exceeded", 429),
        json_error("ServiceException", "oops", 500),
    ],
)
def test_a_throttled_or_failing_list_is_asked_for_again(
    cloud: AwsProvider, region: StubServer, refusal: Answer
) -> None:
    region.script("ListServiceQuotas", refusal, json_ok({"Quotas": [entry("L-DB2E81BA", 64)]}))
    assert limits(cloud.quotas(REGION))["L-DB2E81BA"] == 64
    assert len(region.sent("ListServiceQuotas")) == 2


# Check.

OFFERS = [offer("g6.xlarge", 4, ON_DEMAND), offer("g6.xlarge", 4, SPOT), offer("m7i.large", 2, ON_DEMAND)]


def above_zero(values: Mapping[str, float | None]) -> str:
    rows = [entry(code, values.get(code, 0.0)) for code in NAMES]
    return quotas_above_zero(QuotaListing(tuple(reading(rows))), OFFERS)


def test_check_names_the_limits_of_what_is_offered_that_are_zero() -> None:
    told = above_zero({"L-DB2E81BA": 64})
    assert told == (
        "above zero: Running On-Demand G and VT instances 64; "
        "zero: All G and VT Spot Instance Requests (L-3819A6DF)"
    )


def test_check_finds_fault_if_no_gpu_can_be_launched_whatever_else_can() -> None:
    with pytest.raises(ProviderError, match=r"L-DB2E81BA.*L-3819A6DF") as caught:
        above_zero({"L-1216C47A": 640})
    assert caught.value.kind is ErrorKind.QUOTA


def test_check_takes_an_unknown_limit_for_unknown_and_not_for_zero() -> None:
    assert above_zero({"L-DB2E81BA": None}).endswith("unknown: Running On-Demand G and VT instances")
    assert quotas_above_zero(QuotaListing((), ("us-east-1 quota defaults",)), OFFERS) == (
        "not read: us-east-1 quota defaults"
    )
