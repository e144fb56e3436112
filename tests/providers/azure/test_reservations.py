"""Reserved capacity on Azure: by name or not at all, and never more than there is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.reservations import ReservationKind, ReservationState
from providers.vocabulary import CapacityType
from tests.providers.azure.bench import SIZE, AzureBench
from tests.providers.azure.bench import bench as opened

DEMAND, SPOT, RESERVED = CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.RESERVED
DAY = 86_400


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def listed(bench: AzureBench, region: str = "eastus") -> dict[str, Any]:
    listing = bench.provider.reservations(region)
    assert listing.incomplete == ()
    return {one.name: one for one in listing.reservations}


def inside(bench: AzureBench, name: str) -> int:
    (found,) = [used for one, used in bench.cloud.world.reservations("azure") if one.name == name]
    return found


def test_kinds_terms_and_prices_are_told_apart(bench: AzureBench) -> None:
    bench.set_aside("plain", count=3)
    bench.set_aside("open", targeted=False, zone="eastus-2")
    bench.set_aside("block", kind="block", starts=DAY, ends=3 * DAY)
    bench.set_aside("future", starts=DAY)
    found = listed(bench)
    kinds = {name: (one.kind, one.state, one.targeted, one.price) for name, one in found.items()}
    price = 3.673
    assert kinds == {
        "plain": (ReservationKind.CAPACITY_RESERVATION, ReservationState.ACTIVE, True, price),
        "open": (ReservationKind.CAPACITY_RESERVATION, ReservationState.ACTIVE, False, price),
        "block": (ReservationKind.CAPACITY_BLOCK, ReservationState.SCHEDULED, True, None),
        "future": (ReservationKind.FUTURE_RESERVATION, ReservationState.SCHEDULED, True, price),
    }
    assert (found["plain"].zone, found["open"].zone) == ("eastus-1", "eastus-2")
    assert (found["block"].ends_at - found["block"].starts_at).total_seconds() == 2 * DAY
    bench.advance(2 * DAY)
    assert {one.state for one in listed(bench).values()} == {ReservationState.ACTIVE}
    bench.advance(2 * DAY)
    assert listed(bench)["block"].state is ReservationState.ENDED


def test_a_group_of_several_is_read_in_two_calls_and_other_regions_are_left_out(bench: AzureBench) -> None:
    bench.set_aside("team/a100", count=2)
    bench.set_aside("team/t4", instance_type="Standard_NC4as_T4_v3", count=4)
    bench.set_aside("abroad", zone="westeurope-1")
    assert {name: one.total for name, one in listed(bench).items()} == {"a100": 2, "t4": 4}
    assert list(listed(bench, "westeurope")) == ["abroad"]
    calls = bench.cloud.calls()
    assert calls["CapacityReservationGroups_Get"] == calls["CapacityReservationGroups_ListBySubscription"]
    assert "CapacityReservations_Get" not in calls


def test_a_launch_names_the_group_and_is_known_as_reserved_again(bench: AzureBench) -> None:
    bench.set_aside("team/a100", count=2)
    named = bench.reservation("team/a100")
    asked = bench.ask(bench.offer(RESERVED, reservation=named))
    bench.provider.launch(asked)
    bench.advance(60)
    sent = bench.cloud.vm(asked.names()[0]).extra["body"]["properties"]
    group = named.partition("/capacityReservations/")[0]
    assert sent["capacityReservation"] == {"capacityReservationGroup": {"id": group}}
    assert sent["priority"] == "Regular"
    assert inside(bench, "team/a100") == 1
    (shown,) = bench.provider.describe(bench.refs(asked))
    assert shown.capacity_type is RESERVED


@pytest.mark.parametrize("capacity_type", [DEMAND, SPOT])
def test_open_reservations_are_not_eaten_by_launches_that_name_none(
    bench: AzureBench, capacity_type: CapacityType
) -> None:
    bench.set_aside("open", targeted=False, count=2)
    bench.provider.launch(bench.ask(bench.offer(capacity_type)))
    assert inside(bench, "open") == 0
    bench.provider.launch(bench.ask(bench.offer(RESERVED, reservation=bench.reservation("open")), name="b"))
    assert inside(bench, "open") == 1


def test_a_full_group_would_let_more_in_at_the_price_of_the_market_and_we_do_not_ask(
    bench: AzureBench,
) -> None:
    named = bench.reserve(1)
    key = bench.offer(RESERVED, reservation=named)
    bench.provider.launch(bench.ask(key))
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(bench.ask(key, name="b"))
    assert (caught.value.kind, caught.value.scope.reservation) == (ErrorKind.CAPACITY, named)
    assert "0 free" in str(caught.value)
    assert bench.cloud.calls()["VirtualMachines_CreateOrUpdate"] == 1


def test_a_launch_sent_again_into_a_reservation_that_it_fills_is_the_same(bench: AzureBench) -> None:
    asked = bench.ask(bench.offer(RESERVED, reservation=bench.reserve(2)), nodes=2)
    first, again = bench.provider.launch(asked), bench.provider.launch(asked)
    assert [one.name for one in again.instances] == [one.name for one in first.instances]
    assert bench.live()["instance"] == 2


@pytest.mark.parametrize(
    ("terms", "key", "kind"),
    [
        ({"starts": DAY}, {}, ErrorKind.CAPACITY),
        ({"zone": "eastus-2"}, {}, ErrorKind.INVALID_REQUEST),
        ({}, {"size": "Standard_NC48ads_A100_v4"}, ErrorKind.INVALID_REQUEST),
        ({"ends": 0}, {}, ErrorKind.NOT_FOUND),
        ({"kind": "block", "ends": 0}, {}, ErrorKind.CAPACITY),
    ],
)
def test_a_reservation_that_cannot_be_used_is_refused_before_anything_is_made(
    bench: AzureBench, terms: dict[str, Any], key: dict[str, str], kind: ErrorKind
) -> None:
    bench.set_aside("paid", **terms)
    asked = bench.ask(bench.offer(RESERVED, reservation=bench.reservation("paid"), **key))
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert (caught.value.kind, caught.value.scope.reservation) == (kind, asked.offer.reservation)
    assert "VirtualMachines_CreateOrUpdate" not in bench.cloud.calls()


@pytest.mark.parametrize("named", [None, "", "paid", "/subscriptions/x/capacityReservationGroups/g"])
def test_reserved_capacity_without_the_id_of_a_reservation_is_refused_when_prepared(
    bench: AzureBench, named: str | None
) -> None:
    with pytest.raises(ProviderError, match="no id of a capacity reservation"):
        bench.ask(bench.offer(RESERVED, reservation=named))


def test_what_a_reservation_lacks_in_the_end_is_no_word_on_the_open_market(bench: AzureBench) -> None:
    named = bench.reserve(1)
    bench.cloud.fault("VirtualMachines_CreateOrUpdate/operation", "error", code="AllocationFailed")
    asked = bench.ask(bench.offer(RESERVED, reservation=named))
    launched = bench.provider.launch(asked)
    bench.advance(30)
    (shown,) = bench.provider.describe(bench.refs(asked, launched))
    assert isinstance(shown.error, ProviderError)
    assert (shown.error.kind, shown.error.scope.reservation) == (ErrorKind.CAPACITY, named)
    plain = [one for one in bench.provider.offers("eastus").offers if one.key == bench.offer(DEMAND)]
    assert not shown.error.scope.covers(plain[0])


def test_reservations_that_cannot_be_read_are_named(bench: AzureBench) -> None:
    bench.set_aside("paid")
    denied = {"code": "AuthorizationFailed", "http_status": 403, "times": None}
    bench.cloud.fault("CapacityReservations_List*", "error", **denied)
    assert "capacityReservationGroups/paid" in bench.provider.reservations("eastus").incomplete[0]
    bench.cloud.fault("CapacityReservationGroups_List*", "error", **denied)
    assert bench.provider.reservations("eastus").incomplete


def test_a_subscription_without_reservations_asks_for_nothing_else(bench: AzureBench) -> None:
    assert listed(bench) == {}
    assert set(bench.cloud.calls()) == {"CapacityReservationGroups_ListBySubscription"}


def test_a_size_that_is_not_wanted_is_left_out() -> None:
    with opened(allowed_types=["Standard_NC4as_T4_v3"]) as bench:
        bench.set_aside("paid", instance_type=SIZE)
        assert listed(bench) == {}
