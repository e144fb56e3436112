"""Calls to Azure are spaced out before they are sent, by subscription, region and kind of call."""

from __future__ import annotations

import pytest

from providers.azure import rates
from providers.azure.rates import EVERYWHERE, RATES, buckets, limiter
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import InstanceState
from tests.clocks import FakeClock
from tests.providers.azure.bench import DEPLOYMENT
from tests.providers.azure.bench import bench as opened

SUB = "/subscriptions/s"
GROUP = f"{SUB}/resourceGroups/g/providers"
COMPUTE = f"{SUB}/providers/Microsoft.Compute"


@pytest.mark.parametrize(
    ("method", "url", "taken"),
    [
        ("PUT", f"{GROUP}/Microsoft.Compute/virtualMachines/a", [rates.WRITES, ("eastus", rates.PUT_VM)]),
        (
            "DELETE",
            f"{GROUP}/Microsoft.Compute/virtualMachines/a",
            [rates.DELETES, ("eastus", rates.DELETE_VM)],
        ),
        ("GET", f"{GROUP}/microsoft.compute/VIRTUALMACHINES/a", [rates.READS, ("eastus", "LowCostGet")]),
        ("GET", f"{GROUP}/Microsoft.Compute/virtualMachines", [rates.READS, ("eastus", "HighCostGet")]),
        ("GET", f"{COMPUTE}/virtualMachines", [rates.READS, ("eastus", "HighCostGet")]),
        (
            "GET",
            f"https://management.azure.com{COMPUTE}/locations/westus3/operations/1?api-version=2",
            [rates.READS, ("westus3", "GetOperation")],
        ),
        ("POST", "/providers/Microsoft.ResourceGraph/resources", [rates.WRITES, ("eastus", rates.GRAPH)]),
        ("GET", f"{COMPUTE}/locations/eastus/usages", [rates.READS]),
        ("DELETE", f"{GROUP}/Microsoft.Network/networkInterfaces/n", [rates.DELETES]),
    ],
)
def test_a_call_is_counted_by_resource_manager_and_by_the_policy_of_its_provider(
    method: str, url: str, taken: list[str | tuple[str, str]]
) -> None:
    wanted = [one if isinstance(one, tuple) else (EVERYWHERE, one) for one in taken]
    assert list(buckets(method, url, "eastus")) == wanted


@pytest.mark.parametrize(
    ("bucket", "refill_per_minute", "size"),
    [
        (rates.READS, 25 * 60, 250),
        (rates.WRITES, 10 * 60, 200),
        (rates.DELETES, 10 * 60, 200),
        (rates.PUT_VM, 500, 1_500),
        (rates.DELETE_VM, 500, 1_500),
        (rates.LOW_COST_GET, 8_000, 24_000),
        (rates.HIGH_COST_GET, 300, 900),
        (rates.GET_OPERATION, 5_000, 15_000),
        (rates.GRAPH, 15 * 12, 15),
    ],
)
def test_we_keep_to_half_of_what_azure_allows(bucket: str, refill_per_minute: float, size: int) -> None:
    assert RATES[bucket].per_second * 60 <= refill_per_minute / 2 + 1e-9
    assert RATES[bucket].burst <= size / 2


def test_a_region_that_is_busy_leaves_the_others_alone_and_refuses_rather_than_wait_for_long() -> None:
    clock = FakeClock()
    limits = limiter(clock, "lab")
    for _ in range(RATES[rates.GRAPH].burst):
        limits.take("eastus", rates.GRAPH)
    limits.take("westus3", rates.GRAPH)
    limits.close()

    def many() -> None:
        for _ in range(200):
            limits.take("eastus", rates.GRAPH)

    with pytest.raises(ProviderError) as caught:
        many()
    assert (caught.value.kind, caught.value.scope.account) == (ErrorKind.THROTTLED, "lab")
    assert caught.value.retry_after


