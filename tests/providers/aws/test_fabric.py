"""Gangs whose nodes stand close together: placement groups and EFA interfaces, against the local EC2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from providers.aws.fabric import Adapter, adapters, read, written
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceRef, InstanceState, LaunchRequest, OfferKey
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.contract import refs_of

DEPLOYMENT = "d"
BEHIND_NAT = {"us-east-1": {"public_address": False}}


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened(regions=BEHIND_NAT) as one:
        yield one


def gang(
    instance_type: str = "p5.48xlarge",
    capacity_type: CapacityType = CapacityType.ON_DEMAND,
    *,
    nodes: int = 2,
    token: str = "7" * 32,
    reservation: str | None = None,
    fabric: bool = True,
) -> LaunchRequest:
    key = OfferKey("aws", "lab", "us-east-1", "use1-az4", instance_type, capacity_type, reservation)
    tags = {"corral-deployment": DEPLOYMENT, "corral-token": token}
    return LaunchRequest(token, key, nodes, "#cloud-config\n", tags, 50, fabric=fabric)


def start(bench: AwsBench, request: LaunchRequest) -> list[InstanceRef]:
    prepared = bench.provider.prepare(request)
    refs = refs_of(prepared, bench.provider.launch(prepared))
    bench.advance(60)
    return list(refs)


def refusal(bench: AwsBench, request: LaunchRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(bench.provider.prepare(request))
    return caught.value


def states(bench: AwsBench) -> dict[str, InstanceState]:
    listing = bench.provider.list_instances("us-east-1", DEPLOYMENT)
    assert listing.complete
    return {one.provider_id: one.state for one in listing.instances}


def test_each_node_gets_an_efa_interface_on_each_card_and_one_address(bench: AwsBench) -> None:
    refs = start(bench, gang())
    vm = bench.vm(refs[0].provider_id)
    kinds = [kind for _, _, kind in vm.extra["interfaces"]]
    assert (kinds.count("interface"), kinds.count("efa-only")) == (1, 32)
    assert vm.public_ip is None
    assert {bench.vm(ref.provider_id).extra["group"] for ref in refs} == {f"corral-{'7' * 20}"}


def test_without_fabric_there_is_one_interface_and_no_group(bench: AwsBench) -> None:
    (ref,) = start(bench, gang(nodes=1, fabric=False))
    vm = bench.vm(ref.provider_id)
    assert (vm.extra["interfaces"], vm.extra["group"]) == (((0, 0, "interface"),), None)
    assert "CreatePlacementGroup" not in bench.calls()


def test_the_same_launch_again_adopts_its_group(bench: AwsBench) -> None:
    prepared = bench.provider.prepare(gang())
    first, again = bench.provider.launch(prepared), bench.provider.launch(prepared)
    assert refs_of(prepared, first) == refs_of(prepared, again)
    assert bench.live()["instance"] == 2


@pytest.mark.parametrize(
    ("instance_type", "regions", "says"),
    [
        ("g6.xlarge", BEHIND_NAT, "no Elastic Fabric Adapter"),
        ("p5.48xlarge", {"us-east-1": {}}, "public_address"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_made_and_blocks_nothing(
    instance_type: str, regions: dict[str, Any], says: str
) -> None:
    with opened(regions=regions) as bench:
        error = refusal(bench, gang(instance_type))
        assert error.kind is ErrorKind.UNSUPPORTED
        assert says in error.message
        assert error.avoid_for is not None
        assert not error.avoid_for
        assert {"CreatePlacementGroup", "RunInstances"} & bench.calls().keys() == set()


def test_a_stock_out_of_neighbours_removes_the_group_and_speaks_of_neighbours(bench: AwsBench) -> None:
    request = gang()
    bench.exhaust(request.offer)
    error = refusal(bench, request)
    assert (error.kind, error.scope.placement_group) == (ErrorKind.CAPACITY, "cluster")
    assert states(bench) == {}
    assert bench.calls()["DeletePlacementGroup"] == 1


def test_after_a_lost_reply_the_group_stays_with_the_gang(bench: AwsBench) -> None:
    bench.drop_next_reply()
    assert refusal(bench, gang()).ambiguous
    assert "DeletePlacementGroup" not in bench.calls()
    assert list(states(bench).values()) == [InstanceState.PENDING] * 2


def test_a_group_goes_when_its_gang_is_gone(bench: AwsBench) -> None:
    refs = start(bench, gang())
    bench.provider.terminate(refs)
    assert set(states(bench).values()) == {InstanceState.STOPPING}
    bench.advance(120)
    left = [ref for ref in refs if states(bench)[ref.provider_id] is InstanceState.STOPPING]
    assert len(left) == 1
    bench.provider.terminate(left)
    assert set(states(bench).values()) == {InstanceState.TERMINATED}


def test_a_group_whose_gang_ec2_has_forgotten_is_listed_and_ended_by_itself(bench: AwsBench) -> None:
    refs = start(bench, gang())
    made_at = bench.clock.now()
    bench.provider.terminate(refs)
    bench.advance(2 * 3600)
    (left,) = bench.provider.list_instances("us-east-1", DEPLOYMENT).instances
    assert (left.provider_id, left.state) == (f"corral-{'7' * 20}", InstanceState.STOPPING)
    assert left.created_at is not None
    assert left.created_at < made_at
    assert left.tags["corral-token"] == "7" * 32
    ref = InstanceRef(left.region, left.zone, left.provider_id)
    assert bench.provider.describe([ref])[0].state is InstanceState.STOPPING
    bench.provider.terminate([ref])
    assert bench.provider.describe([ref])[0].state is InstanceState.ABSENT
    assert states(bench) == {}


def test_groups_of_others_are_left_alone(bench: AwsBench) -> None:
    refs = start(bench, gang(fabric=False))
    for ref in refs:
        bench.vm(ref.provider_id).extra["group"] = "theirs"
    bench.provider.terminate(refs)
    assert "DeletePlacementGroup" not in bench.calls()


def test_a_group_that_may_not_be_made_speaks_of_this_offer_alone(bench: AwsBench) -> None:
    bench.fault("CreatePlacementGroup", "error", code="UnauthorizedOperation", http_status=403)
    error = refusal(bench, gang())
    assert error.kind is ErrorKind.AUTH
    assert (error.scope.zone, error.scope.instance_type) == ("use1-az4", "p5.48xlarge")
    assert "RunInstances" not in bench.calls()


def test_the_instances_of_a_block_need_no_group(bench: AwsBench) -> None:
    named = bench.reserve(2, kind="block", instance_type="p5.48xlarge", ends=86400)
    refs = start(bench, gang(capacity_type=CapacityType.RESERVED, reservation=named))
    assert bench.vm(refs[0].provider_id).extra["group"] is None
    assert len(bench.vm(refs[0].provider_id).extra["interfaces"]) == 33


def test_a_reservation_outside_a_group_cannot_give_fabric(bench: AwsBench) -> None:
    named = bench.reserve(2, instance_type="p5.48xlarge")
    error = refusal(bench, gang(capacity_type=CapacityType.RESERVED, reservation=named))
    assert error.kind is ErrorKind.UNSUPPORTED
    assert "cluster placement group" in error.message


def fabrics(bench: AwsBench) -> dict[str, str | None]:
    offers = [*bench.provider.offers("us-east-1").offers, *bench.provider.built_in_offers("us-east-1").offers]
    return {offer.type.name: offer.type.fabric for offer in offers}


def test_only_what_can_be_launched_with_fabric_is_offered_with_it(bench: AwsBench) -> None:
    assert fabrics(bench)["p5.48xlarge"] == "efa"
    assert fabrics(bench)["g6.xlarge"] is None
    with opened() as with_addresses:
        assert set(fabrics(with_addresses).values()) == {None}


def test_a_reservation_says_whether_its_instances_stand_close(bench: AwsBench) -> None:
    bench.reserve(2, instance_type="p5.48xlarge")
    bench.reserve(2, kind="block", instance_type="p5.48xlarge", ends=86400)
    found = bench.provider.reservations("us-east-1").reservations
    assert [one.type.fabric for one in found] == [None, "efa"]


CARDS = [{"NetworkCardIndex": n, "InterfaceTypes": ["interface", "efa", "efa-only"]} for n in range(3)]


def described(*cards: dict[str, Any], most: int = 8, strategies: tuple[str, ...] = ("cluster",)) -> Any:
    network = {"EfaSupported": True, "EfaInfo": {"MaximumEfaInterfaces": most}, "NetworkCards": list(cards)}
    return {"NetworkInfo": network, "PlacementGroupInfo": {"SupportedStrategies": list(strategies)}}


@pytest.mark.parametrize(
    ("raw", "layout"),
    [
        (described(*CARDS), ((0, 1, "efa-only"), (1, 0, "efa-only"), (2, 0, "efa-only"))),
        (described(*CARDS, most=2), ((0, 1, "efa-only"), (1, 0, "efa-only"))),
        (
            described({"NetworkCardIndex": 0, "InterfaceTypes": ["interface"]}, CARDS[1]),
            ((1, 0, "efa-only"),),
        ),
        (described({"NetworkCardIndex": 0, "InterfaceTypes": ["interface", "efa"]}), ((0, 1, "efa"),)),
        (described({"NetworkCardIndex": 0}), ((0, 1, "efa"),)),
        (described(*CARDS, strategies=("partition", "spread")), ()),
        ({"NetworkInfo": {"EfaSupported": False}}, ()),
    ],
)
def test_the_layout_follows_what_each_card_can(raw: Any, layout: tuple[tuple[int, int, str], ...]) -> None:
    found = adapters(raw)
    assert found == tuple(Adapter(*one) for one in layout)
    assert read(written(found)) == found
