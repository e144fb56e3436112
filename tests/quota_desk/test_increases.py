"""From GPUs to the limits that must be raised: every gate, in its own unit, never below what is there."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey, Scope
from service.quotas.increases import Verdict, best_type, gates, in_gpus, instances_for, to_raise

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def offer(type_: InstanceType, capacity_type: CapacityType, provider: str = "aws") -> Offer:
    return Offer(OfferKey(provider, "main", "r-1", "r-1a", type_.name, capacity_type), type_, 1.0)


def quota(
    key: str,
    unit: QuotaUnit,
    limit: float | None,
    usage: float | None,
    scope: Scope,
    *,
    region: str | None = "r-1",
    adjustable: bool | None = True,
) -> Quota:
    return Quota(key, key, region, unit, limit, usage, (scope,), NOW, adjustable)


def limits(quotas: list[Quota], asked: Offer, nodes: int, under_way: float = 0) -> dict[str, float | None]:
    return {gate.quota.key: gate.limit for gate in to_raise(gates(quotas, asked, nodes, lambda _: under_way))}


P5 = InstanceType("p5.48xlarge", "P", 192, 2048, Accelerator("H100", 8, 80))
A3 = InstanceType("a3-highgpu-8g", "NVIDIA_H100", 208, 1872, Accelerator("H100", 8, 80))
ND = InstanceType("Standard_ND96isr_H100_v5", "standardNDSH100v5Family", 96, 1900, Accelerator("H100", 8, 80))


def test_on_ec2_vcpus_of_the_family_are_raised_and_spot_is_a_limit_of_its_own() -> None:
    quotas = [
        quota("L-417A185B", QuotaUnit.VCPU, 192, 96, Scope(family="P", capacity_type=ON_DEMAND)),
        quota("L-C4BD4855", QuotaUnit.VCPU, 0, 0, Scope(family="P", capacity_type=SPOT)),
    ]
    assert limits(quotas, offer(P5, SPOT), 2) == {"L-C4BD4855": 384}
    assert limits(quotas, offer(P5, ON_DEMAND), 2) == {"L-417A185B": 96 + 384}


def test_on_gce_both_gates_are_raised() -> None:
    quotas = [
        quota("NVIDIA_H100_GPUS", QuotaUnit.GPU, 8, 8, Scope(family="NVIDIA_H100")),
        quota("GPUS_ALL_REGIONS", QuotaUnit.GPU, 8, 8, Scope(), region=None),
        quota("NVIDIA_L4_GPUS", QuotaUnit.GPU, 0, 0, Scope(family="NVIDIA_L4")),
    ]
    assert limits(quotas, offer(A3, ON_DEMAND, "gcp"), 2) == {
        "NVIDIA_H100_GPUS": 24,
        "GPUS_ALL_REGIONS": 24,
    }


def test_on_azure_the_family_and_the_regional_cores_are_raised_and_for_spot_one_pool_of_all_sizes() -> None:
    quotas = [
        quota(ND.family, QuotaUnit.VCPU, 0, 0, Scope(family=ND.family, capacity_type=ON_DEMAND)),
        quota("cores", QuotaUnit.VCPU, 100, 60, Scope(capacity_type=ON_DEMAND)),
        quota("lowPriorityCores", QuotaUnit.VCPU, 3, 0, Scope(capacity_type=SPOT)),
    ]
    assert limits(quotas, offer(ND, ON_DEMAND, "azure"), 1) == {ND.family: 96, "cores": 156}
    assert limits(quotas, offer(ND, SPOT, "azure"), 1) == {"lowPriorityCores": 96}


def test_a_gate_that_is_wide_enough_is_left_alone() -> None:
    quotas = [
        quota("narrow", QuotaUnit.VCPU, 0, 0, Scope()),
        quota("wide", QuotaUnit.VCPU, 1000, 0, Scope()),
    ]
    found = {gate.quota.key: gate.verdict for gate in gates(quotas, offer(P5, SPOT), 1, lambda _: 0)}
    assert found == {"narrow": Verdict.RAISE, "wide": Verdict.ENOUGH}


def test_what_is_under_way_needs_room_too() -> None:
    assert limits([quota("q", QuotaUnit.VCPU, 192, 0, Scope())], offer(P5, SPOT), 1, 192) == {"q": 384}


def test_an_unknown_usage_counts_as_all_of_the_limit_and_an_unknown_limit_is_not_asked_for() -> None:
    quotas = [
        quota("no_usage", QuotaUnit.VCPU, 192, None, Scope()),
        quota("no_limit", QuotaUnit.VCPU, None, 10, Scope()),
    ]
    found = {gate.quota.key: gate for gate in gates(quotas, offer(P5, SPOT), 1, lambda _: 0)}
    assert found["no_usage"].limit == 384
    assert (found["no_limit"].verdict, found["no_limit"].limit) == (Verdict.UNKNOWN, None)


def test_a_limit_that_cannot_be_raised_is_told_apart() -> None:
    fixed = quota("fixed", QuotaUnit.VCPU, 0, 0, Scope(), adjustable=False)
    (gate,) = gates([fixed], offer(P5, SPOT), 1, lambda _: 0)
    assert gate.verdict is Verdict.FIXED


@pytest.mark.parametrize("nodes", range(1, 6))
def test_no_new_limit_is_below_the_present_one_or_too_small(nodes: int) -> None:
    for limit in (0.0, 8.0, 500.5):
        for usage in (0.0, 4.0, limit, None):
            (gate,) = gates([quota("q", QuotaUnit.VCPU, limit, usage, Scope())], offer(P5, SPOT), nodes, zero)
            assert gate.limit is not None
            assert gate.limit >= limit
            assert gate.limit - (usage if usage is not None else limit) >= gate.needed


def zero(_: Quota) -> float:
    return 0


def test_gpus_are_asked_for_with_the_largest_size_that_is_not_too_large() -> None:
    small = InstanceType("g6.xlarge", "G", 4, 16, Accelerator("L4", 1, 24))
    wasteful = InstanceType("g6.16xlarge", "G", 64, 256, Accelerator("L4", 1, 24))
    large = InstanceType("g6.48xlarge", "G", 192, 768, Accelerator("L4", 8, 24))
    cpu = InstanceType("m7", "M", 4, 16)
    assert best_type([cpu, wasteful, small, large], 4) is small
    assert best_type([small, large], 16) is large
    assert best_type([large], 4) is large
    assert best_type([cpu], 4) is None
    assert (instances_for(large, 16), instances_for(large, 9), instances_for(small, 3)) == (2, 2, 3)


def test_an_amount_in_gpus_counts_whole_instances() -> None:
    assert in_gpus(quota("q", QuotaUnit.VCPU, 0, 0, Scope()), 383, P5) == 8
    assert in_gpus(quota("q", QuotaUnit.GPU, 0, 0, Scope()), 16, P5) == 16
