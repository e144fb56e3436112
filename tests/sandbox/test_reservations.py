"""Capacity that was paid for ahead."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from sandbox.control import app as control_app
from sandbox.reservations import ReservationRule
from sandbox.scenario import Scenario, ScenarioError
from sandbox.world import Refusal, Vm, World
from tests.clocks import FakeClock
from tests.sandbox.worlds import MakeWorld, launch, pass_time

PAID: dict[str, Any] = {"provider": "gcp", "name": "paid", "zone": "us-central1-a", "count": 2}
PAID |= {"instance_type": "a3-highgpu-8g"}
BLOCK: dict[str, Any] = {"provider": "aws", "name": "cr-0b10c", "zone": "use1-az4", "count": 1}
BLOCK |= {"instance_type": "p5.48xlarge", "kind": "block", "ends": 7200}


def ask(world: World, count: int = 1, **more: Any) -> list[Vm]:
    place: dict[str, Any] = {"provider": "gcp", "region": "us-central1", "zone": "us-central1-a"}
    wanted = {"instance_type": "a3-highgpu-8g", "capacity_type": "on_demand"}
    return launch(world, count, **{**place, **wanted, **more})


def in_block(world: World) -> list[Vm]:
    kind: dict[str, Any] = {"instance_type": "p5.48xlarge", "capacity_type": "on_demand"}
    return launch(world, reservation=BLOCK["name"], **kind)


def refusal(world: World, count: int = 1, **more: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        ask(world, count, **more)
    return caught.value


def used(world: World, provider: str = "gcp") -> list[int]:
    return [taken for _, taken in world.reservations(provider)]


def test_reserved_machines_are_there_for_those_who_name_them_only(world_of: MakeWorld) -> None:
    world = world_of(default_capacity=0, reservations=[PAID])
    assert refusal(world).kind == "capacity"
    assert refusal(world, matching=True).kind == "capacity"
    ask(world, 2, reservation="paid")
    assert used(world) == [2]
    full = refusal(world, reservation="paid")
    assert (full.kind, full.facts["name"], full.facts["obstacle"]) == ("reservation", "paid", "full")


def test_an_open_reservation_is_eaten_by_what_matches_and_does_not_decline(world_of: MakeWorld) -> None:
    world = world_of(default_capacity=1, reservations=[{**PAID, "targeted": False}])
    (apart,) = ask(world)
    assert apart.reservation is None
    assert [vm.reservation for vm in ask(world, 2, matching=True)] == ["paid", "paid"]
    assert used(world) == [2]


def test_a_gang_may_sit_partly_in_an_open_reservation(world_of: MakeWorld) -> None:
    world = world_of(default_capacity=1, reservations=[{**PAID, "targeted": False}])
    assert refusal(world, 4, matching=True).kind == "capacity"
    assert [vm.reservation for vm in ask(world, 3, matching=True)] == ["paid", "paid", None]


def test_spot_instances_sit_in_no_reservation(world_of: MakeWorld) -> None:
    world = world_of(reservations=[{**PAID, "targeted": False}])
    (vm,) = ask(world, matching=True, capacity_type="spot")
    assert vm.reservation is None
    assert refusal(world, reservation="paid", capacity_type="spot").facts["obstacle"] == "mismatch"


@pytest.mark.parametrize(
    ("terms", "named", "obstacle"),
    [
        ({}, "other", "unknown"),
        ({"zone": "us-central1-b"}, "paid", "mismatch"),
        ({"instance_type": "a2-highgpu-1g"}, "paid", "mismatch"),
        ({"starts": 60}, "paid", "inactive"),
        ({"ends": 0}, "paid", "inactive"),
        ({"count": 0}, "paid", "full"),
    ],
)
def test_a_launch_is_told_what_keeps_it_out(
    world_of: MakeWorld, terms: dict[str, Any], named: str, obstacle: str
) -> None:
    world = world_of(reservations=[{**PAID, **terms}])
    assert refusal(world, reservation=named).facts["obstacle"] == obstacle


def test_a_slot_comes_back_once_its_instance_is_gone(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(reservations=[PAID], gcp={"terminate_seconds": 5})
    one, _ = ask(world, 2, reservation="paid")
    world.terminate(one)
    assert used(world) == [2]
    pass_time(world, clock, 5)
    assert used(world) == [1]
    assert ask(world, reservation="paid")


def test_a_plain_reservation_counts_against_quota_whether_used_or_not(world_of: MakeWorld) -> None:
    world = world_of(
        quotas=[{"provider": "gcp", "name": "GPUS_PER_GPU_FAMILY/NVIDIA_H100", "limit": 24}],
        reservations=[PAID],
    )
    ask(world, 2, reservation="paid")
    ask(world)
    assert refusal(world).kind == "quota"
    rows = {row.name: row.usage for row in world.quotas("gcp", "us-central1")}
    assert rows["GPUS_PER_GPU_FAMILY/NVIDIA_H100"] == 24


def test_what_sat_in_a_plain_reservation_goes_on_after_its_end(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(reservations=[{**PAID, "ends": 600}], gcp={"boot_seconds": 10})
    (vm,) = ask(world, reservation="paid")
    pass_time(world, clock, 601)
    assert (vm.state, vm.reservation) == ("running", None)
    assert [r.state(clock.now()) for r, _ in world.reservations("gcp")] == ["ended"]
    assert world.ledger()["bill"]["total"] != "0.000000000"


def test_a_block_takes_no_quota_costs_no_more_and_ends_what_runs_in_it(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    world = world_of(reservations=[BLOCK], quotas=[{"provider": "aws", "name": "*", "limit": 0}])
    (vm,) = in_block(world)
    pass_time(world, clock, 7200 - 1801)
    assert vm.state == "running"
    pass_time(world, clock, 2)
    assert (vm.state, vm.end_reason) == ("shutting_down", "max_age")
    assert world.ledger()["bill"]["total"] == "0.000000000"
    with pytest.raises(Refusal) as caught:
        in_block(world)
    assert caught.value.facts["obstacle"] == "inactive"


def test_new_terms_replace_the_old_ones_and_their_end(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(reservations=[BLOCK])
    (vm,) = in_block(world)
    world.reserve(ReservationRule.model_validate({**BLOCK, "ends": 100_000}))
    pass_time(world, clock, 7200)
    assert vm.state == "running"


def test_the_control_api_sets_capacity_aside(world_of: MakeWorld) -> None:
    world = world_of()
    control = TestClient(control_app(world))
    assert control.post("/control/reservation", json=PAID).status_code == 200
    assert control.post("/control/reservation", json={**PAID, "zone": "mars"}).status_code == 422
    ask(world, reservation="paid")
    assert [row["reservation"] for row in control.get("/control/instances").json()] == ["paid"]


def test_an_event_sets_capacity_aside(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(events=[{"do": "reservation", "at": 30, "reservation": PAID}])
    assert world.reservations("gcp") == []
    pass_time(world, clock, 31)
    assert ask(world, reservation="paid")


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"zone": "mars"}, "reservations.0: zone 'mars' is in no catalogue"),
        ({"instance_type": "p9"}, "reservations.0: instance_type 'p9' is in no catalogue"),
        ({"kind": "block"}, "a block has an end"),
        ({"starts": 9, "ends": 3}, "ends 3 is before starts 9"),
        ({"size": 3}, "reservations.0.size: unknown key"),
    ],
)
def test_a_wrong_reservation_is_refused(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        Scenario.parse({"reservations": [{**PAID, **terms}]})
