"""What becomes an offer, and at which price."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.catalogue import Shelf, join
from providers.aws.instance_types import Sold, parse, quota_family
from providers.aws.network import Network, Zone
from providers.aws.network import join as join_network
from providers.aws.price_snapshot import READ_AT
from providers.aws.prices import PriceList, newest, parse_product
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Accelerator, CapacityType, InstanceType, LaunchRequest, OfferKey
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, REGION, account
from tests.providers.aws.stub import Answer, StubServer, error, json_error, json_ok, ok

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def raw_type(name: str = "g6.xlarge", **more: Any) -> dict[str, Any]:
    return {
        "InstanceType": name,
        "VCpuInfo": {"DefaultVCpus": 4},
        "MemoryInfo": {"SizeInMiB": 16384},
        "SupportedUsageClasses": ["on-demand", "spot", "capacity-block"],
        "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]},
        **more,
    }


def gpus(name: str, count: int, mib: int, **more: Any) -> dict[str, Any]:
    gpu = {"Name": name, "Manufacturer": "NVIDIA", "Count": count, "MemoryInfo": {"SizeInMiB": mib}, **more}
    return {"Gpus": [gpu]}


@pytest.mark.parametrize(
    ("name", "mib", "canonical", "gb", "link"),
    [
        ("A100", 40960, "A100", 40, "nvlink"),
        ("A100", 81920, "A100-80GB", 80, "nvlink"),
        ("V100", 32768, "V100-32GB", 32, "nvlink"),
        ("A10G", 22888, "A10G", 24, "pcie"),
        ("L4", 22888, "L4", 24, "pcie"),
        ("L40S", 45776, "L40S", 48, "pcie"),
        ("H200", 144384, "H200", 141, "nvlink"),
        ("RTX PRO Server 6000", 98304, "RTX-PRO-6000", 96, "pcie"),
        ("New X1", 1000, "New-X1", 1.0, None),
    ],
)
def test_accelerators_have_the_same_name_as_everywhere_and_tell_their_link(
    name: str, mib: int, canonical: str, gb: float, link: str | None
) -> None:
    sold = parse(raw_type(GpuInfo=gpus(name, 8, mib)))
    assert sold is not None
    assert sold.type.accelerator == Accelerator(canonical, 8, gb, link)


def test_a_single_gpu_has_no_link() -> None:
    sold = parse(raw_type(GpuInfo=gpus("H100", 1, 81920)))
    assert sold is not None
    assert sold.type.accelerator == Accelerator("H100", 1, 80)


@pytest.mark.parametrize(
    "more",
    [
        {"GpuInfo": gpus("L4", 0, 2861, LogicalGpuCount=1, GpuPartitionSize=0.125)},
        {"GpuInfo": gpus("L4", 1, 11444, LogicalGpuCount=1, GpuPartitionSize=0.5)},
        {"GpuInfo": gpus("Radeon Pro V520", 1, 8192, Manufacturer="AMD")},
        {"BareMetal": True},
        {"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}},
    ],
    ids=["eighth", "half", "other_maker", "bare_metal", "arm"],
)
def test_what_cannot_run_a_job_is_not_sold(more: dict[str, Any]) -> None:
    assert parse(raw_type(**more)) is None


def test_a_type_is_described_in_our_units() -> None:
    disk = {"TotalSizeInGB": 250}
    sold = parse(raw_type(InstanceStorageInfo=disk, GpuInfo=gpus("L4", 1, 22888)))
    assert sold == Sold(
        InstanceType("g6.xlarge", "G", 4, 16.0, Accelerator("L4", 1, 24), 232.8),
        (CapacityType.ON_DEMAND, CapacityType.SPOT),
    )


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("p5en.48xlarge", "P"),
        ("p6-b200.48xlarge", "P"),
        ("g6e.xlarge", "G"),
        ("gr6.4xlarge", "G"),
        ("vt1.3xlarge", "G"),
        ("dl1.24xlarge", "DL"),
        ("d3.xlarge", "Standard"),
        ("trn2.48xlarge", "Trn"),
        ("inf2.xlarge", "Inf"),
        ("m7i.large", "Standard"),
        ("x2gd.large", "X"),
        ("hpc7a.96xlarge", "HPC"),
    ],
)
def test_the_quota_family_follows_the_first_letters(name: str, family: str) -> None:
    assert quota_family(name) == family


ZONES = [
    {"ZoneId": "use1-az4", "ZoneName": "us-east-1b", "State": "available"},
    {"ZoneId": "use1-az6", "ZoneName": "us-east-1a", "State": "available"},
    {"ZoneId": "use1-az1", "ZoneName": "us-east-1c", "State": "unavailable"},
]


def subnet(name: str, zone: str, free: int = 100, state: str = "available") -> dict[str, Any]:
    return {"SubnetId": name, "AvailabilityZone": zone, "AvailableIpAddressCount": free, "State": state}


def test_a_zone_is_used_through_its_subnet_with_most_free_addresses() -> None:
    subnets = [
        subnet("subnet-3", "us-east-1b", 10),
        subnet("subnet-2", "us-east-1b", 200),
        subnet("subnet-1", "us-east-1b", 200),
        subnet("subnet-4", "us-east-1a", 0),
        subnet("subnet-5", "us-east-1a", 9, "pending"),
        subnet("subnet-6", "us-east-1c"),
    ]
    network = join_network(ZONES, subnets)
    assert {zone.id: zone.subnet for zone in network.zones} == {
        "use1-az1": None,
        "use1-az4": "subnet-1",
        "use1-az6": None,
    }


def test_settings_choose_zones_by_id_or_name_and_the_others_keep_their_ids() -> None:
    subnets = [subnet("subnet-1", "us-east-1a"), subnet("subnet-2", "us-east-1b")]
    for allowed in (("use1-az6",), ("us-east-1a",)):
        network = join_network(ZONES, subnets, allowed)
        assert [zone.id for zone in network.zones if zone.subnet] == ["use1-az6"]
        assert network.id_of("us-east-1b") == "use1-az4"


G6 = Sold(InstanceType("g6.xlarge", "G", 4, 16), (CapacityType.ON_DEMAND, CapacityType.SPOT))


def test_offers_exist_where_type_zone_and_subnet_do_and_an_unknown_price_stays_unknown() -> None:
    shelf = Shelf(
        REGION,
        Network((Zone("az1", "a", "subnet-a"), Zone("az2", "b", "subnet-b"), Zone("az3", "c", None))),
        {"g6.xlarge": G6},
        frozenset({("g6.xlarge", "az1"), ("g6.xlarge", "az3")}),
        {("g6.xlarge", "az2"): 0.3},
        PriceList({"g6.xlarge": 0.8}, NOW, "live"),
    )
    offers = list(join("aws", "lab", shelf, NOW))
    assert [(o.key.zone, o.key.capacity_type, o.price, o.subnet) for o in offers] == [
        ("az1", CapacityType.ON_DEMAND, 0.8, "subnet-a"),
        ("az1", CapacityType.SPOT, None, "subnet-a"),
    ]
    assert [o.priced_at for o in offers] == [NOW, None]


def test_the_newest_spot_price_of_a_pool_counts_by_zone_id() -> None:
    network = Network((Zone("use1-az4", "us-east-1b", None),))

    def row(price: str, minute: int, **zone: str) -> dict[str, Any]:
        return {
            "InstanceType": "g6.xlarge",
            "SpotPrice": price,
            "Timestamp": NOW.replace(minute=minute),
            **zone,
        }

    history = [
        row("0.30", 1, AvailabilityZone="us-east-1b"),
        row("0.40", 3, AvailabilityZone="us-east-1b", AvailabilityZoneId="use1-az4"),
        row("0.35", 2, AvailabilityZone="us-east-1b"),
        row("0.0000", 9, AvailabilityZone="us-east-1b"),
    ]
    assert newest(history, network) == {("g6.xlarge", "use1-az4"): 0.40}


def product(name: str, usd: str, region: str = REGION) -> str:
    dimensions = {"x.1": {"unit": "Hrs", "pricePerUnit": {"USD": usd}}}
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name, "regionCode": region}},
            "terms": {"OnDemand": {"x": {"priceDimensions": dimensions}}},
        }
    )


def test_a_product_of_another_region_or_without_a_price_has_none() -> None:
    assert parse_product(product("g6.xlarge", "0.8048"), REGION) == ("g6.xlarge", 0.8048)
    assert parse_product(product("g6.xlarge", "0.9", "eu-west-1"), REGION) == ("g6.xlarge", 0.0)
    assert parse_product(product("p5e.48xlarge", "0.0000000000"), REGION) == ("p5e.48xlarge", 0.0)


# Over the wire.

TYPES = (
    "<instanceTypeSet><item><instanceType>g6.xlarge</instanceType><supportedUsageClasses><item>on-demand</item>"
    "<item>spot</item></supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item>"
    "</supportedArchitectures></processorInfo><vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo><memoryInfo>"
    "<sizeInMiB>16384</sizeInMiB></memoryInfo><gpuInfo><gpus><item><name>L4</name><manufacturer>NVIDIA"
    "</manufacturer><count>1</count><memoryInfo><sizeInMiB>22888</sizeInMiB></memoryInfo></item></gpus></gpuInfo>"
    "</item></instanceTypeSet>"
)
SPOT = (
    "<spotPriceHistorySet><item><instanceType>g6.xlarge</instanceType><spotPrice>0.3220</spotPrice><timestamp>"
    "2026-03-01T11:00:00.000Z</timestamp><availabilityZone>us-east-1b</availabilityZone></item>"
    "</spotPriceHistorySet><nextToken></nextToken>"
)


@pytest.fixture
def market(stub: StubServer) -> StubServer:
    """A region with one type in one zone."""

    def answer(action: str, inner: str) -> None:
        stub.script(action, ok(action, inner))

    answer(
        "DescribeAvailabilityZones",
        "<availabilityZoneInfo><item><zoneName>us-east-1b</zoneName><zoneId>use1-az4</zoneId><zoneState>available"
        "</zoneState></item></availabilityZoneInfo>",
    )
    answer(
        "DescribeSubnets",
        "<subnetSet><item><subnetId>subnet-1</subnetId><state>available</state><availabilityZone>us-east-1b"
        "</availabilityZone><availableIpAddressCount>250</availableIpAddressCount></item></subnetSet>",
    )
    answer("DescribeInstanceTypes", TYPES)
    answer(
        "DescribeInstanceTypeOfferings",
        "<instanceTypeOfferingSet><item><instanceType>g6.xlarge</instanceType><location>use1-az4</location></item>"
        "</instanceTypeOfferingSet>",
    )
    answer("DescribeSpotPriceHistory", SPOT)
    stub.script("GetProducts", json_ok({"PriceList": [product("g6.xlarge", "0.8048000000")]}))
    answer(
        "DescribeImages",
        "<imagesSet>"
        + "".join(
            f"<item><imageId>ami-0000000{n}</imageId><creationDate>2026-0{n}-01T00:00:00.000Z</creationDate>"
            "<rootDeviceName>/dev/xvda</rootDeviceName><blockDeviceMapping><item><deviceName>/dev/xvda</deviceName>"
            "<ebs><volumeSize>60</volumeSize></ebs></item><item><deviceName>/dev/sdf</deviceName><ebs><volumeSize>9"
            "</volumeSize></ebs></item><item><deviceName>/dev/sdb</deviceName><virtualName>ephemeral0</virtualName>"
            "</item></blockDeviceMapping></item>"
            for n in (3, 5, 4)
        )
        + "</imagesSet>",
    )
    names = {
        "L-DB2E81BA": "Running On-Demand G and VT instances",
        "L-3819A6DF": "All G and VT Spot Instance Requests",
    }
    limits = [{"QuotaCode": code, "QuotaName": name, "Value": 64.0} for code, name in names.items()]
    stub.script("ListServiceQuotas", json_ok({"Quotas": limits}))
    stub.script("ListAWSDefaultServiceQuotas", json_ok({"Quotas": []}))
    answer("DescribeInstances", "<reservationSet/>")
    answer("DescribeVolumes", "<volumeSet/>")
    answer("DescribeSpotInstanceRequests", "<spotInstanceRequestSet/>")
    answer("DescribePlacementGroups", "<placementGroupSet/>")
    answer("DescribeCapacityReservations", "<capacityReservationSet/>")
    stub.script("ListRequestedServiceQuotaChangeHistory", json_ok({"RequestedQuotas": []}))
    answer(
        "DescribeRegions",
        "<regionInfo><item><regionName>us-east-1</regionName><optInStatus>opt-in-not-required</optInStatus>"
        "</item></regionInfo>",
    )
    answer(
        "DescribeRouteTables",
        "<routeTableSet><item><associationSet><item><main>true</main></item></associationSet><routeSet><item>"
        "<destinationCidrBlock>0.0.0.0/0</destinationCidrBlock><gatewayId>igw-1</gatewayId><state>active</state>"
        "</item></routeSet></item></routeTableSet>",
    )
    return stub


def fresh(stub: StubServer, **settings: Any) -> tuple[AwsProvider, FakeClock]:
    clock = FakeClock(waits_advance=True)
    return AwsProvider(account(stub.url, **settings), clock, environment=ENVIRONMENT), clock


def test_offers_carry_live_prices_of_both_kinds(market: StubServer) -> None:
    provider, _ = fresh(market)
    offers = provider.offers(REGION).offers
    assert [(o.key.capacity_type, o.price, o.price_source) for o in offers] == [
        (CapacityType.ON_DEMAND, 0.8048, "live"),
        (CapacityType.SPOT, 0.322, "live"),
    ]
    provider.close()


def test_what_changes_by_the_day_is_not_read_every_time(market: StubServer) -> None:
    provider, clock = fresh(market)
    for _ in range(3):
        provider.offers(REGION)
        clock.advance(30)
    reads = {action: len(market.sent(action)) for action, _ in market.requests}
    assert reads.pop("DescribeSpotPriceHistory") == 3
    assert set(reads.values()) == {1}
    clock.advance(7 * 3600)
    provider.offers(REGION)
    assert len(market.sent("DescribeInstanceTypeOfferings")) == 2
    assert len(market.sent("DescribeInstanceTypes")) == 1
    provider.close()


def test_without_the_pricing_api_list_prices_stand_in_and_it_is_asked_again_later(market: StubServer) -> None:
    provider, clock = fresh(market)
    market.script("GetProducts", json_error("AccessDeniedException", "no pricing:GetProducts"))
    offer = provider.offers(REGION).offers[0]
    assert (offer.price, offer.price_source) == (0.8048, "snapshot")
    assert offer.priced_at == READ_AT
    provider.offers(REGION)
    assert len(market.sent("GetProducts")) == 1
    market.script("GetProducts", json_ok({"PriceList": [product("g6.xlarge", "0.77")]}))
    clock.advance(601)
    assert provider.offers(REGION).offers[0].price == 0.77
    provider.close()


def test_a_region_that_cannot_be_read_raises_so_that_old_offers_stay(market: StubServer) -> None:
    provider, _ = fresh(market)
    market.script("DescribeSpotPriceHistory", error("UnauthorizedOperation", "no", 403))
    with pytest.raises(ProviderError) as caught:
        provider.offers(REGION)
    assert caught.value.kind is ErrorKind.AUTH
    provider.close()


def unprepared() -> LaunchRequest:
    key = OfferKey("aws", "lab", REGION, "use1-az4", "g6.xlarge", CapacityType.SPOT)
    return LaunchRequest("f" * 32, key, 1, "#cloud-config\n", {"corral-deployment": "d"}, disk_gib=20)


def test_prepare_freezes_zone_subnet_image_and_disks(market: StubServer) -> None:
    provider, _ = fresh(market, image="898082745236/Deep Learning Base *")
    ready = provider.prepare(unprepared())
    assert (ready.image, ready.subnet, ready.disk_gib) == ("ami-00000005", "subnet-1", 60)
    assert ready.extra["zone_name"] == "us-east-1b"
    assert (ready.extra["root_device"], ready.extra["data_devices"]) == ("/dev/xvda", "/dev/sdf")
    sent = market.sent("DescribeImages")[0]
    assert sent["Owner.1"] == "898082745236"
    assert provider.prepare(ready) == ready
    provider.close()


def test_an_image_may_be_held_by_a_parameter(market: StubServer) -> None:
    provider, _ = fresh(market, image="ssm:/aws/service/x/latest/ami-id")
    market.script("GetParameter", json_ok({"Parameter": {"Value": "ami-0123456789abcdef0"}}))
    provider.prepare(unprepared())
    assert market.sent("DescribeImages")[0]["ImageId.1"] == "ami-0123456789abcdef0"
    provider.close()


@pytest.mark.parametrize(
    ("image", "answer", "kind"),
    [
        ("self/corral-*", ok("DescribeImages", "<imagesSet/>"), ErrorKind.IMAGE_MISSING),
        ("ami-0123456789abcdef0", error("InvalidAMIID.NotFound", "gone"), ErrorKind.IMAGE_MISSING),
        ("ubuntu", ok("DescribeImages"), ErrorKind.INVALID_REQUEST),
    ],
)
def test_an_image_that_is_not_there_says_so_before_a_launch(
    market: StubServer, image: str, answer: Answer, kind: ErrorKind
) -> None:
    provider, _ = fresh(market, image=image)
    market.script("DescribeImages", answer)
    with pytest.raises(ProviderError) as caught:
        provider.prepare(unprepared())
    assert caught.value.kind is kind
    assert caught.value.scope.image == image
    provider.close()


CALLER = Answer(
    200,
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    "<Arn>arn:aws:iam::1:user/x</Arn><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>",
)


def test_check_tells_what_is_wrong_and_how_to_mend_it(market: StubServer) -> None:
    provider, _ = fresh(market)
    market.script("GetCallerIdentity", CALLER)
    market.script("RunInstances", error("DryRunOperation", "Request would have succeeded", 412))
    assert all(result.ok for result in provider.check())
    market.script("RunInstances", error("UnauthorizedOperation", "You are not authorized", 403))
    wrong = [result for result in provider.check() if not result.ok]
    assert [result.subject for result in wrong] == [f"{REGION} on-demand launch", f"{REGION} spot launch"]
    assert "permissions" in wrong[0].remedy
    provider.close()


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (json_ok({"Quotas": [{"QuotaCode": "L-DB2E81BA", "Value": 0.0}]}), "ask AWS for more"),
        (json_error("AccessDeniedException", "not authorized"), "servicequotas:ListServiceQuotas"),
    ],
)
def test_check_tells_an_account_without_quota_what_to_do(
    market: StubServer, answer: Answer, remedy: str
) -> None:
    provider, _ = fresh(market)
    market.script("GetCallerIdentity", CALLER)
    market.script("RunInstances", error("DryRunOperation", "Request would have succeeded", 412))
    market.script("ListServiceQuotas", answer)
    wrong = [result for result in provider.check() if not result.ok]
    assert [result.subject for result in wrong] == [f"{REGION} quotas"]
    assert remedy in wrong[0].remedy
    provider.close()


def test_check_tells_a_region_that_is_not_enabled_from_bad_credentials(market: StubServer) -> None:
    provider, _ = fresh(market)
    market.script("GetCallerIdentity", CALLER)
    market.script("DescribeAvailabilityZones", error("AuthFailure", "not able to validate", 401))
    wrong = [result for result in provider.check() if not result.ok]
    assert [result.subject for result in wrong] == [f"{REGION} network"]
    assert "enable this region" in wrong[0].remedy
    market.script("GetCallerIdentity", error("InvalidClientTokenId", "The security token is invalid", 403))
    assert [(result.subject, result.ok) for result in provider.check()] == [("credentials", False)]
    provider.close()
