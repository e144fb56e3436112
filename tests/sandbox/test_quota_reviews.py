"""Requests for more quota: how they fare, and what EC2's face says of them."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.quota_reviews import QuotaRequest
from sandbox.scenario import QuotaRule, Scenario, ScenarioError
from sandbox.world import World
from tests.clocks import FakeClock
from tests.sandbox.ec2 import refused
from tests.sandbox.worlds import Clouds, MakeClouds, MakeWorld, pass_time

P_SPOT = "L-7212CCBC"
SMALL: dict[str, Any] = {"quotas": [{"provider": "aws", "name": "*", "limit": 8}]}


def reviews(**rule: Any) -> dict[str, Any]:
    return {**SMALL, "quota_reviews": [{"provider": "aws", **rule}]}


def ask(world: World, wanted: float = 96, request_id: str = "r1") -> QuotaRequest:
    return world.file_quota_request("aws", request_id, region="us-east-1", name="P/spot", wanted=wanted)


def limit(world: World) -> float:
    return next(row.limit for row in world.quotas("aws", "us-east-1") if row.name == "P/spot")


def test_a_request_is_taken_up_then_decided_and_the_limit_follows(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    world = world_of(**reviews(taken_up=10, decided=100, takes_effect=30))
    request = ask(world)
    seen = [(request.state, limit(world))]
    for seconds in (10, 90, 30):
        pass_time(world, clock, seconds)
        seen.append((request.state, limit(world)))
    assert seen == [("filed", 8), ("in_review", 8), ("approved", 8), ("approved", 96)]


@pytest.mark.parametrize(
    ("rule", "state", "granted"),
    [
        ({"verdict": "denied"}, "denied", 8),
        ({"verdict": "partly_granted", "share": 0.25}, "partly_granted", 30),
        ({"name": "G/*", "verdict": "denied"}, "approved", 96),
    ],
)
def test_the_verdict_is_the_scenarios(
    world_of: MakeWorld, clock: FakeClock, rule: dict[str, Any], state: str, granted: float
) -> None:
    world = world_of(**reviews(**rule))
    request = ask(world)
    pass_time(world, clock, 3600)
    assert (request.state, request.granted, limit(world)) == (state, granted, granted)


def test_a_grant_never_lowers_a_limit(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(**SMALL)
    ask(world)
    world.set_quota(QuotaRule(provider="aws", name="P/spot", limit=500))
    pass_time(world, clock, 3600)
    assert limit(world) == 500


def test_a_request_of_the_same_id_stands_in_place_of_the_first(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(**reviews(taken_up=0, decided=100))
    ask(world, 96)
    pass_time(world, clock, 50)
    ask(world, 64)
    pass_time(world, clock, 50)
    assert limit(world) == 8
    pass_time(world, clock, 50)
    assert limit(world) == 64
    assert len(world.quota_requests("aws")) == 1


def test_a_verdict_before_anyone_looked_is_a_mistake_in_the_scenario() -> None:
    with pytest.raises(ScenarioError, match="decided 5 is before taken_up 60"):
        Scenario.parse(reviews(decided=5))


# EC2's face


def request_increase(clouds: Clouds, code: str = P_SPOT, desired: float = 96) -> dict[str, Any]:
    quotas = clouds.client("service-quotas")
    answer = quotas.request_service_quota_increase(ServiceCode="ec2", QuotaCode=code, DesiredValue=desired)
    change: dict[str, Any] = answer["RequestedQuota"]
    return change


def statuses(clouds: Clouds, **query: Any) -> list[str]:
    history = clouds.client("service-quotas").list_requested_service_quota_change_history(
        ServiceCode="ec2", **query
    )
    return [change["Status"] for change in history["RequestedQuotas"]]


def test_ec2_shows_a_request_until_its_end(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(**SMALL)
    filed = request_increase(clouds)
    assert (filed["Status"], filed["DesiredValue"], filed["QuotaCode"]) == ("PENDING", 96, P_SPOT)
    clouds.pass_time(60)
    quotas = clouds.client("service-quotas")
    one = quotas.get_requested_service_quota_change(RequestId=filed["Id"])["RequestedQuota"]
    assert (one["Status"], bool(one["CaseId"])) == ("CASE_OPENED", True)
    clouds.pass_time(3540)
    assert statuses(clouds) == ["APPROVED"]
    assert statuses(clouds, Status="PENDING") == []
    assert quotas.get_service_quota(ServiceCode="ec2", QuotaCode=P_SPOT)["Quota"]["Value"] == 96


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"verdict": "denied"}, "DENIED"),
        ({"verdict": "denied", "told": False}, "CASE_CLOSED"),
        ({"verdict": "approved", "told": False}, "CASE_CLOSED"),
        ({"verdict": "partly_granted"}, "CASE_CLOSED"),
    ],
)
def test_ec2_does_not_always_tell_how_a_request_ended(
    clouds_of: MakeClouds, rule: dict[str, Any], status: str
) -> None:
    clouds = clouds_of(**reviews(**rule))
    request_increase(clouds)
    clouds.pass_time(3600)
    assert statuses(clouds) == [status]


def test_ec2_refuses_a_second_request_for_a_quota_and_a_third_in_a_region(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(**SMALL)
    request_increase(clouds)
    code, _, _ = refused(lambda: request_increase(clouds, desired=128))
    assert code == "ResourceAlreadyExistsException"
    request_increase(clouds, "L-417A185B")
    code, _, _ = refused(lambda: request_increase(clouds, "L-DB2E81BA"))
    assert code == "QuotaExceededException"


def test_ec2_refuses_less_than_there_is_and_codes_that_it_does_not_know(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(**SMALL)
    assert refused(lambda: request_increase(clouds, desired=8))[0] == "IllegalArgumentException"
    assert refused(lambda: request_increase(clouds, "L-00000000"))[0] == "NoSuchResourceException"
    assert statuses(clouds) == []
