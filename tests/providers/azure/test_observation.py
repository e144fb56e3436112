"""What the adapter sees of machines: power before provisioning, evictions by evidence, leftovers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from providers.azure.adapter import AzureProvider
from providers.azure.leftovers import orphans
from providers.azure.vm import disk_name
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, EndReason, InstanceRef, InstanceState
from tests.providers.azure.bench import DEPLOYMENT, AzureBench, account
from tests.providers.azure.bench import bench as opened

DEMAND = CapacityType.ON_DEMAND


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def running(
    bench: AzureBench, name: str = "a", capacity_type: CapacityType = CapacityType.SPOT
) -> InstanceRef:
    asked = bench.ask(bench.offer(capacity_type), name=name)
    launched = bench.provider.launch(asked)
    bench.advance(60)
    return bench.refs(asked, launched)[0]


def test_an_eviction_is_told_from_a_deletion_by_azures_own_word(bench: AzureBench) -> None:
    evicted, deleted = running(bench, "a"), running(bench, "b")
    bench.preempt(evicted.provider_id)
    bench.delete_behind_our_back(deleted.provider_id)
    bench.advance(300)
    first, second = bench.provider.describe([evicted, deleted])
    assert (first.state, first.end_reason) == (InstanceState.TERMINATED, EndReason.PREEMPTED)
    assert (second.state, second.end_reason) == (InstanceState.ABSENT, None)


def test_an_eviction_in_progress_already_has_its_reason(bench: AzureBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    assert bench.provider.describe([ref])[0].state is InstanceState.RUNNING
    bench.advance(32)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPING, EndReason.PREEMPTED)


def test_PRE_10_an_eviction_that_only_stops_the_machine_is_an_eviction_all_the_same(
    bench: AzureBench,
) -> None:
    ref = running(bench)
    bench.cloud.vm(ref.provider_id).eviction = "stop"
    bench.preempt(ref.provider_id)
    bench.advance(300)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPED, EndReason.PREEMPTED)


def test_without_azures_word_a_vanished_machine_is_absent_and_nobody_is_blamed(bench: AzureBench) -> None:
    ref = running(bench)
    bench.preempt(ref.provider_id)
    bench.advance(300)
    bench.cloud.fault("Resources", "error", code="AuthorizationFailed", http_status=403)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.ABSENT, None)


def test_a_machine_that_we_ended_is_not_asked_after(bench: AzureBench) -> None:
    ref = running(bench)
    bench.provider.terminate([ref])
    bench.provider.describe([ref])
    bench.advance(300)
    assert bench.provider.describe([ref])[0].state is InstanceState.TERMINATED
    assert "Resources" not in bench.cloud.calls()


def test_PRO_13_an_eviction_during_the_create_is_a_stock_out_of_that_offer(bench: AzureBench) -> None:
    asked = bench.ask()
    ref = bench.refs(asked, bench.provider.launch(asked))[0]
    bench.cloud.world.preempt(bench.cloud.vm(ref.provider_id), notice=False)
    bench.advance(60)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.PREEMPTED)
    assert isinstance(seen.error, ProviderError)
    assert (seen.error.kind, seen.error.code) == (ErrorKind.CAPACITY, "OperationPreempted")
    assert seen.error.scope.zone == "eastus-1"
    bench.provider.terminate([ref])
    assert bench.provider.describe([ref])[0].error is None


def test_a_guest_that_shut_down_is_stopped_and_billed_on(bench: AzureBench) -> None:
    ref = running(bench, capacity_type=DEMAND)
    vm = bench.cloud.vm(ref.provider_id)
    bench.cloud.guests.off.append(vm)
    bench.advance(3600)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPED, None)
    assert vm.charges[-1].end is None
    assert not bench.provider.reclaims_powered_off
    bench.provider.terminate([ref])
    bench.advance(60)
    assert set(bench.live().values()) == {0}


def test_PRO_07_a_failed_update_of_a_running_machine_is_no_failure_of_it(bench: AzureBench) -> None:
    ref = running(bench)
    value = "Failed/NetworkingInternalOperationError"
    bench.cloud.fault("VirtualMachines_Get", "state", value=value)
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.error) == (InstanceState.RUNNING, None)
    assert "NetworkingInternalOperationError" in seen.detail


def test_PRO_06_a_slow_boot_is_left_to_its_deadline(bench: AzureBench) -> None:
    ref = running(bench)
    bench.cloud.fault("VirtualMachines_Get", "state", value="Failed/OSProvisioningTimedOut")
    seen = bench.provider.describe([ref])[0]
    assert (seen.state, seen.error) == (InstanceState.RUNNING, None)


def test_PRO_08_an_operation_that_never_ends_stays_pending_and_holds_no_thread(bench: AzureBench) -> None:
    bench.cloud.fault("VirtualMachines_CreateOrUpdate", "stuck")
    asked = bench.ask()
    threads = threading.active_count()
    refs = bench.refs(asked, bench.provider.launch(asked))
    assert threading.active_count() == threads
    bench.advance(24 * 3600)
    assert bench.provider.describe(refs)[0].state is InstanceState.PENDING


def test_a_machine_that_cannot_be_read_is_unknown_and_hides_no_other(bench: AzureBench) -> None:
    one, two = running(bench, "a"), running(bench, "b")
    match = {"name": one.provider_id}
    bench.cloud.fault(
        "VirtualMachines_Get", "error", code="InternalServerError", http_status=500, match=match, times=5
    )
    states = [seen.state for seen in bench.provider.describe([one, two])]
    assert states == [InstanceState.UNKNOWN, InstanceState.RUNNING]


def test_a_listing_reads_every_page_and_shows_power(bench: AzureBench) -> None:
    bench.restore(bench.offer(size="Standard_NC4as_T4_v3"))
    for number in range(11):
        asked = bench.ask(bench.offer(size="Standard_NC4as_T4_v3"), nodes=5, name=f"n{number:02}")
        bench.provider.launch(asked)
    bench.provider.launch(bench.ask(bench.offer(zone="westeurope-1"), name="w"))
    bench.advance(60)
    bench.cloud.fault("VirtualMachines_List", "empty_page")
    listing = bench.provider.list_instances("eastus", DEPLOYMENT)
    assert listing.complete
    assert len(listing.instances) == 55
    assert {one.state for one in listing.instances} == {InstanceState.RUNNING}
    assert bench.cloud.calls().get("VirtualMachines_Get", 0) == 0


def test_a_listing_with_a_page_missing_is_no_listing(bench: AzureBench) -> None:
    running(bench)
    bench.cloud.fault("VirtualMachines_List", "error", code="InternalServerError", times=5)
    with pytest.raises(ProviderError) as caught:
        bench.provider.list_instances("eastus", DEPLOYMENT)
    assert caught.value.kind is ErrorKind.TRANSIENT


def test_without_the_right_to_see_the_subscription_power_is_read_one_by_one(bench: AzureBench) -> None:
    running(bench)
    denied = {"code": "AuthorizationFailed", "http_status": 403, "times": None}
    bench.cloud.fault("VirtualMachines_ListAll", "error", **denied)
    listing = bench.provider.list_instances("eastus", DEPLOYMENT)
    assert listing.complete
    assert [one.state for one in listing.instances] == [InstanceState.RUNNING]


def test_a_listing_that_cannot_see_leftovers_says_that_it_is_not_whole(bench: AzureBench) -> None:
    running(bench)
    denied = {"code": "AuthorizationFailed", "http_status": 403, "times": None}
    bench.cloud.fault("Resources_ListByResourceGroup", "error", **denied)
    listing = bench.provider.list_instances("eastus", DEPLOYMENT)
    assert [one.state for one in listing.instances] == [InstanceState.RUNNING]
    assert "AuthorizationFailed" in " ".join(listing.incomplete)


@pytest.mark.parametrize(
    "kept", [{"nic", "address", "disk"}, {"nic"}, {"address"}, {"disk"}, {"nic", "address"}]
)
def test_LIF_17_what_stays_behind_of_a_machine_is_found_and_ended(bench: AzureBench, kept: set[str]) -> None:
    ref = running(bench)
    vm = bench.cloud.vm(ref.provider_id)
    vm.keep = frozenset(kept)
    bench.preempt(ref.provider_id)
    bench.advance(300)
    assert bench.provider.describe([ref])[0].state is InstanceState.TERMINATED
    left = bench.provider.list_instances("eastus", DEPLOYMENT).instances
    assert [(one.provider_id, one.state) for one in left] == [(ref.provider_id, InstanceState.STOPPING)]
    assert left[0].end_reason is EndReason.PREEMPTED
    assert len(left[0].detail.split(",")) == len(kept)
    assert left[0].created_at == vm.created_at
    assert left[0].tags["corral-deployment"] == DEPLOYMENT
    bench.provider.terminate([ref])
    assert set(bench.live().values()) == {0}
    assert bench.provider.list_instances("eastus", DEPLOYMENT).instances == ()


def test_LIF_17_thirty_machines_ten_of_them_evicted_leave_nothing_behind(bench: AzureBench) -> None:
    bench.restore(bench.offer())
    refs = [running(bench, f"n{number:02}") for number in range(30)]
    for ref in refs[::3]:
        bench.preempt(ref.provider_id)
    bench.provider.terminate([ref for number, ref in enumerate(refs) if number % 3])
    bench.advance(300)
    assert set(bench.live().values()) == {0}


def test_a_disk_that_outlived_its_machine_is_of_the_deployment_that_made_it(bench: AzureBench) -> None:
    ref = running(bench)
    bench.cloud.vm(ref.provider_id).keep = frozenset({"disk"})
    bench.delete_behind_our_back(ref.provider_id)
    bench.advance(60)
    assert bench.provider.list_instances("eastus", "another").instances == ()
    assert bench.provider.list_instances("westeurope", DEPLOYMENT).instances == ()
    assert len(bench.provider.list_instances("eastus", DEPLOYMENT).instances) == 1


def test_only_cards_addresses_and_disks_of_vanished_machines_here_are_leftovers() -> None:
    def row(vm: str, kind: str = "Microsoft.Network/networkInterfaces", location: str = "eastus") -> Any:
        tags = {"corral-vm": vm, "corral-deployment": "d1"}
        return {"id": f"/{vm}/{kind}", "type": kind, "location": location, "tags": tags}

    gone = f"corral-{'a' * 20}-0"
    disk = {**row("x", "Microsoft.Compute/disks"), "name": disk_name(gone, "d1"), "tags": None}
    rows = [
        row(gone),
        disk,
        {**disk, "name": disk_name(gone, "d2")},
        {**disk, "name": "corral-data"},
        row("there"),
        row("abroad", location="westeurope"),
        row("other", "Microsoft.Storage/storageAccounts"),
        {**row("x"), "tags": None},
        {**row("y"), "tags": {"corral-vm": "y", "corral-deployment": "d2"}},
    ]
    found = orphans(rows, "eastus", "d1", ["there"])
    assert [(one.vm, len(one.ids)) for one in found] == [(gone, 2)]


@pytest.mark.parametrize("name", ["", " ", "*", "a/b", "..", ".", "-x", "a" * 65, "x?y", "x%2F"])
def test_a_strange_name_is_refused_before_any_call(bench: AzureBench, name: str) -> None:
    ref = InstanceRef("eastus", "eastus-1", name)
    for call in (bench.provider.terminate, bench.provider.describe):
        with pytest.raises(ProviderError, match="no name"):
            call([ref])
    assert bench.cloud.calls() == {}


def test_a_machine_without_our_tag_is_never_deleted(bench: AzureBench) -> None:
    ref = running(bench)
    vm = bench.cloud.vm(ref.provider_id)
    vm.name = "precious"
    foreign = replace(ref, provider_id="precious")
    vm.tags.clear()
    with pytest.raises(ProviderError, match="not ours"):
        bench.provider.terminate([foreign])
    assert vm.state == "running"
    bench.provider.terminate([replace(ref, provider_id="never-was")])


def test_terminate_tries_all_before_it_complains(bench: AzureBench) -> None:
    one, two = running(bench, "a"), running(bench, "b")
    match = {"name": one.provider_id}
    bench.cloud.fault("VirtualMachines_Delete", "error", code="InternalServerError", match=match)
    with pytest.raises(ProviderError, match="InternalServerError"):
        bench.provider.terminate([one, two])
    assert bench.cloud.vm(two.provider_id).state == "shutting_down"
    bench.provider.terminate([one, two])
    assert bench.cloud.vm(one.provider_id).state == "shutting_down"


def test_an_operation_elsewhere_is_never_followed(bench: AzureBench) -> None:
    ref = replace(running(bench), operation="http://127.0.0.1:9/steal-my-token")
    bench.delete_behind_our_back(ref.provider_id)
    bench.advance(60)
    assert bench.provider.describe([ref])[0].state is InstanceState.ABSENT


def test_addresses_are_read_once(bench: AzureBench) -> None:
    ref = running(bench)
    first, second = bench.provider.describe([ref])[0], bench.provider.describe([ref])[0]
    vm = bench.cloud.vm(ref.provider_id)
    assert (first.private_ip, first.public_ip) == (vm.private_ip, vm.public_ip)
    assert (second.private_ip, second.public_ip) == (vm.private_ip, vm.public_ip)
    assert bench.cloud.calls()["NetworkInterfaces_Get"] == 1


def test_another_process_sees_the_same(bench: AzureBench) -> None:
    ref = running(bench)
    other = AzureProvider(account(bench.cloud.url), bench.cloud.clock)
    assert other.describe([ref]) == bench.provider.describe([ref])
    other.close()


def test_PRO_13_a_machine_that_reads_do_not_show_yet_is_not_taken_for_evicted(bench: AzureBench) -> None:
    bench.set_lag(5)
    asked = bench.ask()
    refs = bench.refs(asked, bench.provider.launch(asked))
    early = bench.provider.describe(refs)[0]
    assert (early.state, early.end_reason, early.error) == (InstanceState.ABSENT, None, None)
    bench.advance(60)
    assert bench.provider.describe(refs)[0].state is InstanceState.RUNNING


def test_LIF_02_an_accepted_delete_is_no_proof_and_is_sent_again_without_harm(bench: AzureBench) -> None:
    ref = running(bench)
    bench.provider.terminate([ref])
    assert bench.provider.describe([ref])[0].state is InstanceState.STOPPING
    bench.provider.terminate([ref])
    bench.advance(60)
    assert bench.provider.describe([ref])[0].state is InstanceState.TERMINATED


def test_LIF_21_whatever_is_not_gone_is_listed_and_ended(bench: AzureBench) -> None:
    up, off, evicted, going = (running(bench, name) for name in "abcd")
    bench.cloud.guests.off.append(bench.cloud.vm(off.provider_id))
    bench.cloud.vm(evicted.provider_id).eviction = "stop"
    bench.preempt(evicted.provider_id)
    bench.advance(60)
    bench.delete_behind_our_back(going.provider_id)
    doomed = bench.ask(bench.offer(DEMAND, "eastus-2"), name="e")
    bench.exhaust(doomed.offer)
    bench.provider.launch(doomed)
    bench.advance(3)
    listed = bench.provider.list_instances("eastus", DEPLOYMENT).instances
    states = {one.provider_id: one.state for one in listed}
    assert states == {
        up.provider_id: InstanceState.RUNNING,
        off.provider_id: InstanceState.STOPPED,
        evicted.provider_id: InstanceState.STOPPED,
        going.provider_id: InstanceState.STOPPING,
        doomed.names()[0]: InstanceState.STOPPED,
    }
    bench.provider.terminate([up, off, evicted, going, *bench.refs(doomed)])
    bench.advance(60)
    assert bench.provider.list_instances("eastus", DEPLOYMENT).instances == ()
    assert set(bench.live().values()) == {0}


@pytest.mark.parametrize("call", ["Operations_Get", "VirtualMachines_Get", "VirtualMachines_List"])
def test_AUT_03_a_poll_or_page_whose_token_ran_out_is_asked_again_with_a_new_one(
    bench: AzureBench, call: str
) -> None:
    ref = running(bench)
    bench.cloud.fault(call, "error", code="ExpiredAuthenticationToken", http_status=401)
    assert bench.provider.describe([ref])[0].state is InstanceState.RUNNING
    assert len(bench.provider.list_instances("eastus", DEPLOYMENT).instances) == 1


def test_AUT_03_a_token_that_stays_bad_is_an_error_of_the_account(bench: AzureBench) -> None:
    denied = {"code": "ExpiredAuthenticationToken", "http_status": 401, "times": None}
    bench.cloud.fault("*", "error", **denied)
    with pytest.raises(ProviderError) as caught:
        bench.provider.list_instances("eastus", DEPLOYMENT)
    assert caught.value.kind is ErrorKind.AUTH
    assert bench.cloud.calls()["VirtualMachines_List"] == 2
