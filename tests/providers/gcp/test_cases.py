"""Failures that others met on Compute Engine, played against the adapter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp.errors import Where, of_operation
from providers.vocabulary import CapacityType, EndReason, InstanceState, Scope
from tests.providers.contract import DEPLOYMENT, pick, refusal, request, settle, start, total
from tests.providers.gcp.bench import REGION, GceBench
from tests.providers.gcp.test_errors import operation, plain, quota, where

NOW = datetime(2026, 11, 3, 9, 0, 10, tzinfo=UTC)
SPOT = CapacityType.SPOT
NEUTRAL = plain("VM_MIN_COUNT_NOT_REACHED", "Requested minimum count of 1 VMs could not be created")
A100 = quota("NVIDIA_A100_GPUS", f"Limit: 0.0 in region {REGION}.")
SSD = quota("SSD_TOTAL_GB", f"Limit: 500.0 in region {REGION}.")
STOCK_OUT = plain("ZONE_RESOURCE_POOL_EXHAUSTED")


def read(*errors: dict[str, Any], about: Where | None = None) -> ProviderError:
    found = of_operation([operation(*errors)], about or where(CapacityType.ON_DEMAND), NOW)
    assert found is not None
    return found


def test_FAI_02_the_operations_errors_count_and_its_http_status_only_without_any() -> None:
    error = read(A100)
    assert (error.kind, error.scope.region, error.scope.family) == (
        ErrorKind.QUOTA,
        REGION,
        "NVIDIA_A100",
    )
    assert read().kind is ErrorKind.CAPACITY  # 503 of an operation
    for specific, kind in ((A100, ErrorKind.QUOTA), (STOCK_OUT, ErrorKind.CAPACITY)):
        for pair in ((NEUTRAL, specific), (specific, NEUTRAL)):
            assert read(*pair).code == specific["code"]
            assert read(*pair).kind is kind


def test_FAI_03_a_quota_beside_the_count_is_the_cause_and_the_count_alone_is_the_zones() -> None:
    both = read(NEUTRAL, SSD)
    assert both.kind is ErrorKind.QUOTA
    assert both.scope.region == REGION
    assert both.scope.family is None  # disks of every family
    alone = read(NEUTRAL)
    assert (alone.kind, alone.scope.zone) == (ErrorKind.CAPACITY, where().zone)


@pytest.mark.parametrize(
    ("reason", "status", "kind"),
    [
        ("quotaExceeded", 403, ErrorKind.QUOTA),
        ("rateLimitExceeded", 403, ErrorKind.THROTTLED),
        ("forbidden", 403, ErrorKind.AUTH),
        ("insufficientCapacity", 503, ErrorKind.CAPACITY),
        ("backendError", 503, ErrorKind.TRANSIENT),
    ],
)
def test_SCA_04_the_reason_decides_and_never_the_status(
    bench: GceBench, reason: str, status: int, kind: ErrorKind
) -> None:
    bench.gce.fault("instances.bulkInsert", "error", code=reason, http_status=status)
    asked = request(pick(bench), "reason", nodes=2, prepared_by=bench.provider)
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert caught.value.kind is kind
    if kind is ErrorKind.THROTTLED:
        assert not caught.value.ambiguous
        assert caught.value.retry_after
        bench.provider.launch(asked)  # the same request, the same requestId
        settle(bench)
        assert bench.live()["instance"] == 2


def test_LIF_11_a_deletion_that_is_not_found_does_not_make_an_instance_gone(bench: GceBench) -> None:
    (ref,) = start(bench, request(pick(bench), "overlap", prepared_by=bench.provider))
    bench.gce.fault("instances.delete", "error", code="notFound", http_status=404, message="was not found")
    bench.provider.terminate([ref])
    (seen,) = bench.provider.describe([ref])
    assert seen.state is InstanceState.RUNNING
    assert bench.live() == {**bench.live(), "instance": 1, "disk": 1}
    bench.provider.terminate([ref])
    settle(bench)
    assert total(bench) == 0


def test_PRE_01_a_preemption_shows_while_the_instance_still_says_that_it_runs(bench: GceBench) -> None:
    (ref,) = start(bench, request(pick(bench, SPOT), "taken", prepared_by=bench.provider))
    bench.preempt(ref.provider_id)
    (vm,) = bench.gce.vms()
    assert vm.state == "running"
    (seen,) = bench.provider.describe([ref])
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPING, EndReason.PREEMPTED)


def test_PRO_14_what_is_left_of_a_preempted_start_is_removed_and_a_new_token_has_a_new_name(
    bench: GceBench,
) -> None:
    spot = pick(bench, SPOT)
    first = request(spot, "attempt-1", prepared_by=bench.provider)
    (ref,) = start(bench, first)
    (vm,) = bench.gce.vms()
    vm.eviction = "stop"  # as if the deletion had not come through
    bench.gce.world.preempt(vm, notice=False)
    (seen,) = bench.provider.describe([ref])
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPED, EndReason.PREEMPTED)
    second = request(spot, "attempt-2", prepared_by=bench.provider)
    assert not set(first.names()) & set(second.names())
    bench.provider.terminate([ref])
    settle(bench)
    assert total(bench) == 0
    start(bench, second)


def test_PRO_17_a_gang_whose_last_node_has_no_capacity_leaves_nothing(bench: GceBench) -> None:
    offer = pick(bench)
    bench.exhaust(offer.key, leave=3)
    error, refs = refusal(bench, request(offer, "four", nodes=4, prepared_by=bench.provider))
    assert error.kind is ErrorKind.CAPACITY
    assert len(refs) == 4
    assert total(bench) == 0
    assert bench.provider.list_instances(REGION, DEPLOYMENT).instances == ()


# Reservations

RESERVED = where(CapacityType.RESERVED, reservation=f"{REGION}-a/paid")
MINE = Scope(provider="gcp", account="lab", zone=where().zone, reservation=f"{REGION}-a/paid")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "Specified reservation 'paid' does not have available resources for the request.",
            ErrorKind.CAPACITY,
        ),
        ("No available resources in specified reservations 'paid'", ErrorKind.CAPACITY),
        (
            "Cannot insert instance to a reservation with status: CREATING, as it requires reservation "
            "to be in READY state.",
            ErrorKind.CAPACITY,
        ),
        ("Specified reservations [paid] do not exist. (when acting as", ErrorKind.INVALID_REQUEST),
        (
            "Instance 'x' creation failed: The reservation must exist in the same project as the instance.",
            ErrorKind.INVALID_REQUEST,
        ),
    ],
)
def test_what_a_reservation_refuses_says_nothing_of_other_offers(text: str, kind: ErrorKind) -> None:
    error = read(plain("CONDITION_NOT_MET", text), about=RESERVED)
    assert (error.kind, error.scope, error.ambiguous) == (kind, MINE, False)


def test_an_organisations_policy_is_still_told_from_a_reservation() -> None:
    text = "Instance 'x' creation failed: Constraint constraints/compute.vmExternalIpAccess violated."
    error = read(plain("CONDITION_NOT_MET", text), about=RESERVED)
    assert (error.kind, error.scope) == (
        ErrorKind.INVALID_REQUEST,
        Scope(provider="gcp", account="lab"),
    )


def test_a_type_that_is_not_sold_so_is_unsupported_in_that_way_alone() -> None:
    text = "Machine type a3-highgpu-1g does not support the STANDARD provisioning model."
    error = read(plain("INVALID_USAGE", text))
    assert error.kind is ErrorKind.UNSUPPORTED
    assert error.scope.capacity_type is CapacityType.ON_DEMAND
