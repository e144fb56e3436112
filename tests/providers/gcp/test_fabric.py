"""Gangs placed close together on a fast interconnect, and what is left of instances that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp import fabric
from providers.vocabulary import CapacityType, EndReason, InstanceRef, InstanceState, LaunchRequest, Offer
from sandbox.reservations import ReservationRule
from tests.providers.contract import DEPLOYMENT, refs_of, request, settle, start, total
from tests.providers.gcp.bench import REGION, GceBench
from tests.sandbox.gce import PROJECT, local_gce

GPU = [f"gpu-{number}" for number in range(8)]
RDMA = ["gpu-8", *(f"rdma-{number}" for number in range(8))]
FABRIC = {"a3-megagpu-8g": GPU, "a4-highgpu-8g": RDMA}
POLICIES = f"/compute/v1/projects/{PROJECT}/regions/{REGION}/resourcePolicies"


@pytest.fixture
def wired() -> Iterator[GceBench]:
    """An account whose region has the networks for fast interconnects."""
    with local_gce({"gcp": {"verdict_seconds": 2, "boot_seconds": 20}}) as gce:
        made = GceBench(gce, regions={REGION: {"fabric_subnets": FABRIC}})
        yield made
        made.provider.close()


def offer_of(bench: GceBench, name: str, how: CapacityType = CapacityType.SPOT) -> Offer:
    offers = bench.provider.offers(REGION).offers
    return next(o for o in offers if (o.key.instance_type, o.key.capacity_type) == (name, how))


def close(bench: GceBench, name: str, token: str, nodes: int = 2) -> LaunchRequest:
    """A launch of a gang that is to be placed close together."""
    raw = request(offer_of(bench, name), token, nodes=nodes, prepared_by=None)
    return bench.provider.prepare(replace(raw, fabric=True))


def policies(bench: GceBench) -> list[str]:
    found = httpx.get(bench.gce.url + POLICIES).json().get("items", [])
    return [policy["name"] for policy in found]


def listed(bench: GceBench) -> dict[str, InstanceState]:
    listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.complete
    return {instance.name: instance.state for instance in listing.instances}


# Offers


def test_a_type_has_the_interconnect_that_the_regions_networks_give_it(
    wired: GceBench, bench: GceBench
) -> None:
    for name in FABRIC:
        assert offer_of(wired, name).type.fabric == "gpudirect"
        assert offer_of(bench, name).type.fabric is None
    assert offer_of(wired, "a3-ultragpu-8g").type.fabric is None
    assert offer_of(wired, "g2-standard-48").type.fabric is None


def test_offers_say_how_gpus_reach_each_other(bench: GceBench) -> None:
    links = {
        name: accelerator.link if (accelerator := offer_of(bench, name).type.accelerator) else None
        for name in ("a2-highgpu-1g", "a2-highgpu-8g", "g2-standard-48", "a4-highgpu-8g")
    }
    assert links == {
        "a2-highgpu-1g": None,
        "a2-highgpu-8g": "nvlink",
        "g2-standard-48": "pcie",
        "a4-highgpu-8g": "nvlink",
    }


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("g2-standard-8", "has no fast interconnect; types that have one: a3-highgpu-8g"),
        ("a3-ultragpu-8g", "set fabric_subnets of region us-central1"),
    ],
)
def test_a_type_without_an_interconnect_is_refused_before_anything_is_made(
    wired: GceBench, name: str, said: str
) -> None:
    with pytest.raises(ProviderError, match=said) as caught:
        close(wired, name, "slow")
    assert caught.value.kind is ErrorKind.UNSUPPORTED
    assert caught.value.scope.covers(offer_of(wired, name))
    assert not caught.value.scope.covers(offer_of(wired, "a3-megagpu-8g"))
    assert policies(wired) == []


# Launches


@pytest.mark.parametrize(("name", "kinds"), [(n, fabric.INTERFACES[n]) for n in FABRIC])
def test_a_gang_gets_one_policy_and_every_interface_of_its_type(
    wired: GceBench, name: str, kinds: tuple[str, ...]
) -> None:
    asked = close(wired, name, "gang")
    start(wired, asked)
    vms = wired.gce.vms()
    assert len(vms) == 2
    for vm in vms:
        assert [more.kind for more in vm.extra["more_interfaces"]] == list(kinds)
        assert [more.subnet for more in vm.extra["more_interfaces"]] == FABRIC[name]
        assert vm.extra["resource_policies"] == policies(wired) == [asked.names()[0][:-2]]


def test_one_node_is_wired_like_a_gang(wired: GceBench) -> None:
    start(wired, close(wired, "a3-megagpu-8g", "single", nodes=1))
    (vm,) = wired.gce.vms()
    assert len(vm.extra["more_interfaces"]) == 8
    assert vm.extra["resource_policies"] == policies(wired)


def test_sending_again_adopts_policy_and_instances(wired: GceBench) -> None:
    asked = close(wired, "a3-megagpu-8g", "again")
    wired.provider.launch(asked)
    wired.provider.launch(asked)
    settle(wired)
    wired.provider.launch(asked)
    assert (len(policies(wired)), len(wired.gce.vms())) == (1, 2)


def test_a_launch_that_is_not_to_be_close_makes_no_policy(wired: GceBench) -> None:
    start(wired, request(offer_of(wired, "a3-megagpu-8g"), "far", nodes=2, prepared_by=wired.provider))
    assert policies(wired) == []
    assert all(vm.extra["more_interfaces"] == [] for vm in wired.gce.vms())


def test_a_policy_that_cannot_be_made_leaves_nothing_and_no_doubt(wired: GceBench) -> None:
    wired.gce.fault("resourcePolicies.insert", "error", http_status=503)
    with pytest.raises(ProviderError) as caught:
        wired.provider.launch(close(wired, "a3-megagpu-8g", "refused"))
    assert (caught.value.kind, caught.value.ambiguous) == (ErrorKind.TRANSIENT, False)
    assert total(wired) == 0


def test_a_launch_that_is_refused_at_once_takes_its_policy_back(wired: GceBench) -> None:
    wired.gce.fault("instances.bulkInsert", "error", code="quotaExceeded", http_status=403)
    with pytest.raises(ProviderError):
        wired.provider.launch(close(wired, "a3-megagpu-8g", "refused"))
    assert policies(wired) == []


def test_a_reservation_that_is_not_placed_closely_cannot_take_a_close_gang(wired: GceBench) -> None:
    rule = {"provider": "gcp", "name": "paid", "zone": f"{REGION}-a", "instance_type": "a3-megagpu-8g"}
    wired.gce.world.reserve(ReservationRule.model_validate({**rule, "count": 2}))
    asked = request(offer_of(wired, "a3-megagpu-8g"), "reserved", prepared_by=None)
    key = replace(
        asked.offer,
        zone=f"{REGION}-a",
        capacity_type=CapacityType.RESERVED,
        reservation=f"{REGION}-a/paid",
    )
    with pytest.raises(ProviderError, match="without a placement policy") as caught:
        wired.provider.prepare(replace(asked, offer=key, fabric=True))
    assert caught.value.kind is ErrorKind.UNSUPPORTED


# What is left


def test_the_policy_goes_when_the_gang_is_gone(wired: GceBench) -> None:
    refs = start(wired, close(wired, "a3-megagpu-8g", "over"))
    wired.provider.terminate(refs)
    wired.advance(1200)
    assert policies(wired)
    assert listed(wired) == {refs[0].provider_id: InstanceState.STOPPING}
    wired.provider.terminate(refs[:1])
    assert policies(wired) == []
    assert listed(wired) == {}


def test_a_gang_that_was_taken_back_shows_as_preempted_while_its_policy_is_left(wired: GceBench) -> None:
    start(wired, close(wired, "a3-megagpu-8g", "taken"))
    wired.advance(700)
    for vm in wired.gce.vms():
        wired.gce.world.preempt(vm, notice=False)
    wired.advance(60)
    (left,) = wired.provider.list_instances(REGION, DEPLOYMENT).instances
    assert (left.state, left.end_reason) == (InstanceState.STOPPING, EndReason.PREEMPTED)


def test_while_one_of_the_gang_lives_its_policy_is_no_leftover(wired: GceBench) -> None:
    refs = start(wired, close(wired, "a3-megagpu-8g", "half"))
    wired.provider.terminate(refs[:1])
    wired.advance(1200)
    assert listed(wired) == {refs[1].provider_id: InstanceState.RUNNING}
    wired.provider.terminate(refs[:1])
    assert policies(wired)


def test_a_young_policy_is_no_leftover(wired: GceBench) -> None:
    asked = close(wired, "a3-megagpu-8g", "young")
    wired.gce.fault("instances.bulkInsert", "error", http_status=503)
    with pytest.raises(ProviderError):
        wired.provider.launch(asked)
    assert policies(wired)
    assert listed(wired) == {}
    wired.advance(700)
    assert listed(wired) == {asked.names()[0]: InstanceState.STOPPING}


def kept_disk(bench: GceBench) -> InstanceRef:
    """An instance of ours whose disk outlives it, as after a half-failed deletion."""
    asked = request(offer_of(bench, "g2-standard-8"), "kept", prepared_by=bench.provider)
    launched = bench.provider.launch(asked)
    settle(bench)
    (vm,) = bench.gce.vms()
    vm.keep = frozenset({"disk"})
    bench.gce.world.terminate(vm)
    bench.advance(1200)
    return refs_of(asked, launched)[0]


def test_a_disk_whose_instance_is_gone_shows_as_stopping_until_it_is_removed(bench: GceBench) -> None:
    ref = kept_disk(bench)
    assert listed(bench) == {ref.provider_id: InstanceState.STOPPING}
    found = bench.provider.list_instances(REGION, DEPLOYMENT).instances[0]
    assert found.tags["corral-token"]
    assert found.created_at is not None
    bench.provider.terminate([ref])
    assert listed(bench) == {}
    assert total(bench) == 0


@pytest.mark.parametrize("call", ["disks.aggregatedList", "resourcePolicies.list"])
def test_leftovers_that_cannot_be_read_make_the_listing_incomplete(bench: GceBench, call: str) -> None:
    (ref,) = start(bench, request(offer_of(bench, "g2-standard-8"), "seen", prepared_by=bench.provider))
    bench.gce.fault(call, "error", code="forbidden", http_status=403, times=None)
    listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.incomplete == (call.partition(".")[0],)
    assert [instance.name for instance in listing.instances] == [ref.provider_id]


def test_nothing_is_a_leftover_in_a_zone_that_cannot_be_read(bench: GceBench) -> None:
    ref = kept_disk(bench)
    bench.gce.fault("instances.aggregatedList", "unreachable", value=ref.zone, times=None)
    listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert (listing.instances, listing.incomplete) == ((), (ref.zone,))


def test_settings_that_do_not_fit_a_type_are_said(bench: GceBench) -> None:
    region: Any = {"fabric_subnets": {"a3-megagpu-8g": GPU[:3], "g2-standard-8": GPU}}
    with_faults = GceBench(bench.gce, regions={REGION: region})
    text = fabric.fault_in(with_faults.provider._config.regions[REGION])
    assert "a3-megagpu-8g takes 8 further interfaces, 3 subnetworks are given" in text
    assert "g2-standard-8 takes no further interfaces" in text
    assert offer_of(with_faults, "a3-megagpu-8g").type.fabric is None
    with_faults.provider.close()
