"""Failures that others have met with EC2, and what must come of them here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.launch import run_instances_parameters
from providers.aws.network import Network, Zone, join
from providers.aws.prices import MOST_USD, newest, parse_product, usd
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceState
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.aws.conftest import REGION, prepared
from tests.providers.aws.stub import StubServer, error, ok
from tests.providers.aws.test_instances import described, ref
from tests.providers.contract import DEPLOYMENT, pick, request, settle, start

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened() as one:
        yield one


@pytest.mark.parametrize("lost", [1, 3])
def test_IDE_01_a_launch_whose_answers_are_lost_makes_one_instance_however_often_it_is_sent(
    bench: AwsBench, lost: int
) -> None:
    asked = request(pick(bench), "lost", prepared_by=bench.provider)
    bench.fault("RunInstances", "drop_reply", effect=True, times=lost)
    for _ in range(lost):
        with pytest.raises(ProviderError) as caught:
            bench.provider.launch(asked)
        assert caught.value.ambiguous
    launched = bench.provider.launch(asked)
    assert bench.calls()["RunInstances"] == lost + 1
    assert bench.live()["instance"] == 1
    assert [one.provider_id for one in bench.provider.find(asked).instances] == [
        one.provider_id for one in launched.instances
    ]


def test_IDE_04_a_token_whose_instance_was_reclaimed_is_over_and_nothing_runs(bench: AwsBench) -> None:
    offer = pick(bench, CapacityType.SPOT)
    asked = request(offer, "reclaimed", prepared_by=bench.provider)
    (one,) = start(bench, asked)
    bench.preempt(one.provider_id)
    bench.advance(200)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert (caught.value.kind, caught.value.ended) == (ErrorKind.IDEMPOTENCY, True)
    assert bench.live()["instance"] == 0


def test_IDE_04_an_answer_that_shows_an_instance_which_is_over_is_no_running_one(
    provider: AwsProvider, stub: StubServer
) -> None:
    item = (
        "<instancesSet><item><instanceId>i-a</instanceId><instanceType>g6.xlarge</instanceType>"
        "<instanceState><name>terminated</name></instanceState></item></instancesSet>"
    )
    stub.script("RunInstances", ok("RunInstances", item))
    (shown,) = provider.launch(prepared()).instances
    assert shown.state is InstanceState.TERMINATED


def test_IDE_05_a_mismatch_of_a_token_is_no_failed_start_and_its_instance_is_found(bench: AwsBench) -> None:
    asked = request(pick(bench), "twice", prepared_by=bench.provider)
    refs = start(bench, asked)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(replace(asked, user_data=asked.user_data + "# later\n"))
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.IDEMPOTENCY, True)
    assert [one.provider_id for one in bench.provider.find(asked).instances] == [refs[0].provider_id]
    assert bench.live()["instance"] == 1


def test_INV_09_what_is_over_stands_beside_what_runs_and_spoils_no_batch(bench: AwsBench) -> None:
    asked = request(pick(bench), "mixed", nodes=5, prepared_by=bench.provider)
    refs = start(bench, asked)
    bench.provider.terminate(refs[:2])
    settle(bench)
    states = [one.state for one in bench.provider.describe(refs)]
    assert states == [InstanceState.TERMINATED] * 2 + [InstanceState.RUNNING] * 3
    bench.provider.terminate(refs)
    settle(bench)
    assert bench.live()["instance"] == 0


def test_LIF_12_unknown_ids_keep_no_other_instance_from_ending(bench: AwsBench) -> None:
    refs = start(bench, request(pick(bench), "batch", nodes=2, prepared_by=bench.provider))
    gone = [replace(refs[0], provider_id=f"i-0ffffffffffffff{n:02x}") for n in range(2)]
    bench.provider.terminate([refs[0], gone[0], refs[1], gone[1]])
    settle(bench)
    assert bench.live()["instance"] == 0


def test_LIF_14_ending_nothing_is_no_call_and_ending_what_is_gone_no_failure(
    provider: AwsProvider, stub: StubServer
) -> None:
    provider.terminate([])
    assert stub.requests == []
    unknown = error("InvalidInstanceID.NotFound", "The instance ID 'i-x' does not exist")
    stub.script("TerminateInstances", unknown)
    stub.script("DescribeInstances", unknown)
    provider.terminate([ref("x", CapacityType.SPOT)])
    assert "CancelSpotInstanceRequests" not in {action for action, _ in stub.requests}


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped", "shutting-down"])
def test_LIF_21_a_listing_shows_whatever_is_not_gone(
    provider: AwsProvider, stub: StubServer, state: str
) -> None:
    stub.script("DescribeInstances", described("a", state=state))
    (one,) = provider.list_instances(REGION, DEPLOYMENT).instances
    assert one.state not in (InstanceState.TERMINATED, InstanceState.ABSENT)
    filters = {name for key, name in stub.sent("DescribeInstances")[0].items() if key.endswith(".Name")}
    assert filters == {"tag:corral-deployment"}


def test_PLA_01_a_launch_names_its_zone_subnet_and_image(bench: AwsBench) -> None:
    raw = request(pick(bench), "bare", prepared_by=None)
    with pytest.raises(ProviderError, match="not prepared"):
        bench.provider.launch(raw)
    parameters = run_instances_parameters(bench.provider.prepare(raw))
    assert parameters["Placement"]["AvailabilityZone"]
    assert parameters["NetworkInterfaces"][0]["SubnetId"]
    assert parameters["ImageId"].startswith("ami-")


@pytest.mark.parametrize("name", ["us-east-1a", "us-east-1b"])
def test_PLA_06_a_zone_means_the_same_place_whatever_the_account_calls_it(name: str) -> None:
    zones = [{"ZoneId": "use1-az1", "ZoneName": name, "State": "available"}]
    subnet = {"SubnetId": "subnet-1", "AvailabilityZone": name, "State": "available"}
    network = join(zones, [subnet | {"AvailableIpAddressCount": 8}])
    assert network.by_id("use1-az1") == Zone("use1-az1", name, "subnet-1")
    row = {"InstanceType": "g6.xlarge", "SpotPrice": "0.3", "Timestamp": NOW, "AvailabilityZone": name}
    assert newest([row], network) == {("g6.xlarge", "use1-az1"): 0.3}


@pytest.mark.parametrize("text", ["", "N/A", "0", "-1", "nan", "inf", None, str(MOST_USD * 10)])
def test_PRI_04_what_is_no_price_is_unknown_and_spoils_no_list(text: Any) -> None:
    assert usd(text) == 0
    network = Network((Zone("use1-az1", "us-east-1a", None),))
    place = {"AvailabilityZone": "us-east-1a", "Timestamp": NOW}
    rows = [
        {"InstanceType": "g6.xlarge", "SpotPrice": text, **place},
        {"InstanceType": "g6.2xlarge", "SpotPrice": "0.4", **place},
    ]
    assert newest(rows, network) == {("g6.2xlarge", "use1-az1"): 0.4}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"product": {"attributes": {"instanceType": "g6.xlarge"}}}']
)
def test_PRI_04_a_product_that_cannot_be_read_has_no_price(text: str) -> None:
    assert parse_product(text, REGION)[1] == 0


@pytest.mark.parametrize("instance_type", ["g6.xlarge", "p5.48xlarge"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_PRI_10_the_bid_is_dollars_for_one_instance_and_hour(instance_type: str, nodes: int) -> None:
    asked = prepared(CapacityType.SPOT, nodes=nodes)
    asked = replace(asked, offer=replace(asked.offer, instance_type=instance_type), max_price=1.28)
    options = run_instances_parameters(asked)["InstanceMarketOptions"]["SpotOptions"]
    assert options["MaxPrice"] == "1.2800"
