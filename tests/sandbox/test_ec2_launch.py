"""RunInstances of the EC2 face, through boto3."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2 import described, ids, made, on_demand, refused, request, run
from tests.sandbox.worlds import Clouds, MakeClouds


def test_a_launch_answers_with_all_nodes_in_order_and_what_was_asked_for(clouds: Clouds) -> None:
    ec2 = clouds.client()
    answer = ec2.run_instances(**request(ec2, MinCount=3, MaxCount=3))
    nodes = answer["Instances"]
    assert [node["AmiLaunchIndex"] for node in nodes] == [0, 1, 2]
    assert len(set(ids(nodes))) == 3
    first = nodes[0]
    assert first["State"] == {"Code": 0, "Name": "pending"}
    assert first["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert first["Placement"]["AvailabilityZoneId"] == "use1-az4"
    assert (first["InstanceLifecycle"], first["ClientToken"]) == ("spot", "token-1")
    assert first["Tags"] == [{"Key": "corral-deployment", "Value": "d1"}]
    assert "PublicIpAddress" not in first
    assert answer["ReservationId"].startswith("r-")


def test_the_user_data_reaches_the_machine_as_it_was_written(clouds: Clouds) -> None:
    text = "#cloud-config\nwrite_files: []\n# ü\n"
    (node,) = run(clouds.client(), UserData=text)
    vm = clouds.world.vm("aws", node["InstanceId"])
    assert vm is not None
    assert vm.user_data == text


def test_the_same_request_with_the_same_token_launches_once(clouds: Clouds) -> None:
    ec2 = clouds.client()
    first = run(ec2, MinCount=2, MaxCount=2)
    clouds.pass_time(30)
    again = run(ec2, MinCount=2, MaxCount=2)
    assert ids(again) == ids(first)
    assert [node["State"]["Name"] for node in again] == ["running", "running"]
    assert made(clouds) == 2


def test_a_token_with_another_request_is_a_mismatch_and_launches_nothing(clouds: Clouds) -> None:
    ec2 = clouds.client()
    run(ec2)
    changes: list[dict[str, Any]] = [
        {"InstanceType": "g5.2xlarge"},
        {"UserData": "#cloud-config\n"},
        on_demand(),
        {"MinCount": 2, "MaxCount": 2},
    ]
    for change in changes:
        code, status, _ = refused(lambda change=change: run(ec2, **change))  # type: ignore[misc]
        assert (code, status) == ("IdempotentParameterMismatch", 400)
    assert made(clouds) == 1


def test_a_token_holds_for_its_zone_only(clouds: Clouds) -> None:
    ec2 = clouds.client()
    here = run(ec2)
    there = run(ec2, Placement={"AvailabilityZone": "us-east-1b"})
    assert ids(here) != ids(there)
    assert made(clouds) == 2


def test_a_token_without_a_zone_holds_for_the_region(clouds: Clouds) -> None:
    ec2 = clouds.client()
    assert ids(run(ec2, Placement=None)) == ids(run(ec2, Placement=None))
    assert made(clouds) == 1


def test_a_token_whose_instances_are_over_says_so(clouds: Clouds) -> None:
    ec2 = clouds.client()
    ec2.terminate_instances(InstanceIds=ids(run(ec2)))
    code, status, _ = refused(lambda: run(ec2))
    assert (code, status) == ("IdempotentInstanceTerminated", 400)
    assert made(clouds) == 1


def test_a_refused_attempt_binds_its_token_but_may_be_sent_again(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(
        default_capacity=0, events=[{"do": "capacity", "at": 60, "where": {"provider": "aws"}, "count": 1}]
    )
    ec2 = clouds.client()
    assert refused(lambda: run(ec2))[0] == "InsufficientInstanceCapacity"
    assert refused(lambda: run(ec2, InstanceType="g6.xlarge"))[0] == "IdempotentParameterMismatch"
    clouds.pass_time(60)
    assert len(run(ec2)) == 1


def test_a_token_that_is_too_long_is_refused(calm: Clouds) -> None:
    ec2 = calm.client()
    assert refused(lambda: run(ec2, ClientToken="x" * 65))[0] == "InvalidClientToken"


def test_a_stock_out_is_a_server_error_that_names_zones_with_room(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(capacity=[{"zone": "use1-az4", "count": 1}, {"zone": "use1-az6", "count": 0}])
    ec2 = clouds.client()
    code, status, message = refused(lambda: run(ec2, **on_demand(MinCount=2, MaxCount=2)))
    assert (code, status) == ("InsufficientInstanceCapacity", 500)
    assert "(us-east-1a)" in message
    assert message.endswith("choosing us-east-1c.")
    assert made(clouds) == 0


def test_an_sdk_left_to_itself_repeats_a_stock_out(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(default_capacity=0)
    ec2 = clouds.client(retries={"total_max_attempts": 3, "mode": "standard"})
    with pytest.raises(ClientError) as caught:
        run(ec2)
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 2
    assert clouds.world.ledger()["calls"]["aws"]["RunInstances"] == 3


def test_fewer_are_given_where_fewer_were_allowed(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(default_capacity=3)
    assert len(run(clouds.client(), MinCount=2, MaxCount=5)) == 3


def test_without_a_zone_the_first_that_has_room_is_taken(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(capacity=[{"zone": "use1-az4", "count": 0}])
    (node,) = run(clouds.client(), Placement=None)
    assert node["Placement"]["AvailabilityZone"] == "us-east-1b"


def test_quota_is_counted_in_vcpus_apart_for_spot_and_on_demand(clouds_of: MakeClouds) -> None:
    limits = [{"provider": "aws", "name": name, "limit": 7} for name in ("G/spot", "G/on_demand")]
    clouds = clouds_of(quotas=limits)
    ec2 = clouds.client()
    run(ec2)
    run(ec2, **on_demand(ClientToken="token-2"))
    code, status, message = refused(lambda: run(ec2, **on_demand(ClientToken="token-3")))
    assert (code, status) == ("VcpuLimitExceeded", 400)
    assert "current vCPU limit of 7" in message
    code, status, _ = refused(lambda: run(ec2, ClientToken="token-4"))
    assert (code, status) == ("MaxSpotInstanceCountExceeded", 400)


def test_a_bid_below_the_price_is_too_low(calm: Clouds) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "0.2"}}
    code, status, message = refused(lambda: run(calm.client(), InstanceMarketOptions=options))
    assert (code, status) == ("SpotMaxPriceTooLow", 400)
    assert "0.402" in message


def test_spot_above_the_on_demand_price_is_not_paid_unless_bid_for(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(
        prices=[{"provider": "aws", "instance_type": "g5.xlarge", "capacity_type": "spot", "price": 3.0}]
    )
    ec2 = clouds.client()
    assert refused(lambda: run(ec2))[0] == "SpotMaxPriceTooLow"
    options = {"MarketType": "spot", "SpotOptions": {"MaxPrice": "3.5"}}
    assert len(run(ec2, ClientToken="token-2", InstanceMarketOptions=options)) == 1


def test_a_dry_run_looks_at_the_request_and_makes_nothing(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(default_capacity=0)
    ec2 = clouds.client()
    assert refused(lambda: run(ec2, DryRun=True))[:2] == ("DryRunOperation", 412)
    assert refused(lambda: run(ec2, DryRun=True, ImageId="ami-00000000"))[0] == "InvalidAMIID.NotFound"
    assert made(clouds) == 0


def test_user_data_of_16_kib_is_taken_and_a_byte_more_is_not(clouds: Clouds) -> None:
    ec2 = clouds.client()
    assert run(ec2, UserData="x" * 16384)
    code, status, message = refused(lambda: run(ec2, ClientToken="token-2", UserData="x" * 16385))
    assert (code, status) == ("InvalidUserData.Malformed", 400)
    assert "limited to 16384 bytes" in message


SPOT_STOP = {"MarketType": "spot", "SpotOptions": {"InstanceInterruptionBehavior": "stop"}}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
        ({"ImageId": "debian"}, "InvalidAMIID.Malformed"),
        ({"InstanceType": "g9.huge"}, "InvalidParameterValue"),
        ({"InstanceType": "p6-b200.48xlarge"}, "Unsupported"),
        ({"InstanceType": "t3.micro"}, "Unsupported"),
        ({**on_demand(), "InstanceType": "p5e.48xlarge"}, "Unsupported"),
        ({"Placement": {"AvailabilityZone": "us-west-2a"}}, "InvalidParameterValue"),
        (
            {"Placement": {"AvailabilityZone": "us-east-1a", "GroupName": "pg"}},
            "InvalidPlacementGroup.Unknown",
        ),
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"SecurityGroupIds": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"KeyName": "mine"}, "InvalidKeyPair.NotFound"),
        ({"MinCount": 2, "MaxCount": 1}, "InvalidParameterValue"),
        ({"MinCount": 0, "MaxCount": 1}, "InvalidParameterValue"),
        ({"InstanceMarketOptions": SPOT_STOP}, "InvalidParameterCombination"),
        (on_demand(InstanceMarketOptions={"MarketType": "capacity-block"}), "MissingParameter"),
        (
            on_demand(InstanceMarketOptions={"MarketType": "interruptible-capacity-reservation"}),
            "Unsupported",
        ),
        ({"InstanceInitiatedShutdownBehavior": "explode"}, "InvalidParameterValue"),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0}], "SecurityGroups": ["default"]},
            "InvalidParameterCombination",
        ),
        (
            {"NetworkInterfaces": [{"DeviceIndex": n, "AssociatePublicIpAddress": True} for n in (0, 1)]},
            "InvalidParameterCombination",
        ),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1, "InterfaceType": "efa-only"}]},
            "InvalidParameterCombination",  # a g5.xlarge has no EFA
        ),
        (
            {"NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 0, "NetworkCardIndex": 1}]},
            "InvalidParameterCombination",
        ),
        (
            {"BlockDeviceMappings": [{"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}}]},
            "InvalidBlockDeviceMapping",
        ),
        (
            {"TagSpecifications": [{"ResourceType": "instance", "Tags": [{"Key": "aws:x", "Value": "1"}]}]},
            "InvalidParameterValue",
        ),
        (
            {
                "TagSpecifications": [
                    {"ResourceType": "instance", "Tags": [{"Key": f"k{n}", "Value": ""} for n in range(51)]}
                ]
            },
            "TagLimitExceeded",
        ),
        ({"InstanceMarketOptions": None}, "InvalidParameterValue"),  # tags a spot request that is none
    ],
)
def test_a_request_that_makes_no_sense_is_refused_in_ec2s_words(
    calm: Clouds, changes: dict[str, Any], code: str
) -> None:
    ec2 = calm.client()
    assert refused(lambda: run(ec2, **({"ClientToken": uuid4().hex} | changes)))[:2] == (code, 400)
    assert made(calm) == 0


def test_a_zone_and_a_subnet_that_disagree_are_refused(clouds: Clouds) -> None:
    ec2 = clouds.client()
    by_zone = {row["AvailabilityZone"]: row["SubnetId"] for row in ec2.describe_subnets()["Subnets"]}
    (node,) = run(ec2, SubnetId=by_zone["us-east-1a"])
    assert node["SubnetId"] == by_zone["us-east-1a"]
    code, _, _ = refused(lambda: run(ec2, ClientToken="token-2", SubnetId=by_zone["us-east-1b"]))
    assert code == "InvalidParameterValue"


def test_disks_network_address_and_spot_request_go_with_the_instance(clouds: Clouds) -> None:
    ec2 = clouds.client()
    nodes = run(ec2, MinCount=2, MaxCount=2)
    live = clouds.world.ledger()["objects"]
    assert {kind: row["live"] for kind, row in live.items()} == dict.fromkeys(
        ("instance", "disk", "nic", "address", "spot_request"), 2
    )
    ec2.terminate_instances(InstanceIds=ids(nodes))
    clouds.pass_time(60)
    assert clouds.world.ledger()["live"] == []


def test_a_mapping_under_a_wrong_name_makes_a_second_disk(clouds: Clouds) -> None:
    ec2 = clouds.client()
    run(ec2, BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}])
    assert clouds.world.ledger()["objects"]["disk"] == {"made": 2, "live": 2}


def test_a_disk_that_is_not_to_be_deleted_stays_behind(clouds: Clouds) -> None:
    ec2 = clouds.client()
    kept = [{"DeviceName": "/dev/sda1", "Ebs": {"DeleteOnTermination": False}}]
    ec2.terminate_instances(InstanceIds=ids(run(ec2, BlockDeviceMappings=kept)))
    clouds.pass_time(60)
    assert [row["kind"] for row in clouds.world.ledger()["live"]] == ["disk"]


def test_an_instance_that_shuts_itself_down_stops_unless_it_was_to_terminate(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (ends,) = run(ec2, **on_demand())
    (stops,) = run(ec2, **on_demand(ClientToken="token-2", InstanceInitiatedShutdownBehavior=None))
    clouds.pass_time(30)
    for node in (ends, stops):
        vm = clouds.world.vm("aws", node["InstanceId"])
        assert vm is not None
        clouds.world.terminate(vm, by="instance")
    clouds.pass_time(30)
    states = {node["InstanceId"]: node for node in described(ec2)}
    assert states[ends["InstanceId"]]["State"]["Name"] == "terminated"
    assert states[ends["InstanceId"]]["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert states[stops["InstanceId"]]["State"]["Name"] == "stopped"
    ec2.terminate_instances(InstanceIds=ids([stops]))
    assert (
        described(ec2, InstanceIds=ids([stops]))[0]["StateReason"]["Code"] == "Client.UserInitiatedShutdown"
    )


def test_a_placement_group_is_made_once_and_goes_when_nobody_is_in_it(calm: Clouds) -> None:
    ec2 = calm.client()
    tags = [{"ResourceType": "placement-group", "Tags": [{"Key": "corral-deployment", "Value": "d1"}]}]
    ec2.create_placement_group(GroupName="near", Strategy="cluster", TagSpecifications=tags)
    again = refused(lambda: ec2.create_placement_group(GroupName="near", Strategy="cluster"))
    assert again[0] == "InvalidPlacementGroup.Duplicate"
    place = {"AvailabilityZone": "us-east-1a", "GroupName": "near"}
    (vm,) = run(ec2, ClientToken=uuid4().hex, Placement=place)
    assert vm["Placement"]["GroupName"] == "near"
    assert refused(lambda: ec2.delete_placement_group(GroupName="near"))[0] == "InvalidPlacementGroup.InUse"
    ec2.terminate_instances(InstanceIds=ids([vm]))
    calm.pass_time(60)
    mine = [{"Name": "tag:corral-deployment", "Values": ["d1"]}]
    found = ec2.describe_placement_groups(Filters=mine)["PlacementGroups"]
    assert [(group["GroupName"], group["State"]) for group in found] == [("near", "available")]
    ec2.delete_placement_group(GroupName="near")
    assert refused(lambda: ec2.delete_placement_group(GroupName="near"))[0] == "InvalidPlacementGroup.Unknown"
    assert ec2.describe_placement_groups()["PlacementGroups"] == []
