"""Capacity that was paid for ahead: how it is listed, targeted, and left alone. See also the contract."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp import reserved_words as words
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import CapacityType, InstanceState, InstanceType, LaunchRequest, OfferKey
from sandbox.reservations import ReservationRule
from tests.providers.contract import pick, refusal, request, start
from tests.providers.gcp.bench import REGION, GceBench

PAID: dict[str, Any] = {"provider": "gcp", "name": "paid", "zone": f"{REGION}-a", "count": 2}
PAID |= {"instance_type": "a3-highgpu-8g"}
BLOCK: dict[str, Any] = {**PAID, "name": "block", "zone": f"{REGION}-b", "kind": "block", "ends": 7200}
BLOCK |= {"instance_type": "a3-ultragpu-8g"}


def reserve(bench: GceBench, rule: dict[str, Any], **changes: Any) -> str:
    made = bench.gce.world.reserve(ReservationRule.model_validate({**rule, **changes}))
    bench.advance(21)  # what was listed before is forgotten
    return f"{made.zone}/{made.name}"


def listed(bench: GceBench, named: str) -> Reservation:
    (found,) = [one for one in bench.provider.reservations(REGION).reservations if one.id == named]
    return found


def into(bench: GceBench, named: str, name: str, *, instance_type: str, **changes: Any) -> LaunchRequest:
    zone = named.partition("/")[0]
    offer = OfferKey("gcp", "lab", REGION, zone, instance_type, CapacityType.RESERVED, named)
    template = request(pick(bench), name, prepared_by=None)
    return bench.provider.prepare(replace(template, offer=offer, **changes))


def test_a_plain_reservation_costs_what_the_type_costs_on_demand(bench: GceBench) -> None:
    found = listed(bench, reserve(bench, PAID))
    offers = bench.provider.offers(REGION).offers
    price = next(
        o.price
        for o in offers
        if o.key.instance_type == found.type.name and o.key.capacity_type is CapacityType.ON_DEMAND
    )
    assert (found.kind, found.price) == (ReservationKind.CAPACITY_RESERVATION, price)
    assert (found.name, found.zone, found.ends_at) == ("paid", f"{REGION}-a", None)


def test_an_open_reservation_says_so_and_no_other_launch_eats_it(bench: GceBench) -> None:
    named = reserve(bench, PAID, targeted=False, instance_type=bench.instance_type)
    assert not listed(bench, named).targeted
    start(bench, request(pick(bench), "plain", prepared_by=bench.provider))
    assert listed(bench, named).used == 0


def test_reservations_of_one_name_in_two_zones_are_two(bench: GceBench) -> None:
    ids = {"us-central1-a/paid", "us-central1-b/paid"}
    message = message_of(zone="projects/p/zones/us-central1-b")
    assert {words.id_of("us-central1-a", "paid"), words.id_of(message.zone, message.name)} == ids
    assert words.place_of("us-central1-b/paid") == ("us-central1-b", "paid")
    reserve(bench, PAID)
    with pytest.raises(ProviderError, match="no reservation paid in us-central1-b"):
        into(bench, "us-central1-b/paid", "elsewhere", instance_type="a3-highgpu-8g")


def test_a_block_of_capacity_is_paid_ahead_and_its_instances_are_bound_to_it(bench: GceBench) -> None:
    named = reserve(bench, BLOCK)
    found = listed(bench, named)
    assert (found.kind, found.state, found.price) == (
        ReservationKind.FUTURE_RESERVATION,
        ReservationState.ACTIVE,
        None,
    )
    assert found.ends_at is not None
    asked = into(bench, named, "bound", instance_type="a3-ultragpu-8g", max_age_seconds=600)
    (ref,) = start(bench, asked)
    (vm,) = bench.gce.vms()
    assert vm.reservation == "block"
    assert vm.extra["scheduling"]["provisioningModel"] == "RESERVATION_BOUND"
    assert "maxRunDuration" not in vm.extra["scheduling"]
    bench.advance(7200)
    assert bench.provider.describe([ref])[0].state not in (InstanceState.RUNNING, InstanceState.PENDING)


def test_a_reservation_that_begins_later_is_scheduled_until_it_is_there(bench: GceBench) -> None:
    named = reserve(bench, BLOCK, starts=3600, ends=7200)
    found = listed(bench, named)
    assert (found.kind, found.state) == (ReservationKind.FUTURE_RESERVATION, ReservationState.SCHEDULED)
    assert (found.total, found.used) == (2, 0)
    assert found.starts_at is not None
    assert found.ends_at == found.starts_at + timedelta(seconds=3600)
    bench.advance(3600)
    assert listed(bench, named).state is ReservationState.ACTIVE
    bench.advance(3700)
    assert not bench.provider.reservations(REGION).reservations


def test_at_its_maximum_age_an_instance_leaves_its_reservation(bench: GceBench) -> None:
    named = reserve(bench, PAID)
    start(bench, into(bench, named, "aged", instance_type="a3-highgpu-8g", max_age_seconds=600))
    assert listed(bench, named).used == 1
    bench.advance(700)
    assert listed(bench, named).used == 0


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        ({"reservation": None}, "asked for by the reservation's name"),
        ({"capacity_type": CapacityType.SPOT}, "asked for by the reservation's name"),
        ({"reservation": "us-central1-a/gone"}, "there is no reservation gone in us-central1-a"),
        ({"reservation": "Paid"}, "expected ZONE/NAME"),
        ({"instance_type": "a2-highgpu-1g"}, "it is of a3-highgpu-8g, not of a2-highgpu-1g"),
    ],
)
def test_a_reservation_that_cannot_be_used_is_refused_before_anything_is_sent(
    bench: GceBench, offer: dict[str, Any], said: str
) -> None:
    named = reserve(bench, PAID)
    template = into(bench, named, "wrong", instance_type="a3-highgpu-8g")
    wrong = replace(template, offer=replace(template.offer, **offer))
    with pytest.raises(ProviderError, match=said) as caught:
        bench.provider.prepare(wrong)
    assert caught.value.kind is ErrorKind.INVALID_REQUEST
    assert not caught.value.scope.covers(pick(bench))
    assert "instances.insert" not in bench.gce.calls()


def test_a_refusal_that_comes_late_still_names_the_reservation_alone(bench: GceBench) -> None:
    named = reserve(bench, PAID, count=1)
    asked = into(bench, named, "late", instance_type="a3-highgpu-8g")
    reserve(bench, PAID, count=0)
    error, _ = refusal(bench, asked)
    assert (error.kind, error.scope.reservation) == (ErrorKind.CAPACITY, named)


def test_unused_slots_of_a_reservation_draw_on_the_quota_that_is_counted(bench: GceBench) -> None:
    named = reserve(bench, PAID)

    def usage() -> float | None:
        quotas = bench.provider.quotas(REGION).quotas
        return next(q.usage for q in quotas if q.key == "GPUS_PER_GPU_FAMILY/NVIDIA_H100")

    assert usage() == 16
    start(bench, into(bench, named, "within", instance_type="a3-highgpu-8g"))
    assert usage() == 16


def test_two_lists_serve_every_region_for_some_seconds(bench: GceBench) -> None:
    for _ in range(3):
        bench.provider.reservations(REGION)
    calls = bench.gce.calls()
    assert (calls["reservations.aggregatedList"], calls["futureReservations.aggregatedList"]) == (1, 1)


def test_without_the_permission_to_see_future_reservations_the_others_are_listed(bench: GceBench) -> None:
    bench.gce.fault(
        "futureReservations.aggregatedList", "error", code="forbidden", http_status=403, times=None
    )
    named = reserve(bench, PAID)
    listing = bench.provider.reservations(REGION)
    assert listing.incomplete == ("futureReservations",)
    assert [one.id for one in listing.reservations] == [named]


def test_a_zone_that_cannot_be_reached_is_named(bench: GceBench) -> None:
    bench.gce.fault("reservations.aggregatedList", "unreachable", value=f"{REGION}-b", times=None)
    named = reserve(bench, PAID)
    listing = bench.provider.reservations(REGION)
    assert listing.incomplete == (f"{REGION}-b",)
    assert [one.id for one in listing.reservations] == [named]


# Messages

NOW = datetime(2026, 11, 3, tzinfo=UTC)
SIZE = InstanceType("a2-highgpu-1g", "NVIDIA_A100", 12, 85)


def message_of(**fields: Any) -> Any:
    from providers.gcp.sdk import load_slim

    load_slim()
    from google.cloud.compute_v1.types import Reservation as Message

    return Message(
        {
            "name": "paid",
            "zone": f"projects/p/zones/{REGION}-a",
            "status": "READY",
            "specific_reservation": {"count": 4, "instance_properties": {"machine_type": SIZE.name}},
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, ReservationState.ACTIVE),
        ({"status": "CREATING"}, ReservationState.SCHEDULED),
        ({"status": "UPDATING"}, ReservationState.ACTIVE),
        ({"status": "DELETING"}, ReservationState.ENDED),
        ({"status": "INVALID"}, ReservationState.UNKNOWN),
        ({"status": "BRAND_NEW"}, ReservationState.UNKNOWN),
        ({"delete_at_time": "2026-11-02T00:00:00Z"}, ReservationState.ENDED),
    ],
)
def test_the_state_of_a_reservation(fields: dict[str, Any], state: ReservationState) -> None:
    found = words.current(message_of(**fields), SIZE, REGION, NOW, frozenset(), None)
    assert found.state is state


def test_what_is_usable_counts_and_not_what_was_ordered() -> None:
    sku = {"count": 4, "assured_count": 3, "in_use_count": 1}
    message = message_of(specific_reservation={**sku, "instance_properties": {"machine_type": SIZE.name}})
    found = words.current(message, SIZE, REGION, NOW, frozenset(), None)
    assert (found.total, found.used, found.free) == (3, 1, 2)


def test_local_disks_that_our_instances_lack_make_a_reservation_no_use() -> None:
    properties = {"machine_type": SIZE.name, "local_ssds": [{"disk_size_gb": 375, "interface": "NVME"}]}
    message = message_of(specific_reservation={"count": 1, "instance_properties": properties})
    assert "375 GB of local SSD" in words.fault_in(message, SIZE.name, SIZE)
    assert not words.fault_in(message, SIZE.name, replace(SIZE, local_disk_gib=375))
    state = words.current(message, SIZE, REGION, NOW, frozenset(), None).state
    assert state is ReservationState.UNKNOWN


def test_gpus_that_are_attached_are_a_part_of_the_type() -> None:
    cards = [{"accelerator_type": "nvidia-tesla-t4", "accelerator_count": 1}]
    message = message_of(
        specific_reservation={
            "instance_properties": {"machine_type": "n1-standard-4", "guest_accelerators": cards}
        }
    )
    name = words.type_name(message.specific_reservation.instance_properties)
    assert name == "n1-standard-4+nvidia-tesla-t4x1"
