"""What the EC2 face shows, through boto3: instances, spot requests, the catalogue, prices, quotas."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sandbox.catalogue import catalogue
from sandbox.faces.ec2.protocol import service
from sandbox.world import Vm
from tests.sandbox.ec2 import described, ids, on_demand, refused, run
from tests.sandbox.worlds import Clouds, MakeClouds


def vm_of(clouds: Clouds, node: dict[str, Any]) -> Vm:
    vm = clouds.world.vm("aws", node["InstanceId"])
    assert vm is not None
    return vm


def test_an_instance_goes_from_pending_to_terminated_and_is_forgotten_after_an_hour(clouds: Clouds) -> None:
    ec2 = clouds.client()
    instance_ids = ids(run(ec2))

    def state() -> str:
        return str(described(ec2, InstanceIds=instance_ids)[0]["State"]["Name"])

    assert state() == "pending"
    clouds.pass_time(20)
    assert state() == "running"
    (change,) = ec2.terminate_instances(InstanceIds=instance_ids)["TerminatingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    clouds.pass_time(5)
    assert state() == "terminated"
    clouds.pass_time(3600)
    assert state() == "terminated"
    clouds.pass_time(1)
    assert refused(state)[0] == "InvalidInstanceID.NotFound"
    assert described(ec2) == []


def test_terminating_twice_is_no_error_and_keeps_the_first_reason(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (node,) = run(ec2)
    clouds.pass_time(20)
    clouds.world.preempt(vm_of(clouds, node), notice=False)
    ec2.terminate_instances(InstanceIds=ids([node]))
    clouds.pass_time(10)
    ec2.terminate_instances(InstanceIds=ids([node]))
    assert described(ec2)[0]["StateReason"]["Code"] == "Server.SpotInstanceTermination"


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("user", "Client.UserInitiatedShutdown"),
        ("preempted", "Server.SpotInstanceTermination"),
        ("host_failure", "Server.InternalError"),
    ],
)
def test_the_reason_of_an_end_is_told(clouds: Clouds, end: str, code: str) -> None:
    ec2 = clouds.client()
    vm = vm_of(clouds, run(ec2)[0])
    clouds.pass_time(20)
    ends: dict[str, Callable[[Vm], None]] = {
        "user": clouds.world.terminate,
        "preempted": clouds.world.preempt,
        "host_failure": clouds.world.kill,
    }
    ends[end](vm)
    clouds.pass_time(200)
    (shown,) = described(ec2)
    assert shown["State"]["Name"] == "terminated"
    assert (shown["StateReason"]["Code"], shown["StateReason"]["Message"].partition(":")[0]) == (code, code)
    assert "PrivateIpAddress" not in shown


def test_addresses_and_disks_are_shown_once_it_runs(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (node,) = run(ec2)
    clouds.pass_time(20)
    (shown,) = described(ec2)
    assert shown["PrivateIpAddress"] == node["PrivateIpAddress"]
    assert shown["PublicIpAddress"].startswith("198.18.")
    assert shown["BlockDeviceMappings"][0]["DeviceName"] == shown["RootDeviceName"]
    assert shown["LaunchTime"] == clouds.clock.now() - timedelta(seconds=20)


def test_a_new_instance_may_be_denied_for_a_while(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(aws={"list_lag_seconds": 30})
    ec2 = clouds.client()
    instance_ids = ids(run(ec2))
    token = [{"Name": "client-token", "Values": ["token-1"]}]
    code, status, message = refused(lambda: described(ec2, InstanceIds=instance_ids))
    assert (code, status) == ("InvalidInstanceID.NotFound", 400)
    assert instance_ids[0] in message
    assert described(ec2, Filters=token) == []
    clouds.pass_time(30)
    assert ids(described(ec2, Filters=token)) == ids(described(ec2, InstanceIds=instance_ids)) == instance_ids


def test_one_unknown_id_fails_the_whole_batch(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (known,) = ids(run(ec2))
    batch = [known, "i-00000000000000000"]
    assert refused(lambda: described(ec2, InstanceIds=batch))[0] == "InvalidInstanceID.NotFound"
    assert refused(lambda: ec2.terminate_instances(InstanceIds=batch))[0] == "InvalidInstanceID.NotFound"
    assert described(ec2)[0]["State"]["Name"] == "pending"
    assert refused(lambda: described(ec2, InstanceIds=["mine"]))[0] == "InvalidInstanceID.Malformed"


def test_filters_find_what_they_name(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (spot,) = ids(run(ec2))
    other = [{"ResourceType": "instance", "Tags": [{"Key": "corral-deployment", "Value": "d2"}]}]
    (plain,) = ids(run(ec2, **on_demand(ClientToken="token-2", TagSpecifications=other)))
    clouds.pass_time(20)
    ec2.terminate_instances(InstanceIds=[plain])

    def found(name: str, *values: str) -> list[str]:
        return ids(described(ec2, Filters=[{"Name": name, "Values": list(values)}]))

    assert found("tag:corral-deployment", "d1") == [spot]
    assert found("tag:corral-deployment", "d*") == [spot, plain]
    assert found("tag:other", "*") == []
    assert found("tag-key", "corral-deployment") == [spot, plain]
    assert found("client-token", "token-2") == [plain]
    assert found("instance-lifecycle", "spot") == [spot]
    assert found("instance-state-name", "pending", "running") == [spot]
    assert found("availability-zone-id", "use1-az4") == [spot, plain]
    assert found("instance-type", "g5.*") == [spot, plain]
    assert found("state-reason-code", "Client.UserInitiatedShutdown") == [plain]
    assert refused(lambda: found("colour", "red"))[0] == "InvalidParameterValue"


def test_both_of_two_filters_must_match(clouds: Clouds) -> None:
    ec2 = clouds.client()
    run(ec2)
    filters = [{"Name": "instance-type", "Values": ["g5.xlarge"]}]
    assert len(described(ec2, Filters=filters)) == 1
    filters.append({"Name": "instance-lifecycle", "Values": ["scheduled"]})
    assert described(ec2, Filters=filters) == []


def test_pages_show_each_instance_once(clouds: Clouds) -> None:
    ec2 = clouds.client()
    wanted = [node for n in range(3) for node in ids(run(ec2, ClientToken=f"t{n}", MinCount=2, MaxCount=2))]
    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    counts = [sum(len(group["Instances"]) for group in page["Reservations"]) for page in pages]
    assert counts == [5, 1]
    seen = [i for page in pages for group in page["Reservations"] for i in ids(group["Instances"])]
    assert seen == wanted


def test_pages_and_ids_do_not_go_together_and_a_strange_token_is_refused(clouds: Clouds) -> None:
    ec2 = clouds.client()
    instance_ids = ids(run(ec2))
    code, _, _ = refused(lambda: described(ec2, InstanceIds=instance_ids, MaxResults=5))
    assert code == "InvalidParameterCombination"
    assert refused(lambda: described(ec2, NextToken="???"))[0] == "InvalidNextToken"


def test_a_region_shows_its_own_instances_only(clouds: Clouds) -> None:
    run(clouds.client())
    assert described(clouds.client(region="us-west-2")) == []


def test_tags_can_be_added(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (node,) = run(ec2)
    ec2.create_tags(
        Resources=[node["InstanceId"], node["SpotInstanceRequestId"]], Tags=[{"Key": "job", "Value": "7"}]
    )
    assert {"Key": "job", "Value": "7"} in described(ec2)[0]["Tags"]
    (request,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert {"Key": "job", "Value": "7"} in request["Tags"]
    unknown = ["i-00000000000000000"]
    code, _, _ = refused(lambda: ec2.create_tags(Resources=unknown, Tags=[{"Key": "a", "Value": "b"}]))
    assert code == "InvalidInstanceID.NotFound"


# Spot requests


def test_a_spot_request_tells_of_the_notice_and_of_the_end(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (node,) = run(ec2)
    clouds.pass_time(20)

    def shown() -> tuple[str, str]:
        request_ids = [node["SpotInstanceRequestId"]]
        (row,) = ec2.describe_spot_instance_requests(SpotInstanceRequestIds=request_ids)[
            "SpotInstanceRequests"
        ]
        assert row["InstanceId"] == node["InstanceId"]
        return row["State"], row["Status"]["Code"]

    assert shown() == ("active", "fulfilled")
    clouds.world.preempt(vm_of(clouds, node))
    assert shown() == ("active", "marked-for-termination")
    clouds.pass_time(125)
    assert shown() == ("closed", "instance-terminated-no-capacity")
    clouds.pass_time(4 * 3600 + 1)
    assert refused(shown)[0] == "InvalidSpotInstanceRequestID.NotFound"


def test_cancelling_a_request_leaves_its_instance_running(clouds: Clouds) -> None:
    ec2 = clouds.client()
    (node,) = run(ec2)
    clouds.pass_time(20)
    request_ids = [node["SpotInstanceRequestId"]]
    for _ in range(2):
        (answer,) = ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=request_ids)[
            "CancelledSpotInstanceRequests"
        ]
        assert answer == {"SpotInstanceRequestId": request_ids[0], "State": "cancelled"}
    assert clouds.world.ledger()["objects"]["spot_request"]["live"] == 0
    assert described(ec2)[0]["State"]["Name"] == "running"
    (row,) = ec2.describe_spot_instance_requests()["SpotInstanceRequests"]
    assert row["Status"]["Code"] == "request-canceled-and-instance-running"


# Catalogue


def test_every_type_of_the_catalogue_is_one_that_ec2_knows() -> None:
    known = service("ec2").shape_for("InstanceType").metadata["enum"]
    assert set(catalogue("aws").types) <= set(known)


def test_types_are_described_as_ec2_describes_them(calm: Clouds) -> None:
    ec2 = calm.client()
    (shown,) = ec2.describe_instance_types(InstanceTypes=["p4d.24xlarge"])["InstanceTypes"]
    (gpu,) = shown["GpuInfo"]["Gpus"]
    assert (gpu["Name"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"]) == ("A100", 8, 40960)
    assert shown["VCpuInfo"]["DefaultVCpus"] == 96
    assert shown["MemoryInfo"]["SizeInMiB"] == 1152 * 1024
    assert shown["SupportedUsageClasses"] == ["on-demand", "spot"]
    assert (
        refused(lambda: ec2.describe_instance_types(InstanceTypes=["p3.2xlarge"]))[0] == "InvalidInstanceType"
    )


def test_types_come_in_pages_and_only_those_of_the_region(calm: Clouds) -> None:
    ec2 = calm.client(region="eu-west-1")
    pages = list(ec2.get_paginator("describe_instance_types").paginate(PaginationConfig={"PageSize": 7}))
    names = [row["InstanceType"] for page in pages for row in page["InstanceTypes"]]
    assert len(pages) > 1
    assert len(names) == len(set(names))
    assert "p5.48xlarge" in names
    assert "p6-b200.48xlarge" not in names
    filters = [{"Name": "instance-type", "Values": ["g6e.*"]}]
    found = ec2.describe_instance_types(Filters=filters)["InstanceTypes"]
    assert {row["InstanceType"] for row in found} == {n for n in names if n.startswith("g6e.")}


def test_offerings_name_the_zones_in_the_spelling_that_was_asked_for(calm: Clouds) -> None:
    ec2 = calm.client()

    def places(kind: str) -> list[str]:
        filters = [{"Name": "instance-type", "Values": ["p5.48xlarge"]}]
        rows = ec2.describe_instance_type_offerings(LocationType=kind, Filters=filters)
        return [row["Location"] for row in rows["InstanceTypeOfferings"]]

    assert places("region") == ["us-east-1"]
    assert places("availability-zone") == ["us-east-1a", "us-east-1b"]
    assert places("availability-zone-id") == ["use1-az4", "use1-az6"]


def test_zones_regions_and_network_are_there(clouds: Clouds) -> None:
    ec2 = clouds.client()
    filters = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    zones = ec2.describe_availability_zones(Filters=filters)["AvailabilityZones"]
    assert {row["ZoneName"]: row["ZoneId"] for row in zones}["us-east-1a"] == "use1-az4"
    regions = {row["RegionName"] for row in ec2.describe_regions()["Regions"]}
    assert regions == set(catalogue("aws").regions)
    everywhere = ec2.describe_regions(AllRegions=True)["Regions"]
    assert "not-opted-in" in {row["OptInStatus"] for row in everywhere}
    default = [{"Name": "default-for-az", "Values": ["true"]}]
    subnets = ec2.describe_subnets(Filters=default, MaxResults=1000)["Subnets"]
    assert {row["AvailabilityZoneId"] for row in subnets} == {"use1-az1", "use1-az4", "use1-az6"}
    (group,) = ec2.describe_security_groups()["SecurityGroups"]
    assert group["VpcId"] == subnets[0]["VpcId"]
    before = subnets[0]["AvailableIpAddressCount"]
    run(ec2, SubnetId=subnets[0]["SubnetId"])
    after = ec2.describe_subnets(SubnetIds=[subnets[0]["SubnetId"]])["Subnets"][0]
    assert after["AvailableIpAddressCount"] == before - 1


def test_images_are_found_by_owner_and_name_and_through_ssm(calm: Clouds) -> None:
    ec2 = calm.client()
    name = [{"Name": "name", "Values": ["corral-*"]}, {"Name": "state", "Values": ["available"]}]
    (image,) = ec2.describe_images(Owners=["self"], Filters=name)["Images"]
    assert image["RootDeviceName"] == image["BlockDeviceMappings"][0]["DeviceName"]
    assert ec2.describe_images(Owners=["amazon"])["Images"] == []
    ssm = calm.client("ssm")
    parameter = ssm.get_parameter(Name="/corral/images/x86_64/latest")["Parameter"]
    assert parameter["Value"] == image["ImageId"]
    assert refused(lambda: ssm.get_parameter(Name="/no/such"))[0] == "ParameterNotFound"
    elsewhere = calm.client(region="us-west-2")
    unknown = refused(lambda: elsewhere.describe_images(ImageIds=[image["ImageId"]]))
    assert unknown[0] == "InvalidAMIID.NotFound"


# Prices and quotas


def test_spot_prices_are_per_zone_and_end_with_an_empty_token(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(
        prices=[{"provider": "aws", "zone": "use1-az6", "capacity_type": "spot", "price": 0.33}],
        default_capacity=0,
    )
    answer = clouds.client().describe_spot_price_history(
        InstanceTypes=["g5.xlarge"], ProductDescriptions=["Linux/UNIX"], StartTime=clouds.clock.now()
    )
    prices = {row["AvailabilityZoneId"]: row["SpotPrice"] for row in answer["SpotPriceHistory"]}
    assert prices == {"use1-az1": "0.402000", "use1-az4": "0.402000", "use1-az6": "0.330000"}
    assert answer["NextToken"] == ""
    none = clouds.client().describe_spot_price_history(ProductDescriptions=["Windows"])
    assert none["SpotPriceHistory"] == []


def test_the_price_list_has_what_is_sold_on_demand(calm: Clouds) -> None:
    pricing = calm.client("pricing")

    def prices(**wanted: str) -> dict[str, float]:
        filters = [{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()]
        pages = pricing.get_paginator("get_products").paginate(
            ServiceCode="AmazonEC2", Filters=filters, PaginationConfig={"PageSize": 10}
        )
        found = {}
        for product in (json.loads(text) for page in pages for text in page["PriceList"]):
            (term,) = product["terms"]["OnDemand"].values()
            (dimension,) = term["priceDimensions"].values()
            name = product["product"]["attributes"]["instanceType"]
            found[name] = float(dimension["pricePerUnit"]["USD"])
        return found

    ours = prices(regionCode="us-east-1", operatingSystem="Linux", productFamily="Compute Instance")
    assert ours["g5.xlarge"] == 1.006
    assert "p5e.48xlarge" not in ours
    assert len(ours) == len(catalogue("aws").types) - 1
    assert prices(regionCode="eu-west-1", instanceType="g5.xlarge") == {"g5.xlarge": 1.12169}
    assert prices(regionCode="us-east-1", tenancy="Dedicated") == {}


def test_quotas_are_told_under_their_codes(clouds_of: MakeClouds) -> None:
    clouds = clouds_of(quotas=[{"provider": "aws", "region": "us-west-2", "name": "P/spot", "limit": 96}])
    quotas = clouds.client("service-quotas", region="us-west-2")
    pages = quotas.get_paginator("list_service_quotas").paginate(
        ServiceCode="ec2", PaginationConfig={"PageSize": 4}
    )
    values = {row["QuotaCode"]: row["Value"] for page in pages for row in page["Quotas"]}
    assert values["L-7212CCBC"] == 96
    assert len(values) == 6
    began = quotas.list_aws_default_service_quotas(ServiceCode="ec2")["Quotas"]
    defaults = {row["QuotaName"]: row["Value"] for row in began}
    assert (defaults["All P Spot Instance Requests"], defaults["Running On-Demand Trn instances"]) == (0, 0)
    assert sum(defaults.values()) == 10
    one = quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-7212CCBC")["Quota"]
    assert (one["Value"], one["QuotaName"]) == (96, "All P Spot Instance Requests")
    code, status, _ = refused(lambda: quotas.get_service_quota(ServiceCode="ec2", QuotaCode="L-00000000"))
    assert (code, status) == ("NoSuchResourceException", 400)


def test_the_caller_is_known(calm: Clouds) -> None:
    assert calm.client("sts").get_caller_identity()["Account"] == "000000000000"


def test_a_region_that_is_not_enabled_denies_the_credentials(calm: Clouds) -> None:
    code, status, _ = refused(lambda: described(calm.client(region="af-south-1")))
    assert (code, status) == ("AuthFailure", 401)


def test_an_operation_that_is_not_served_says_so_and_is_not_retried(calm: Clouds) -> None:
    ec2 = calm.client(retries={"total_max_attempts": 3, "mode": "standard"})
    with pytest.raises(ClientError) as caught:
        ec2.describe_key_pairs()
    answer = caught.value.response
    assert answer["Error"]["Code"] == "UnsupportedOperation"
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0
