"""What goes over the wire when something is launched, and how often."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.launch import run_instances_parameters
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceState
from tests.providers.aws.conftest import TOKEN, prepared
from tests.providers.aws.stub import LOST, StubServer, error, ok


def running(*indexes: int) -> str:
    items = "".join(
        f"<item><instanceId>i-0000000000000000{i}</instanceId><instanceState><name>pending</name></instanceState>"
        f"<amiLaunchIndex>{i}</amiLaunchIndex><clientToken>{TOKEN}</clientToken><instanceType>g6.xlarge</instanceType>"
        f"<instanceLifecycle>spot</instanceLifecycle><placement><availabilityZone>us-east-1b</availabilityZone>"
        f"</placement></item>"
        for i in indexes
    )
    return f"<reservationId>r-1</reservationId><instancesSet>{items}</instancesSet>"


def test_an_ambiguous_launch_is_sent_once_and_sent_again_with_the_very_same_bytes(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("RunInstances", LOST, ok("RunInstances", running(0)))
    asked = prepared(CapacityType.SPOT)
    with pytest.raises(ProviderError) as caught:
        provider.launch(asked)
    assert caught.value.ambiguous
    assert len(stub.sent("RunInstances")) == 1
    provider.launch(asked)
    first, second = ({k: v for k, v in r.items() if k != "_authorization"} for r in stub.sent("RunInstances"))
    assert first == second
    assert first["ClientToken"] == TOKEN


def test_a_stock_out_which_is_http_500_is_not_repeated_by_the_sdk(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script(
        "RunInstances", error("InsufficientInstanceCapacity", status=500), ok("RunInstances", running(0))
    )
    with pytest.raises(ProviderError) as caught:
        provider.launch(prepared())
    assert caught.value.kind is ErrorKind.CAPACITY
    assert not caught.value.ambiguous
    assert len(stub.sent("RunInstances")) == 1


def test_a_gang_comes_back_in_rank_order(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("RunInstances", ok("RunInstances", running(2, 0, 1)))
    launched = provider.launch(prepared(CapacityType.SPOT, nodes=3))
    assert [i.node for i in launched.instances] == [0, 1, 2]
    assert [i.name for i in launched.instances] == list(prepared(nodes=3).names())
    assert {i.zone for i in launched.instances} == {"use1-az4"}
    assert {i.state for i in launched.instances} == {InstanceState.PENDING}
    assert {i.capacity_type for i in launched.instances} == {CapacityType.SPOT}


def test_fewer_instances_than_asked_for_leave_the_launch_open(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("RunInstances", ok("RunInstances", running(0)))
    with pytest.raises(ProviderError) as caught:
        provider.launch(prepared(nodes=2))
    assert caught.value.ambiguous


def test_what_a_launch_asks_for(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("RunInstances", ok("RunInstances", running(0, 1)))
    provider.launch(prepared(CapacityType.SPOT, nodes=2, data_devices="/dev/sdb", instance_role="trainer"))
    sent = stub.sent("RunInstances")[0]
    expected = {
        "MinCount": "2",
        "MaxCount": "2",
        "Placement.AvailabilityZone": "us-east-1b",
        "MetadataOptions.HttpTokens": "required",
        "MetadataOptions.InstanceMetadataTags": "disabled",
        "InstanceInitiatedShutdownBehavior": "terminate",
        "CapacityReservationSpecification.CapacityReservationPreference": "none",
        "InstanceMarketOptions.MarketType": "spot",
        "InstanceMarketOptions.SpotOptions.SpotInstanceType": "one-time",
        "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior": "terminate",
        "NetworkInterface.1.SubnetId": "subnet-1",
        "NetworkInterface.1.AssociatePublicIpAddress": "true",
        "NetworkInterface.1.DeleteOnTermination": "true",
        "NetworkInterface.1.SecurityGroupId.1": "sg-1",
        "NetworkInterface.1.SecurityGroupId.2": "sg-2",
        "BlockDeviceMapping.1.DeviceName": "/dev/sda1",
        "BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
        "BlockDeviceMapping.1.Ebs.VolumeSize": "100",
        "BlockDeviceMapping.1.Ebs.VolumeType": "gp3",
        "BlockDeviceMapping.1.Ebs.Encrypted": "true",
        "BlockDeviceMapping.2.DeviceName": "/dev/sdb",
        "BlockDeviceMapping.2.Ebs.DeleteOnTermination": "true",
        "IamInstanceProfile.Name": "trainer",
        "UserData": "I2Nsb3VkLWNvbmZpZwo=",
    }
    assert expected.items() <= sent.items()
    assert "SubnetId" not in sent
    kinds = {value for name, value in sent.items() if name.endswith(".ResourceType")}
    assert kinds == {"instance", "volume", "network-interface", "spot-instances-request"}


def test_PRO_11_tags_may_be_read_on_the_instance_whatever_the_accounts_default_is(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("RunInstances", ok("RunInstances", running(0)))
    provider.launch(prepared())
    sent = stub.sent("RunInstances")[0]
    keys = {value for name, value in sent.items() if ".Tag." in name and name.endswith(".Key")}
    assert "Name" in keys
    assert all(re.fullmatch(r"[0-9a-zA-Z\-_+=,.@:]+", key) for key in keys), keys
    assert sent["MetadataOptions.InstanceMetadataTags"] == "disabled"


def test_PRO_11_a_tag_that_ec2_refuses_is_an_error_of_the_request(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("RunInstances", error("InvalidTagKey.Malformed", "'a.io/job' is not a valid tag key"))
    with pytest.raises(ProviderError) as caught:
        provider.launch(prepared())
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.INVALID_REQUEST, False)
    assert caught.value.scope.zone is not None


def test_a_limit_on_the_price_is_the_bid() -> None:
    asked = replace(prepared(CapacityType.SPOT), max_price=12.5)
    options = run_instances_parameters(asked)["InstanceMarketOptions"]["SpotOptions"]
    assert options["MaxPrice"] == "12.5000"


def test_an_on_demand_launch_is_no_spot_request() -> None:
    parameters = run_instances_parameters(prepared())
    assert "InstanceMarketOptions" not in parameters
    kinds = [spec["ResourceType"] for spec in parameters["TagSpecifications"]]
    assert kinds == ["instance", "volume", "network-interface"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user_data": "x" * 16385}, "16385 bytes"),
        ({"extra": {}}, "not prepared"),
        ({"image": None}, "not prepared"),
        ({"offer": replace(prepared().offer, capacity_type=CapacityType.RESERVED)}, "reservation"),
    ],
    ids=["user_data", "extra", "image", "reserved"],
)
def test_what_cannot_be_launched_is_never_sent(
    stub: StubServer, provider: AwsProvider, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ProviderError, match=words) as caught:
        provider.launch(replace(prepared(), **change))
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert not caught.value.ambiguous
    assert stub.requests == []


def test_find_asks_by_token_and_takes_every_page(stub: StubServer, provider: AwsProvider) -> None:
    def page(index: int, token: str) -> str:
        inside = f"<reservationSet><item>{running(index)}</item></reservationSet>"
        return inside + f"<nextToken>{token}</nextToken>"

    stub.script(
        "DescribeInstances", *(ok("DescribeInstances", page(i, t)) for i, t in ((0, "more"), (1, "")))
    )
    zones = (
        "<availabilityZoneInfo><item><zoneName>us-east-1b</zoneName><zoneId>use1-az4</zoneId>"
        "<zoneState>available</zoneState></item></availabilityZoneInfo>"
    )
    stub.script("DescribeAvailabilityZones", ok("DescribeAvailabilityZones", zones))
    stub.script("DescribeSubnets", ok("DescribeSubnets", "<subnetSet/>"))
    found = provider.find(prepared(nodes=2))
    assert found.complete
    assert [(i.node, i.zone) for i in found.instances] == [(0, "use1-az4"), (1, "use1-az4")]
    first, second = stub.sent("DescribeInstances")
    assert (first["Filter.1.Name"], first["Filter.1.Value.1"]) == ("client-token", TOKEN)
    assert second["NextToken"] == "more"
