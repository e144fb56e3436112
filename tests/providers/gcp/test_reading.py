"""What the adapter sees of instances: their states, their ends, and what it could not see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.read_retries import ATTEMPTS
from providers.vocabulary import (
    CapacityType,
    EndReason,
    InstanceRef,
    InstanceState,
    LaunchRequest,
)
from tests.providers.contract import DEPLOYMENT, refs_of, request, settle, start
from tests.providers.gcp.bench import REGION, GceBench

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def asked(
    bench: GceBench, name: str, how: CapacityType = SPOT, nodes: int = 1, zone: str = "a"
) -> LaunchRequest:
    """A prepared request for a zone."""
    wanted = ("g2-standard-8", how, f"{REGION}-{zone}")
    offers = bench.provider.offers(REGION).offers
    keys = {(o.key.instance_type, o.key.capacity_type, o.key.zone): o for o in offers}
    return request(keys[wanted], name, nodes=nodes, prepared_by=bench.provider)


def running(bench: GceBench, name: str = "job", how: CapacityType = SPOT) -> InstanceRef:
    return start(bench, asked(bench, name, how))[0]


# States


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("PENDING", InstanceState.PENDING),
        ("PROVISIONING", InstanceState.PENDING),
        ("STAGING", InstanceState.PENDING),
        ("RUNNING", InstanceState.RUNNING),
        ("PENDING_STOP", InstanceState.STOPPING),
        ("STOPPING", InstanceState.STOPPING),
        ("SUSPENDING", InstanceState.STOPPING),
        ("DEPROVISIONING", InstanceState.STOPPING),
        ("SUSPENDED", InstanceState.STOPPED),
        ("STOPPED", InstanceState.STOPPED),
        ("TERMINATED", InstanceState.STOPPED),
        ("REPAIRING", InstanceState.UNKNOWN),
    ],
)
def test_INV_07_every_status_of_the_api_has_a_meaning(
    bench: GceBench, status: str, state: InstanceState
) -> None:
    ref = running(bench, how=ON_DEMAND)
    bench.gce.fault("instances.get", "state", value=status)
    seen = bench.provider.describe([ref])[0]
    assert seen.state is state
    assert seen.detail == status
    assert seen.error is None


def test_a_launch_is_pending_until_the_guest_runs(bench: GceBench) -> None:
    wanted = asked(bench, "job")
    refs = refs_of(wanted, bench.provider.launch(wanted))
    states = []
    for _ in range(6):
        states.append(bench.provider.describe(refs)[0].state)
        bench.advance(5)
    assert states[0] is InstanceState.PENDING
    assert states[-1] is InstanceState.RUNNING
    assert set(states) == {InstanceState.PENDING, InstanceState.RUNNING}


def test_many_instances_of_a_zone_are_read_in_few_calls(bench: GceBench) -> None:
    wanted = asked(bench, "gang", ON_DEMAND, nodes=8)
    refs = start(bench, wanted)
    before = bench.gce.calls()
    assert [i.node for i in bench.provider.describe(refs)] == list(range(8))
    after = bench.gce.calls()
    spent = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert spent == {"instances.list": 1}


def test_order_is_kept_across_zones_and_repeats(bench: GceBench) -> None:
    first = start(bench, asked(bench, "one", zone="a"))[0]
    second = start(bench, asked(bench, "two", zone="b"))[0]
    refs = [second, first, second]
    assert [i.provider_id for i in bench.provider.describe(refs)] == [ref.provider_id for ref in refs]


def test_two_refusals_in_one_zone_are_not_mixed_up(bench: GceBench) -> None:
    first, second = asked(bench, "one"), asked(bench, "two", ON_DEMAND)
    bench.exhaust(first.offer)
    bench.limit_quota(second.offer, 0)
    refs = [ref for wanted in (first, second) for ref in refs_of(wanted, bench.provider.launch(wanted))]
    settle(bench)
    errors = [i.error for i in bench.provider.describe(refs)]
    kinds = [error.kind for error in errors if isinstance(error, ProviderError)]
    assert kinds == [ErrorKind.CAPACITY, ErrorKind.QUOTA]


@pytest.mark.parametrize("name", ["", "*", "x|corral-.*", 'a")', "../x"])
def test_LIF_13_what_can_be_no_name_is_absent_and_not_looked_for(bench: GceBench, name: str) -> None:
    ref = running(bench)
    before = bench.gce.calls()
    assert bench.provider.describe([replace(ref, provider_id=name)] * 5)[0].state is InstanceState.ABSENT
    assert bench.gce.calls() == before


# Ends


def test_a_preemption_shows_from_its_notice_on(bench: GceBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPING, EndReason.PREEMPTED)
    bench.advance(200)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.PREEMPTED)


def test_a_preemption_shows_in_the_listing_too(bench: GceBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    listed = bench.provider.list_instances(REGION, DEPLOYMENT).instances
    assert [(i.state, i.end_reason) for i in listed] == [(InstanceState.STOPPING, EndReason.PREEMPTED)]


def test_PRE_02_a_preemption_without_notice_is_told_from_outside(bench: GceBench) -> None:
    ref = running(bench)
    bench.gce.world.preempt(bench.vm(ref.provider_id), notice=False)
    bench.advance(60)
    assert bench.provider.describe([ref])[0].end_reason is EndReason.PREEMPTED


def test_PRE_11_a_preempted_instance_leaves_no_disk(bench: GceBench) -> None:
    for number in range(5):
        ref = running(bench, f"job-{number}")
        bench.preempt(ref.provider_id)
        bench.advance(100)
    assert set(bench.live().values()) == {0}


def test_our_deleting_a_preempted_instance_does_not_hide_its_preemption(bench: GceBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    bench.provider.terminate([ref])
    bench.advance(200)
    assert bench.provider.describe([ref])[0].end_reason is EndReason.PREEMPTED


def test_a_dead_host_is_told_from_a_preemption(bench: GceBench) -> None:
    ref = running(bench)
    bench.gce.world.kill(bench.vm(ref.provider_id))
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.HOST_FAILURE)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_deletion_by_somebody_is_told_as_such(bench: GceBench, nodes: int) -> None:
    refs = start(bench, asked(bench, "job", nodes=nodes))
    bench.delete_behind_our_back(refs[0].provider_id)
    assert bench.provider.describe(refs)[0].state is InstanceState.STOPPING
    bench.advance(60)
    seen = bench.provider.describe(refs)[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.USER)


def test_a_deletion_while_it_is_being_created_is_an_end_and_no_failure(bench: GceBench) -> None:
    wanted = asked(bench, "job")
    refs = refs_of(wanted, bench.provider.launch(wanted))
    bench.provider.terminate(refs)
    bench.advance(60)
    seen = bench.provider.describe(refs)[0]
    assert (seen.state, seen.error) == (InstanceState.TERMINATED, None)
    assert bench.live()["instance"] == 0


def test_a_guest_that_powers_off_leaves_an_instance_to_delete(bench: GceBench) -> None:
    ref = running(bench)
    bench.gce.machines.off.append(bench.vm(ref.provider_id))
    bench.advance(1)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPED, EndReason.USER)
    assert not bench.provider.reclaims_powered_off
    assert bench.live()["disk"] == 1
    bench.provider.terminate([ref])
    bench.advance(60)
    assert set(bench.live().values()) == {0}


def test_an_instance_that_is_gone_without_a_trace_is_absent(bench: GceBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    bench.advance(200)
    # The API keeps operations for a limited time.
    bench.gce.fault("zoneOperations.list", "empty_page", times=1)
    later = replace(ref, provider_id=bench.unknown_id(), operation="operation-1-2-3:g2-standard-8")
    assert bench.provider.describe([later])[0].state is InstanceState.ABSENT


# What cannot be seen


def test_IDE_03_a_new_instance_that_reads_deny_is_not_over(bench: GceBench) -> None:
    bench.set_lag(30)
    wanted = asked(bench, "job")
    refs = refs_of(wanted, bench.provider.launch(wanted))
    seen = []
    for _ in range(8):
        seen.append(bench.provider.describe(refs)[0])
        bench.advance(5)
    assert {i.state for i in seen} <= {InstanceState.PENDING, InstanceState.ABSENT, InstanceState.RUNNING}
    assert all(i.error is None and i.end_reason is None for i in seen)
    assert bench.provider.describe(refs)[0].state is InstanceState.RUNNING


@pytest.mark.parametrize("fault", ["lost", "error", "throttle"])
def test_trouble_with_the_operation_is_never_a_verdict(bench: GceBench, fault: str) -> None:
    """Karpenter for GCP once made a second instance after a 503 of a poll (its issue 267)."""
    wanted = asked(bench, "gang", nodes=2)
    bench.set_lag(600)
    refs = refs_of(wanted, bench.provider.launch(wanted))
    code = {"code": "backendError", "http_status": 503} if fault == "error" else {}
    bench.gce.fault("zoneOperations.*", fault, times=20, **code)
    seen = bench.provider.describe(refs)
    allowed = {InstanceState.PENDING, InstanceState.ABSENT, InstanceState.UNKNOWN}
    assert {i.state for i in seen} <= allowed
    assert all(i.error is None for i in seen)


def test_an_operation_that_never_ends_leaves_the_launch_pending(bench: GceBench) -> None:
    bench.set_lag(10_000)
    wanted = asked(bench, "job")
    bench.gce.fault("instances.insert", "stuck")
    refs = refs_of(wanted, bench.provider.launch(wanted))
    bench.advance(900)
    assert bench.provider.describe(refs)[0].state is InstanceState.PENDING


@pytest.mark.parametrize("nodes", [1, 5])
def test_an_instance_that_cannot_be_read_is_unknown_and_says_why(bench: GceBench, nodes: int) -> None:
    refs = start(bench, asked(bench, "job", ON_DEMAND, nodes=nodes))
    bench.gce.fault("instances.*", "error", code="backendError", http_status=503, times=30)
    seen = bench.provider.describe(refs)
    assert {i.state for i in seen} == {InstanceState.UNKNOWN}
    assert "backendError" in seen[0].detail


def test_one_zone_that_cannot_be_read_does_not_hide_another(bench: GceBench) -> None:
    bad = start(bench, asked(bench, "one", ON_DEMAND, zone="a"))[0]
    good = start(bench, asked(bench, "two", ON_DEMAND, zone="b"))[0]
    bench.gce.fault("instances.get", "error", http_status=502, times=10, match={"zone": f"{REGION}-a"})
    states = [i.state for i in bench.provider.describe([bad, good])]
    assert states == [InstanceState.UNKNOWN, InstanceState.RUNNING]


def test_find_is_incomplete_where_the_zone_cannot_be_read(bench: GceBench) -> None:
    wanted = asked(bench, "job")
    start(bench, wanted)
    bench.gce.fault("instances.get", "error", http_status=502, times=10)
    found = bench.provider.find(wanted)
    assert not found.complete
    assert found.instances == ()


def test_find_shows_an_instance_whose_state_has_no_name_of_ours(bench: GceBench) -> None:
    wanted = asked(bench, "job")
    start(bench, wanted)
    bench.gce.fault("instances.get", "state", value="REPAIRING")
    found = bench.provider.find(wanted)
    assert found.complete
    assert [i.state for i in found.instances] == [InstanceState.UNKNOWN]


def test_a_read_is_tried_again_after_a_passing_fault(bench: GceBench) -> None:
    ref = running(bench, how=ON_DEMAND)
    bench.gce.fault("instances.get", "error", http_status=502, times=2)
    assert bench.provider.describe([ref])[0].state is InstanceState.RUNNING


def test_a_read_is_given_up_after_a_few_tries(bench: GceBench) -> None:
    ref = running(bench, how=ON_DEMAND)
    before = bench.gce.calls().get("instances.get", 0)
    bench.gce.fault("instances.get", "throttle", times=50)
    assert bench.provider.describe([ref])[0].state is InstanceState.UNKNOWN
    assert bench.gce.calls()["instances.get"] - before == ATTEMPTS


# Listings


def test_INV_03_every_page_is_read_an_empty_one_in_the_middle_too(bench: GceBench) -> None:
    from providers.gcp import instances

    for number in range(7):
        start(bench, asked(bench, f"job-{number}", zone="abc"[number % 3]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instances, "_PAGE", 2)
        bench.gce.fault("instances.aggregatedList", "empty_page", skip=1)
        bench.gce.fault("instances.aggregatedList", "throttle", skip=2)
        listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.complete
    assert len(listing.instances) == 7
    assert bench.gce.calls()["instances.aggregatedList"] >= 6


def test_a_page_that_fails_makes_the_listing_incomplete_and_keeps_what_was_read(bench: GceBench) -> None:
    from providers.gcp import instances

    for number in range(3):
        start(bench, asked(bench, f"job-{number}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instances, "_PAGE", 2)
        bench.gce.fault("instances.aggregatedList", "error", http_status=502, skip=1, times=10)
        listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.incomplete == (REGION,)
    assert len(listing.instances) == 2


def test_a_listing_of_which_nothing_can_be_read_is_an_error(bench: GceBench) -> None:
    bench.gce.fault("instances.aggregatedList", "error", code="forbidden", http_status=403, times=10)
    with pytest.raises(ProviderError) as caught:
        bench.provider.list_instances(REGION, DEPLOYMENT)
    assert caught.value.kind is ErrorKind.AUTH


def test_an_unreachable_zone_makes_the_listing_incomplete(bench: GceBench) -> None:
    start(bench, asked(bench, "one", zone="a"))
    there = start(bench, asked(bench, "two", zone="b"))[0]
    bench.gce.fault("instances.aggregatedList", "unreachable", value=f"{REGION}-a")
    listing = bench.provider.list_instances(REGION, DEPLOYMENT)
    assert listing.incomplete == (f"{REGION}-a",)
    assert [i.provider_id for i in listing.instances] == [there.provider_id]


def test_an_unreachable_zone_of_another_region_does_not_matter(bench: GceBench) -> None:
    bench.gce.fault("instances.aggregatedList", "unreachable", value="us-east4-a")
    assert bench.provider.list_instances(REGION, DEPLOYMENT).complete


@pytest.mark.parametrize("deployment", ["", "*", " ", 'a" OR labels.x:*', "UPPER"])
def test_LIF_13_a_listing_needs_a_deployment(bench: GceBench, deployment: str) -> None:
    with pytest.raises(ProviderError) as caught:
        bench.provider.list_instances(REGION, deployment)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert bench.gce.calls() == {}


# Ending


@pytest.mark.parametrize("name", ["", "*", " ", "a/b", "../x", "UPPER"])
def test_LIF_13_only_what_is_named_exactly_is_deleted(bench: GceBench, name: str) -> None:
    ref = running(bench)
    with pytest.raises(ProviderError) as caught:
        bench.provider.terminate([ref, replace(ref, provider_id=name)])
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert len(bench.gce.vms()) == 1
    assert "instances.delete" not in bench.gce.calls()


def test_one_deletion_that_fails_does_not_stop_the_others(bench: GceBench) -> None:
    refs = start(bench, asked(bench, "gang", nodes=3))
    bench.gce.fault("instances.delete", "error", http_status=502, match={"instance": refs[0].provider_id})
    with pytest.raises(ProviderError) as caught:
        bench.provider.terminate(refs)
    assert caught.value.kind is ErrorKind.TRANSIENT
    bench.advance(60)
    assert [vm.name for vm in bench.gce.vms()] == [refs[0].provider_id]
    bench.provider.terminate(refs)
    settle(bench)
    assert bench.gce.vms() == []


def test_a_stopped_instance_is_deleted_too(bench: GceBench) -> None:
    ref = running(bench)
    bench.gce.machines.off.append(bench.vm(ref.provider_id))
    bench.advance(1)
    bench.provider.terminate([ref])
    bench.advance(60)
    assert bench.gce.vms() == []


def test_a_new_instance_that_reads_deny_can_be_deleted(bench: GceBench) -> None:
    bench.set_lag(600)
    wanted = asked(bench, "job")
    bench.provider.terminate(refs_of(wanted, bench.provider.launch(wanted)))
    bench.advance(60)
    assert bench.gce.vms() == []