def test_SCA_01_a_listing_takes_as_many_calls_for_forty_machines_as_for_two() -> None:
    def calls(machines: int) -> dict[str, int]:
        with opened({"default_capacity": 100}) as bench:
            for number in range(machines // 2):
                size = bench.offer(size="Standard_NC4as_T4_v3")
                bench.provider.launch(bench.ask(size, nodes=2, name=f"n{number:02}"))
            bench.advance(60)
            before = bench.cloud.calls()
            assert len(bench.provider.list_instances("eastus", DEPLOYMENT).instances) == machines
            after = bench.cloud.calls()
        reads = {name: count - before.get(name, 0) for name, count in after.items()}
        return {name: count for name, count in reads.items() if count}

    assert calls(40) == calls(24)
    assert sum(calls(40).values()) == 5


def test_SCA_01_many_machines_are_described_in_a_few_calls_and_not_otherwise_than_one_by_one() -> None:
    with opened({"default_capacity": 100}) as bench:
        refs = []
        for number in range(12):
            asked = bench.ask(bench.offer(size="Standard_NC4as_T4_v3"), nodes=2, name=f"n{number:02}")
            refs += bench.refs(asked, bench.provider.launch(asked))
        bench.advance(60)
        bench.preempt(refs[3].provider_id)
        bench.delete_behind_our_back(refs[5].provider_id)
        bench.advance(300)
        before = bench.cloud.calls()
        together = bench.provider.describe(refs)
        after = bench.cloud.calls()
        assert together == [bench.provider.describe([ref])[0] for ref in refs]
    # Only those that the lists do not show are asked for by name.
    assert after["VirtualMachines_Get"] - before.get("VirtualMachines_Get", 0) == 2
    assert after.get("NetworkInterfaces_Get", 0) == 0
    assert sum(after.values()) - sum(before.values()) <= 2 + 2 + 2 + 2 + 1


def test_SCA_01_machines_that_cannot_be_listed_are_described_one_by_one() -> None:
    with opened({"default_capacity": 100}) as bench:
        asked = bench.ask(bench.offer(size="Standard_NC4as_T4_v3"), nodes=12)
        refs = bench.refs(asked, bench.provider.launch(asked))
        bench.advance(60)
        denied = {"code": "AuthorizationFailed", "http_status": 403, "times": None}
        bench.cloud.fault("VirtualMachines_List", "error", **denied)
        assert {one.state for one in bench.provider.describe(refs)} == {InstanceState.RUNNING}


def test_SCA_01_creates_beyond_the_bucket_wait_their_turn_and_all_get_through() -> None:
    with opened({"default_capacity": 1000}) as bench:
        started = bench.cloud.clock.monotonic()
        for number in range(12):
            size = bench.offer(size="Standard_NC4as_T4_v3")
            bench.provider.launch(bench.ask(size, nodes=10, name=f"n{number:02}"))
        waited = bench.cloud.clock.monotonic() - started
    assert waited >= (120 - RATES[rates.WRITES].burst - 1) / RATES[rates.WRITES].per_second


def test_a_machine_that_is_starting_is_read_twelve_times_a_minute_at_most_however_often_it_is_asked_for() -> (
    None
):
    with opened({"azure": {"boot_seconds": 600}}) as bench:
        asked = bench.ask()
        refs = bench.refs(asked, bench.provider.launch(asked))
        for _ in range(60):
            assert bench.provider.describe(refs)[0].state is InstanceState.PENDING
            bench.advance(1)
        assert bench.cloud.calls()["VirtualMachines_Get"] <= 12
        bench.advance(600)
        assert bench.provider.describe(refs)[0].state is InstanceState.RUNNING
        bench.provider.terminate(refs)
        assert bench.provider.describe(refs)[0].state is InstanceState.STOPPING


def test_a_machine_that_is_ended_while_it_starts_is_seen_to_end() -> None:
    with opened({"azure": {"boot_seconds": 600}}) as bench:
        asked = bench.ask()
        refs = bench.refs(asked, bench.provider.launch(asked))
        assert bench.provider.describe(refs)[0].state is InstanceState.PENDING
        bench.provider.terminate(refs)
        assert bench.provider.describe(refs)[0].state is InstanceState.STOPPING
