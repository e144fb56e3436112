"""How instances come and go, what is booked of it, and what the bill says."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from sandbox.scenario import PriceRule
from sandbox.world import Vm, World
from tests.clocks import FakeClock
from tests.sandbox.worlds import MakeWorld, launch, pass_time


def happened(world: World, what: str) -> list[dict[str, Any]]:
    return [event for event in world.ledger()["events"] if event["what"] == what]


def state(vm: Vm) -> str:
    return vm.state


def seconds_between(world: World, first: str, second: str) -> float:
    times = [datetime.fromisoformat(happened(world, what)[0]["at"]) for what in (first, second)]
    return (times[1] - times[0]).total_seconds()


def test_an_instance_boots_in_the_time_the_scenario_gives_it(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(aws={"boot_seconds": 40})
    (vm,) = launch(world)
    pass_time(world, clock, 39)
    assert state(vm) == "pending"
    pass_time(world, clock, 1)
    assert state(vm) == "running"


def test_what_was_due_is_stamped_with_its_own_time_however_late_anybody_looks(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    world = world_of(
        aws={"boot_seconds": 10, "notice_seconds": 120, "terminate_seconds": 5},
        events=[{"do": "preempt", "when": {"for": 30}}],
    )
    (vm,) = launch(world)
    pass_time(world, clock, 100_000)
    assert state(vm) == "terminated"
    assert seconds_between(world, "created", "running") == 10
    assert seconds_between(world, "running", "notice") == 30
    assert seconds_between(world, "notice", "terminating") == 120
    assert seconds_between(world, "terminating", "terminated") == 5
    assert world.ledger()["bill"]["instances"][0]["seconds"] == 150


@pytest.mark.parametrize(("provider", "warning"), [("aws", 120), ("gcp", 30), ("azure", 30)])
def test_a_preempted_instance_has_its_clouds_notice_and_not_a_second_more(
    world: World, clock: FakeClock, provider: str, warning: int
) -> None:
    places: dict[str, dict[str, Any]] = {
        "aws": {},
        "gcp": {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"},
        "azure": {"region": "eastus", "zone": "eastus-1", "instance_type": "Standard_NC4as_T4_v3"},
    }
    (vm,) = launch(world, provider=provider, **places[provider])
    pass_time(world, clock, 60)
    world.preempt(vm)
    pass_time(world, clock, warning - 1)
    assert (state(vm), vm.end_reason) == ("running", None)
    pass_time(world, clock, 1)
    assert (state(vm), vm.end_reason) == ("shutting_down", "preempted")


def test_a_preemption_may_come_without_notice_or_with_a_chosen_one(world: World, clock: FakeClock) -> None:
    sudden, short = launch(world, 2)
    pass_time(world, clock, 60)
    world.preempt(sudden, notice=False)
    world.preempt(short, seconds=7)
    assert state(sudden) == "shutting_down"
    assert short.notice_deadline is not None
    assert (short.notice_deadline - clock.now()).total_seconds() == 7


def test_a_second_notice_does_not_move_the_deadline(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world)
    pass_time(world, clock, 60)
    world.preempt(vm)
    deadline = vm.notice_deadline
    clock.advance(30)
    world.preempt(vm)
    assert vm.notice_deadline == deadline
    assert len(happened(world, "notice")) == 1


def test_a_user_who_terminates_first_is_the_reason_even_under_notice(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world)
    pass_time(world, clock, 60)
    world.preempt(vm)
    world.terminate(vm)
    pass_time(world, clock, 1000)
    assert (state(vm), vm.end_reason) == ("terminated", "user")


def test_a_dead_host_ends_the_instance_or_leaves_the_cloud_blind(world: World, clock: FakeClock) -> None:
    seen, unseen = launch(world, 2)
    pass_time(world, clock, 60)
    world.kill(seen)
    world.kill(unseen, seen=False)
    assert (seen.state, seen.end_reason) == ("terminated", "host_failure")
    assert state(unseen) == "running"


def test_the_clouds_own_age_limit_ends_an_instance(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world, max_run_seconds=600)
    pass_time(world, clock, 20 + 599)
    assert state(vm) == "running"
    pass_time(world, clock, 1)
    assert (state(vm), vm.end_reason) == ("shutting_down", "max_age")


def test_a_guest_that_powers_off_ends_or_stops_its_instance_as_was_asked(
    world: World, clock: FakeClock
) -> None:
    (ends,) = launch(world)
    (stops,) = launch(world, poweroff="stop")
    (azure,) = launch(
        world,
        provider="azure",
        region="eastus",
        zone="eastus-1",
        instance_type="Standard_NC4as_T4_v3",
        poweroff="stop",
    )
    pass_time(world, clock, 100)
    for vm in (ends, stops, azure):
        world.terminate(vm, by="instance")
    pass_time(world, clock, 3600)
    assert [vm.state for vm in (ends, stops, azure)] == ["terminated", "stopped", "stopped"]
    billed = {row["vm"]: row["seconds"] for row in world.ledger()["bill"]["instances"]}
    assert (billed[ends.id], billed[stops.id], billed[azure.id]) == (80, 80, 3680)
    world.terminate(azure)
    pass_time(world, clock, 3600)
    assert state(azure) == "terminated"
    assert world.ledger()["bill"]["instances"][2]["seconds"] == 3680


def test_everything_that_came_with_an_instance_goes_with_it(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world, public_ip=True)
    kinds = ("instance", "disk", "nic", "address", "spot_request")
    objects = world.ledger()["objects"]
    assert all(objects[kind] == {"made": 1, "live": 1} for kind in kinds)
    world.terminate(vm)
    pass_time(world, clock, 60)
    assert world.ledger()["live"] == []
    assert world.ledger()["objects"]["disk"] == {"made": 1, "live": 0}


def test_a_disk_that_was_asked_to_stay_is_left_until_it_is_deleted(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world, keep=["disk"])
    world.terminate(vm)
    pass_time(world, clock, 60)
    disk = vm.objects["disk"][0]
    assert [(row["kind"], row["id"]) for row in world.ledger()["live"]] == [("disk", disk)]
    assert world.release("aws", "disk", disk)
    assert not world.exists("aws", "disk", disk)
    assert not world.release("aws", "disk", disk)


def test_a_refusal_and_its_reason_are_booked(world_of: MakeWorld) -> None:
    world = world_of(default_capacity=0)
    with pytest.raises(Exception, match=r"no g5\.xlarge left"):
        launch(world)
    (event,) = happened(world, "refused")
    assert (event["kind"], event["zone"], event["token"]) == ("capacity", "use1-az4", "token")


def test_the_bill_is_seconds_times_the_price_in_force_to_the_last_digit(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    world = world_of(aws={"boot_seconds": 20})
    (vm,) = launch(world)
    pass_time(world, clock, 20 + 1000)
    world.set_price(PriceRule(provider="aws", capacity_type="spot", price=0.5))
    pass_time(world, clock, 500.5)
    world.terminate(vm)
    pass_time(world, clock, 1000)
    bill = world.ledger()["bill"]
    exact = (Decimal("0.402") * 1000 + Decimal("0.5") * Decimal("500.5")) / 3600
    assert bill["total"] == str(exact.quantize(Decimal("1e-9")))
    assert [part["price"] for part in bill["instances"][0]["prices"]] == [0.402, 0.5]


def test_the_bill_of_many_is_the_sum_before_rounding(world: World, clock: FakeClock) -> None:
    for _ in range(3):
        launch(world, instance_type="m7i.large")
    pass_time(world, clock, 20 + 0.001)
    bill = world.ledger()["bill"]  # a millisecond of 0.0403 USD an hour is 1.119e-8
    assert [row["cost"] for row in bill["instances"]] == ["0.000000011"] * 3
    assert bill["total"] == "0.000000034"


def test_who_never_ran_pays_nothing(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world)
    pass_time(world, clock, 5)
    world.terminate(vm)
    pass_time(world, clock, 1000)
    assert world.ledger()["bill"] == {"instances": [], "total": "0.000000000", "currency": "USD"}


def test_a_price_above_the_bid_brings_the_notice(world: World, clock: FakeClock) -> None:
    low, high = launch(world, max_price=0.45)[0], launch(world, max_price=2.0)[0]
    pass_time(world, clock, 60)
    world.set_price(PriceRule(provider="aws", price=0.5))
    assert low.notice_deadline is not None
    assert high.notice_deadline is None


def test_an_event_waits_for_the_nth_instance_that_matches(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(
        events=[{"do": "preempt", "when": {"provider": "aws", "capacity_type": "spot", "for": 5, "nth": 2}}]
    )
    first = launch(world)[0]
    launch(world, capacity_type="on_demand")
    pass_time(world, clock, 60)
    second, third = launch(world, 2)
    pass_time(world, clock, 60)
    noticed = [vm for vm in (first, second, third) if vm.notice_deadline is not None]
    assert noticed == [second]


def test_an_event_for_each_instance_meets_all_of_them(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(events=[{"do": "kill", "when": {"for": 5, "nth": "each"}}])
    vms = launch(world, 3)
    pass_time(world, clock, 30)
    assert {vm.end_reason for vm in vms} == {"host_failure"}


def test_an_instance_can_be_lost_while_it_is_still_being_made(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(
        aws={"boot_seconds": 30},
        events=[{"do": "preempt", "notice": False, "when": {"state": "created", "for": 10}}],
    )
    (vm,) = launch(world)
    pass_time(world, clock, 100)
    assert (state(vm), vm.running_at, vm.end_reason) == ("terminated", None, "preempted")


def test_events_by_time_change_the_market_when_their_time_has_come(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    where = {"provider": "aws", "instance_type": "g5.xlarge"}
    world = world_of(
        events=[
            {"do": "capacity", "at": 10, "where": where, "count": 0},
            {"do": "quota", "at": 10, "provider": "aws", "name": "P/spot", "limit": 1},
            {"do": "price", "at": 10, "where": where, "price": 0.9},
            {"do": "restore", "at": 20, "what": ["capacity", "quota"]},
        ]
    )

    def now() -> tuple[int, float, float | None]:
        limits = {row.name: row.limit for row in world.quotas("aws", "us-east-1")}
        pool = ("aws", "us-east-1", "use1-az4", "g5.xlarge")
        return world.free(*pool, "spot"), limits["P/spot"], world.price(*pool, "spot")

    assert now() == (8, 2304, 0.402)
    pass_time(world, clock, 10)
    assert now() == (0, 1, 0.9)
    pass_time(world, clock, 10)
    assert now() == (8, 2304, 0.9)


def test_what_one_cloud_sees_can_trigger_another(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(
        events=[{"do": "preempt", "when": {"provider": "gcp"}, "where": {"provider": "aws"}, "notice": False}]
    )
    (aws,) = launch(world)
    gcp: dict[str, Any] = {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"}
    (other,) = launch(world, provider="gcp", **gcp)
    pass_time(world, clock, 30)
    assert (aws.end_reason, other.state) == ("preempted", "running")


def test_interruptions_come_at_the_rate_that_was_asked_for(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(seed=5, default_capacity=400, interruptions={"aws": 1.0})
    spot = launch(world, 400)
    steady = launch(world, 50, capacity_type="on_demand")
    pass_time(world, clock, 20 + 3600)
    lost = sum(1 for vm in spot if vm.noticed_at is not None)
    assert 210 < lost < 300  # 1 - 1/e of 400 is 253
    assert all(vm.state == "running" for vm in steady)


def test_the_same_seed_gives_the_same_world(world_of: MakeWorld, clock: FakeClock) -> None:
    def story(seed: int) -> list[dict[str, Any]]:
        clock_at_start = clock.now()
        world = world_of(
            seed=seed,
            aws={"boot_jitter": 0.5},
            interruptions={"aws": 20},
            spot_prices={"every_seconds": 60},
            events=[{"do": "kill", "at": 90}, {"do": "preempt", "at": 95, "where": {"provider": "aws"}}],
        )
        launch(world, 8)
        pass_time(world, clock, 400)
        told: list[dict[str, Any]] = world.ledger()["events"]
        clock.jump((clock_at_start - clock.now()).total_seconds())
        return told

    assert story(3) == story(3)
    assert story(3) != story(4)


def test_a_wall_clock_that_jumps_moves_no_deadline(world: World, clock: FakeClock) -> None:
    (vm,) = launch(world)
    pass_time(world, clock, 60)
    world.preempt(vm)
    clock.jump(86_400)
    pass_time(world, clock, 119)
    assert state(vm) == "running"
    pass_time(world, clock, 1)
    assert state(vm) == "shutting_down"
