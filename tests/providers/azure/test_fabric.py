"""InfiniBand on Azure: a gang in an availability set of its own, which goes when the gang has gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from providers.azure.versions import COMPUTE
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, InstanceState, LaunchRequest
from tests.providers.azure.bench import DEPLOYMENT, SIZE, AzureBench
from tests.providers.azure.bench import bench as opened

DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT
H100 = "Standard_ND96isr_H100_v5"


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def ask(bench: AzureBench, *, nodes: int = 2, name: str = "a", **key: Any) -> LaunchRequest:
    offer = bench.offer(**{"capacity_type": DEMAND, "zone": "eastus", "size": H100} | key)
    token = (name.encode().hex() * 32)[:32]
    tags = {"corral-deployment": DEPLOYMENT}
    return bench.provider.prepare(LaunchRequest(token, offer, nodes, "", tags, 50, fabric=True))


def sets(bench: AzureBench) -> list[dict[str, Any]]:
    arm = bench.provider._arm
    return arm.pages(f"{arm.group}/providers/Microsoft.Compute/availabilitySets", COMPUTE)


def test_only_on_demand_offers_without_a_zone_have_infiniband(bench: AzureBench) -> None:
    found = {
        (offer.key.zone, offer.key.capacity_type)
        for offer in bench.provider.offers("eastus").offers
        if offer.type.fabric == "infiniband" and offer.key.instance_type == H100
    }
    assert found == {("eastus", DEMAND)}
    sizes = {offer.key.instance_type for offer in bench.provider.offers("eastus").offers if offer.type.fabric}
    assert sizes == {
        H100,
        "Standard_ND96isr_H200_v5",
        "Standard_ND96asr_v4",
        "Standard_ND96amsr_A100_v4",
        "Standard_ND128isr_NDR_GB200_v6",
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": SIZE}, "no InfiniBand"),
        ({"zone": "eastus-1"}, "without a zone"),
        ({"capacity_type": SPOT}, "on demand only"),
        ({"nodes": 201}, "200 at most"),
    ],
)
def test_a_gang_that_cannot_have_it_is_refused_before_anything_is_made(
    bench: AzureBench, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ProviderError, match=said) as caught:
        ask(bench, **change)
    assert caught.value.kind is ErrorKind.UNSUPPORTED
    assert caught.value.avoid_for is not None
    assert not caught.value.avoid_for
    assert sets(bench) == []


def test_the_nodes_stand_in_one_set_of_one_fault_domain(bench: AzureBench) -> None:
    asked = ask(bench)
    bench.provider.launch(asked)
    (one,) = sets(bench)
    assert one["name"] == f"corral-{asked.token[:20]}"
    assert one["tags"]["corral-deployment"] == DEPLOYMENT
    assert one["properties"]["platformFaultDomainCount"] == 1
    assert [row["id"].rpartition("/")[2] for row in one["properties"]["virtualMachines"]] == list(
        asked.names()
    )


def test_a_launch_without_it_makes_no_set(bench: AzureBench) -> None:
    bench.provider.launch(bench.ask(bench.offer(DEMAND, "eastus", H100), nodes=2))
    assert sets(bench) == []


def test_sent_again_it_is_the_same_set_and_the_same_nodes(bench: AzureBench) -> None:
    asked = ask(bench)
    bench.drop_next_reply()
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert caught.value.ambiguous
    bench.provider.launch(asked)
    assert (len(sets(bench)), bench.live()["instance"]) == (1, 2)


def test_the_set_goes_with_the_last_of_the_gang_and_not_before(bench: AzureBench) -> None:
    asked = ask(bench)
    refs = bench.refs(asked, bench.provider.launch(asked))
    bench.advance(120)
    bench.provider.terminate(refs[:1])
    bench.advance(120)
    shown = bench.provider.list_instances("eastus", DEPLOYMENT).instances
    assert [one.provider_id for one in shown] == [refs[1].provider_id]
    bench.provider.terminate(refs)
    bench.advance(120)
    (left,) = bench.provider.list_instances("eastus", DEPLOYMENT).instances
    assert (left.provider_id, left.state) == (refs[0].provider_id, InstanceState.STOPPING)
    assert "availabilitySets" in left.detail
    bench.provider.terminate(refs)
    assert sets(bench) == []
    assert bench.provider.list_instances("eastus", DEPLOYMENT).instances == ()


def test_a_set_in_use_is_no_failure_of_an_end(bench: AzureBench) -> None:
    asked = ask(bench)
    refs = bench.refs(asked, bench.provider.launch(asked))
    bench.advance(120)
    bench.provider.terminate(refs[:1])
    bench.advance(120)
    bench.provider.terminate(refs[:1])
    assert len(sets(bench)) == 1


def test_a_refusal_of_the_first_node_leaves_no_set(bench: AzureBench) -> None:
    bench.limit_quota(bench.offer(DEMAND, "eastus", H100), 0)
    asked = ask(bench)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.QUOTA, False)
    assert sets(bench) == []


def test_a_full_cluster_is_a_word_on_that_set_and_for_a_short_while(bench: AzureBench) -> None:
    bench.exhaust(bench.offer(DEMAND, "eastus", H100))
    asked = ask(bench)
    launched = bench.provider.launch(asked)
    bench.advance(30)
    error = bench.provider.describe(bench.refs(asked, launched))[0].error
    assert isinstance(error, ProviderError)
    assert (error.kind, error.scope.placement_group) == (ErrorKind.CAPACITY, f"corral-{asked.token[:20]}")
    assert error.avoid_for is not None
    assert error.avoid_for.total_seconds() <= 600


def test_a_set_that_cannot_be_made_is_the_launchs_error(bench: AzureBench) -> None:
    bench.cloud.fault("AvailabilitySets_CreateOrUpdate", "error", code="AuthorizationFailed", http_status=403)
    asked = ask(bench)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.AUTH, False)
    assert bench.live().get("instance", 0) == 0


def test_a_prepared_gang_is_the_same_for_another_process(bench: AzureBench) -> None:
    asked = ask(bench)
    assert bench.provider.prepare(asked) == asked
    raw = replace(asked, image=None, subnet=None, extra={})
    assert bench.provider.prepare(raw) == asked
