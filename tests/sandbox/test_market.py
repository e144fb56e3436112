"""What the market gives, refuses and charges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.catalogue import PROVIDERS, catalogue
from sandbox.scenario import CapacityRule, PriceRule, QuotaRule, Restore, Where
from sandbox.world import Refusal, World
from tests.clocks import FakeClock
from tests.sandbox.worlds import MakeWorld, launch, pass_time


def live(world: World, kind: str = "instance") -> int:
    return int(world.ledger()["objects"][kind]["live"])


def refusal(ask: Callable[[], object]) -> Refusal:
    with pytest.raises(Refusal) as caught:
        ask()
    return caught.value


def test_a_gang_gets_all_its_instances_or_none(world_of: MakeWorld) -> None:
    world = world_of(default_capacity=3)
    no = refusal(lambda: launch(world, 4))
    assert (no.kind, no.facts["required"]) == ("capacity", 4)
    assert live(world) == 0
    assert len(launch(world, 3)) == 3


def test_a_stock_out_names_the_zones_that_have_room(world_of: MakeWorld) -> None:
    empty = [{"provider": "aws", "zone": zone, "count": 0} for zone in ("use1-az4", "us-east-1b")]
    world = world_of(capacity=empty)
    assert refusal(lambda: launch(world)).facts["zones_available"] == ["use1-az1"]


def test_spot_and_on_demand_are_pools_of_their_own(world_of: MakeWorld) -> None:
    world = world_of(capacity=[{"capacity_type": "spot", "count": 0}])
    assert refusal(lambda: launch(world)).kind == "capacity"
    assert launch(world, capacity_type="on_demand")


def test_room_comes_back_when_an_instance_is_gone(world_of: MakeWorld, clock: FakeClock) -> None:
    world = world_of(default_capacity=1, aws={"terminate_seconds": 5})
    (vm,) = launch(world)
    world.terminate(vm)
    assert refusal(lambda: launch(world)).kind == "capacity"
    pass_time(world, clock, 5)
    assert launch(world)


@pytest.mark.parametrize(
    ("ask", "quota", "kind", "needed"),
    [
        ({"capacity_type": "on_demand"}, "G/on_demand", "quota", 4),
        ({"capacity_type": "spot"}, "G/spot", "spot_quota", 4),
        (
            {
                "provider": "gcp",
                "region": "us-central1",
                "zone": "us-central1-a",
                "instance_type": "g2-standard-24",
            },
            "PREEMPTIBLE_NVIDIA_L4_GPUS",
            "spot_quota",
            2,
        ),
        (
            {
                "provider": "gcp",
                "region": "us-central1",
                "zone": "us-central1-a",
                "instance_type": "a3-highgpu-8g",
                "capacity_type": "on_demand",
            },
            "GPUS_PER_GPU_FAMILY/NVIDIA_H100",
            "quota",
            8,
        ),
        (
            {
                "provider": "azure",
                "region": "eastus",
                "zone": "eastus-1",
                "instance_type": "Standard_NC24ads_A100_v4",
            },
            "lowPriorityCores",
            "spot_quota",
            24,
        ),
        (
            {
                "provider": "azure",
                "region": "eastus",
                "zone": "eastus",
                "instance_type": "Standard_NC24ads_A100_v4",
                "capacity_type": "on_demand",
            },
            "StandardNCADSA100v4Family",
            "quota",
            24,
        ),
    ],
)
def test_each_vendors_quota_refuses_what_is_above_it(
    world_of: MakeWorld, ask: dict[str, Any], quota: str, kind: str, needed: int
) -> None:
    provider = ask.get("provider", "aws")
    region = ask.get("region", "us-east-1")
    world = world_of(quotas=[{"provider": provider, "name": quota, "limit": needed * 2 - 1}])
    launch(world, **ask)
    no = refusal(lambda: launch(world, **ask))
    assert (no.kind, no.facts["name"], no.facts["usage"], no.facts["needed"]) == (kind, quota, needed, needed)
    row = next(row for row in world.quotas(provider, region) if row.name == quota)
    assert (row.limit, row.usage) == (needed * 2 - 1, needed)
    world.set_quota(QuotaRule(provider=provider, name=quota, limit=needed * 2))
    assert launch(world, **ask)


def test_gce_spot_takes_standard_quota_where_there_is_no_preemptible_one(world_of: MakeWorld) -> None:
    world = world_of(quotas=[{"provider": "gcp", "name": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": 0}])
    launch(
        world,
        provider="gcp",
        region="us-central1",
        zone="us-central1-a",
        instance_type="g2-standard-4",
        capacity_type="spot",
    )
    usage = {row.name: row.usage for row in world.quotas("gcp", "us-central1")}
    assert usage["NVIDIA_L4_GPUS"] == 1
    assert usage["PREEMPTIBLE_NVIDIA_L4_GPUS"] == 0


def test_gce_counts_the_vcpus_of_all_spot_series_by_one_quota_and_the_projects(world_of: MakeWorld) -> None:
    world = world_of(
        quotas=[{"provider": "gcp", "region": "global", "name": "CPUS_ALL_REGIONS", "limit": 20}]
    )
    gcp: dict[str, Any] = {
        "provider": "gcp",
        "region": "us-central1",
        "zone": "us-central1-a",
        "capacity_type": "spot",
    }
    for name in ("a2-highgpu-1g", "e2-standard-2"):
        launch(world, **gcp, instance_type=name)
    usage = {row.name: (row.usage, row.unit) for row in world.quotas("gcp", "us-central1")}
    assert (usage["PREEMPTIBLE_CPUS"], usage["A2_CPUS"], usage["CPUS"]) == (
        (14, "vcpu"),
        (0, "vcpu"),
        (0, "vcpu"),
    )
    no = refusal(lambda: launch(world, **gcp, instance_type="g2-standard-8"))
    assert (no.facts["name"], no.facts["usage"], no.facts["unit"]) == ("CPUS_ALL_REGIONS", 14, "vcpu")


def test_a_projects_global_gpu_quota_counts_all_regions(world_of: MakeWorld) -> None:
    world = world_of(quotas=[{"provider": "gcp", "name": "GPUS_ALL_REGIONS", "limit": 1}])
    gcp: dict[str, Any] = {"provider": "gcp", "instance_type": "g2-standard-4"}
    launch(world, region="us-central1", zone="us-central1-a", **gcp)
    no = refusal(lambda: launch(world, region="us-east4", zone="us-east4-a", **gcp))
    assert (no.facts["name"], no.facts["quota_region"]) == ("GPUS_ALL_REGIONS", "global")


def test_a_bid_below_the_price_is_refused_with_both_figures(world: World) -> None:
    no = refusal(lambda: launch(world, max_price=0.1))
    assert (no.kind, no.facts["price"], no.facts["max_price"]) == ("price", 0.402, 0.1)


@pytest.mark.parametrize(
    "ask",
    [
        {"instance_type": "p5e.48xlarge", "capacity_type": "on_demand"},
        {"instance_type": "p6-b200.48xlarge", "zone": "use1-az4"},
        {"instance_type": "g5.xlarge", "zone": "usw2-az1"},
        {"instance_type": "no-such-type"},
    ],
)
def test_what_is_not_sold_there_or_so_is_unsupported(world: World, ask: dict[str, Any]) -> None:
    assert refusal(lambda: launch(world, **ask)).kind == "unsupported"


def test_the_later_and_narrower_rule_wins_and_restore_brings_the_scenario_back(world_of: MakeWorld) -> None:
    world = world_of(
        capacity=[
            {"provider": "aws", "instance_type": "g5.*", "count": 5},
            {"provider": "aws", "zone": "us-east-1a", "count": 2},
        ]
    )

    def free(zone: str) -> int:
        return world.free("aws", "us-east-1", zone, "g5.xlarge", "spot")

    assert (free("use1-az4"), free("use1-az6")) == (2, 5)
    world.set_capacity(CapacityRule(count=0))
    world.set_price(PriceRule(provider="aws", price=9.0))
    assert (free("use1-az4"), free("use1-az6")) == (0, 0)
    world.restore(Restore(do="restore", at=0))
    assert (free("use1-az4"), free("use1-az6")) == (2, 5)
    assert world.price("aws", "us-east-1", "use1-az4", "g5.xlarge", "spot") == 0.402


def test_restore_leaves_alone_what_it_does_not_name(world: World) -> None:
    world.set_capacity(CapacityRule(provider="aws", count=0))
    world.set_capacity(CapacityRule(provider="gcp", count=0))
    world.restore(Restore(do="restore", at=0, where=Where(provider="gcp")))
    assert world.free("aws", "us-east-1", "use1-az4", "g5.xlarge", "spot") == 0
    assert world.free("gcp", "us-central1", "us-central1-a", "g2-standard-4", "spot") == 8


def test_moving_spot_prices_follow_the_seed_and_never_pass_on_demand(
    world_of: MakeWorld, clock: FakeClock
) -> None:
    moves = {"every_seconds": 600, "spread": 0.9}
    worlds = [world_of(seed=seed, spot_prices=moves) for seed in (1, 1, 2)]
    seen: list[list[float | None]] = [[], [], []]
    for _ in range(20):
        clock.advance(600)
        for prices, world in zip(seen, worlds, strict=True):
            prices.append(world.price("aws", "us-east-1", "use1-az4", "g5.xlarge", "spot"))
    assert seen[0] == seen[1] != seen[2]
    assert len(set(seen[0])) > 10
    assert all(price is not None and 0 < price <= 1.006 for price in seen[0])


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_provider_sells_the_usual_gpus_in_three_regions_with_zones(provider: str) -> None:
    table = catalogue(provider)
    names = " ".join(size.gpu.name.upper() for size in table.types.values() if size.gpu)
    for gpu in ("T4", "A100", "H100", "H200", "B200"):
        assert gpu in names
    assert any(size.gpu is None for size in table.types.values())
    assert len(table.regions) == 3
    for region in table.regions:
        assert len(table.zones_of(region)) >= 2
        assert any(table.sold(table.zones_of(region)[0].key, name) for name in table.types)


def test_prices_made_of_parts_agree_with_published_whole_prices() -> None:
    types = catalogue("gcp").types
    published = {
        "g2-standard-4": (0.707, 0.397),
        "a2-highgpu-1g": (3.67, 1.93),
        "a3-highgpu-8g": (88.49, 50.61),
    }
    for name, (on_demand, spot) in published.items():
        assert types[name].on_demand == pytest.approx(on_demand, abs=0.005)
        assert types[name].spot == pytest.approx(spot, abs=0.005)
