"""What `corral check` says of an account, against the local EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from providers.aws.routes import way_out, without_way_out
from providers.vocabulary import CheckResult
from tests.providers.aws.bench import AwsBench, opened

HERE = "us-east-1"


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened(regions={HERE: {}}) as one:
        yield one


def wrong(bench: AwsBench) -> dict[str, CheckResult]:
    return {one.subject: one for one in bench.provider.check() if not one.ok}


def test_a_good_account_passes_every_line_and_nothing_is_made(bench: AwsBench) -> None:
    lines = list(bench.provider.check())
    assert [one.subject for one in lines if not one.ok] == []
    assert [one.subject for one in lines] == [
        "credentials",
        "prices",
        "an instance that powers itself off",
        *(
            f"{HERE} {what}"
            for what in (
                "network",
                "way out",
                "offers",
                "quotas",
                "quota requests",
                "reservations",
                "leftovers",
                "image",
                "on-demand launch",
                "spot launch",
            )
        ),
    ]
    assert bench.live()["instance"] == 0


def test_INV_11_a_region_that_is_not_enabled_is_told_and_the_others_are_looked_at() -> None:
    with opened(regions={"af-south-1": {}, HERE: {}}) as bench:
        found = wrong(bench)
        assert set(found) == {"af-south-1 region"}
        assert "not enabled" in found["af-south-1 region"].detail
        assert "enable this region" in found["af-south-1 region"].remedy
        assert f"{HERE} spot launch" in [one.subject for one in bench.provider.check()]


def test_instances_without_an_address_need_a_way_out_that_is_no_internet_gateway() -> None:
    with opened(regions={HERE: {"public_address": False}}) as bench:
        found = wrong(bench)
        assert set(found) == {f"{HERE} way out"}
        assert "NAT" in found[f"{HERE} way out"].remedy
        assert f"{HERE} fabric" in [one.subject for one in bench.provider.check()]


@pytest.mark.parametrize(
    ("call", "line", "remedy"),
    [
        ("DescribeRegions", "region", "ec2:DescribeRegions"),
        ("DescribeRouteTables", "way out", "ec2:DescribeRouteTables"),
        ("DescribeCapacityReservations", "reservations", "ec2:DescribeCapacityReservations"),
        (
            "ListRequestedServiceQuotaChangeHistory",
            "quota requests",
            "servicequotas:ListRequestedServiceQuotaChangeHistory",
        ),
        ("ListServiceQuotas", "quotas", "servicequotas:ListServiceQuotas"),
        ("DescribeVolumes", "leftovers", "ec2:DescribeVolumes"),
        ("DescribePlacementGroups", "leftovers", "ec2:DescribePlacementGroups"),
        ("DescribeImages", "image", "permissions"),
        ("GetProducts", None, "pricing:GetProducts"),
    ],
)
def test_each_permission_that_is_missing_is_named(
    bench: AwsBench, call: str, line: str | None, remedy: str
) -> None:
    code = "AccessDeniedException" if call.startswith(("List", "GetP")) else "UnauthorizedOperation"
    bench.fault(call, "error", code=code, http_status=403, times=None)
    found = wrong(bench)
    assert remedy in found[f"{HERE} {line}" if line else "prices"].remedy


def test_a_missing_spot_role_fails_spot_alone(bench: AwsBench) -> None:
    bench.fault(
        "RunInstances",
        "error",
        code="AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        http_status=403,
        match={"InstanceMarketOptions.MarketType": "spot"},
    )
    assert set(wrong(bench)) == {f"{HERE} spot launch"}


def route(target: dict[str, str], state: str = "active") -> dict[str, Any]:
    return {"DestinationCidrBlock": "0.0.0.0/0", "State": state, **target}


def table(*routes: dict[str, Any], subnet: str | None = None, vpc: str = "vpc-1") -> dict[str, Any]:
    association = {"SubnetId": subnet} if subnet else {"Main": True}
    return {"VpcId": vpc, "Associations": [association], "Routes": list(routes)}


MAIN = table(route({"GatewayId": "igw-1"}))


@pytest.mark.parametrize(
    ("tables", "way"),
    [
        ([MAIN], "internet gateway"),
        ([MAIN, table(route({"NatGatewayId": "nat-1"}), subnet="subnet-1")], "NAT gateway"),
        ([table(route({"NatGatewayId": "nat-1"}), subnet="subnet-2"), MAIN], "internet gateway"),
        ([MAIN, table(subnet="subnet-1")], None),
        ([table(route({"GatewayId": "igw-1"}, "blackhole"))], None),
        ([table(route({"GatewayId": "igw-1"}), vpc="vpc-2")], None),
        ([table(route({"TransitGatewayId": "tgw-1"}))], "transit gateway"),
        ([], None),
    ],
)
def test_a_subnets_way_out_is_its_own_tables_or_the_main_ones(
    tables: list[dict[str, Any]], way: str | None
) -> None:
    assert way_out("subnet-1", "vpc-1", tables) == way


def test_an_internet_gateway_serves_only_what_has_a_public_address() -> None:
    ways = {"a": "internet gateway", "b": "NAT gateway", "c": None}
    assert set(without_way_out(ways, public_address=True)) == {"c"}
    assert set(without_way_out(ways, public_address=False)) == {"a", "c"}
