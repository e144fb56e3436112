"""What stays behind when instances are gone is found and ended; and where EC2 says that it has more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.zone_hints import hinted
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, CloudInstance, InstanceRef, InstanceState, Scope
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.aws.conftest import REGION
from tests.providers.aws.stub import StubServer, ok
from tests.providers.contract import DEPLOYMENT, pick, request, start


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened() as one:
        yield one


def left_over(bench: AwsBench) -> list[CloudInstance]:
    """What is listed beside the instances that are over."""
    listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.complete
    return [one for one in listing.instances if one.state is not InstanceState.TERMINATED]


def ref_of(one: CloudInstance) -> InstanceRef:
    return InstanceRef(one.region, one.zone, one.provider_id)


def test_a_disk_that_outlived_its_instance_is_stopping_until_it_is_ended(bench: AwsBench) -> None:
    (ref,) = start(bench, request(pick(bench), "disk", prepared_by=bench.provider))
    bench.vm(ref.provider_id).keep = frozenset({"disk"})
    bench.provider.terminate([ref])
    bench.advance(120)
    (disk,) = left_over(bench)
    assert (disk.provider_id[:4], disk.state, disk.zone) == ("vol-", InstanceState.STOPPING, ref.zone)
    assert disk.created_at is not None
    assert disk.tags["corral-deployment"] == DEPLOYMENT
    assert bench.provider.describe([ref_of(disk)])[0].state is InstanceState.STOPPING
    bench.provider.terminate([ref_of(disk)])
    assert bench.provider.describe([ref_of(disk)])[0].state is InstanceState.ABSENT
    assert left_over(bench) == []
    assert bench.live()["disk"] == 0


def test_a_disk_that_is_in_use_is_no_leftover_and_is_not_deleted(bench: AwsBench) -> None:
    (ref,) = start(bench, request(pick(bench), "used", prepared_by=bench.provider))
    (volume,) = bench.vm(ref.provider_id).objects["disk"]
    assert [one.provider_id for one in left_over(bench)] == [ref.provider_id]
    bench.provider.terminate([InstanceRef(REGION, ref.zone, volume)])
    assert bench.live()["disk"] == 1


def test_instances_and_leftovers_are_described_in_the_order_that_was_asked(bench: AwsBench) -> None:
    (ref,) = start(bench, request(pick(bench), "order", prepared_by=bench.provider))
    asked = [InstanceRef(REGION, ref.zone, "vol-0123456789abcdef0"), ref]
    found = bench.provider.describe(asked)
    assert [one.provider_id for one in found] == [one.provider_id for one in asked]
    assert [one.state for one in found] == [InstanceState.ABSENT, InstanceState.RUNNING]


def test_IDE_08_an_open_spot_request_of_ours_is_listed_and_cancelled(
    provider: AwsProvider, stub: StubServer
) -> None:
    stub.script("DescribeInstances", ok("DescribeInstances", "<reservationSet/>"))
    stub.script("DescribePlacementGroups", ok("DescribePlacementGroups", "<placementGroupSet/>"))
    stub.script("DescribeVolumes", ok("DescribeVolumes", "<volumeSet/>"))
    item = (
        "<item><spotInstanceRequestId>sir-1</spotInstanceRequestId><state>open</state>"
        "<createTime>2026-03-01T00:00:00.000Z</createTime></item>"
    )
    stub.script(
        "DescribeSpotInstanceRequests",
        ok("DescribeSpotInstanceRequests", f"<spotInstanceRequestSet>{item}</spotInstanceRequestSet>"),
    )
    stub.script("CancelSpotInstanceRequests", ok("CancelSpotInstanceRequests"))
    (open_request,) = provider.list_instances(REGION, "d").instances
    assert (open_request.provider_id, open_request.state) == ("sir-1", InstanceState.STOPPING)
    asked = stub.sent("DescribeSpotInstanceRequests")[0]
    assert {asked["Filter.1.Name"], asked["Filter.2.Name"]} == {"tag:corral-deployment", "state"}
    provider.terminate([ref_of(open_request)])
    assert stub.sent("CancelSpotInstanceRequests")[0]["SpotInstanceRequestId.1"] == "sir-1"


def test_without_the_permission_to_see_leftovers_the_listing_of_instances_stands(bench: AwsBench) -> None:
    (ref,) = start(bench, request(pick(bench), "denied", prepared_by=bench.provider))
    for call in ("DescribeVolumes", "DescribeSpotInstanceRequests", "DescribePlacementGroups"):
        bench.fault(call, "error", code="UnauthorizedOperation", http_status=403, times=None)
    assert [one.provider_id for one in left_over(bench)] == [ref.provider_id]


# Where there is more


def test_a_stock_out_names_the_zones_that_have_some_by_their_ids(bench: AwsBench) -> None:
    offer = pick(bench)
    bench.exhaust(offer.key)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(request(offer, "hint", prepared_by=bench.provider))
    named = {scope.zone for scope in caught.value.available}
    assert named == {"use1-az1", "use1-az4", "use1-az6"} - {offer.key.zone}
    assert {scope.instance_type for scope in caught.value.available} == {offer.key.instance_type}
    assert {scope.capacity_type for scope in caught.value.available} == {offer.key.capacity_type}


SUBJECT = Scope("aws", "lab", REGION, "use1-az4", "g6.xlarge", "G", CapacityType.ON_DEMAND)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (ErrorKind.CAPACITY, "We currently do not have sufficient capacity."),
        (ErrorKind.CAPACITY, "not specifying a zone or choosing us-west-2a."),
        (ErrorKind.CAPACITY, "not specifying a zone or choosing us-east-1z."),
        (ErrorKind.QUOTA, "not specifying a zone or choosing us-east-1b."),
    ],
)
def test_a_message_that_names_no_zone_of_ours_is_no_hint(kind: ErrorKind, message: str) -> None:
    zones = {"us-east-1b": "use1-az6"}
    assert hinted(ProviderError(kind, message), SUBJECT, lambda name: zones.get(name, name)) == ()
