"""Reserved capacity of the local EC2: how it is shown, and who may use it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from providers.aws.reservations import is_ours
from providers.errors import ErrorKind, ProviderError
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import CapacityType, LaunchRequest, OfferKey
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.contract import refs_of, settle
from tests.providers.reservation_contract import into

DAY = 86400.0


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened() as one:
        yield one


def shown(bench: AwsBench) -> list[Reservation]:
    return list(bench.provider.reservations("us-east-1").reservations)


def block(bench: AwsBench, **terms: Any) -> str:
    return bench.reserve(2, kind="block", **{"instance_type": "p5.48xlarge", "ends": DAY, **terms})


def plain(instance_type: str = "g6.xlarge", **more: Any) -> LaunchRequest:
    key = OfferKey("aws", "lab", "us-east-1", "use1-az4", instance_type, CapacityType.ON_DEMAND)
    return LaunchRequest("5" * 32, key, 1, "#cloud-config\n", {"corral-deployment": "d"}, 50, **more)


def aimed(named: str | None, instance_type: str = "g6.xlarge", zone: str = "use1-az4") -> LaunchRequest:
    key = OfferKey("aws", "lab", "us-east-1", zone, instance_type, CapacityType.RESERVED, named)
    return LaunchRequest("6" * 32, key, 1, "#cloud-config\n", {"corral-deployment": "d"}, 50)


def refusal(bench: AwsBench, request: LaunchRequest) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(bench.provider.prepare(request))
    return caught.value


def test_a_reservation_is_billed_at_the_list_price_and_a_block_was_paid_ahead(bench: AwsBench) -> None:
    bench.reserve(2)
    block(bench)
    plain_one, paid = shown(bench)
    assert (plain_one.kind, plain_one.price) == (ReservationKind.CAPACITY_RESERVATION, 0.805)
    assert (paid.kind, paid.price) == (ReservationKind.CAPACITY_BLOCK, None)
    assert plain_one.ends_at is None


def test_a_block_ends_for_us_when_ec2_begins_to_clear_it(bench: AwsBench) -> None:
    block(bench)
    (one,) = shown(bench)
    assert one.ends_at == bench.clock.now() + timedelta(days=1, minutes=-30)


def test_a_block_that_has_not_begun_is_scheduled_and_refuses_until_it_has(bench: AwsBench) -> None:
    named = block(bench, starts=DAY, ends=2 * DAY)
    assert shown(bench)[0].state is ReservationState.SCHEDULED
    error = refusal(bench, aimed(named, "p5.48xlarge"))
    assert (error.kind, error.scope.reservation) == (ErrorKind.CAPACITY, named)
    bench.advance(DAY)
    request = into(bench, named, "in-time")
    bench.provider.launch(request)
    assert shown(bench)[0].used == 1


def test_an_instance_of_a_block_says_how_it_was_bought(bench: AwsBench) -> None:
    named = block(bench)
    request = into(bench, named, "block")
    refs = refs_of(request, bench.provider.launch(request))
    settle(bench)
    (seen,) = bench.provider.describe(refs)
    assert seen.capacity_type is CapacityType.RESERVED
    assert bench.live()["instance"] == 1


def test_PRI_02_an_open_reservation_is_not_eaten_by_a_launch_that_does_not_name_it(bench: AwsBench) -> None:
    named = bench.reserve(1, targeted=False)
    assert not shown(bench)[0].targeted
    bench.provider.launch(bench.provider.prepare(plain()))
    assert shown(bench)[0].used == 0
    bench.provider.launch(into(bench, named, "by-name"))
    assert shown(bench)[0].used == 1


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"named": None}, ErrorKind.INVALID_REQUEST, "names its reservation"),
        ({"named": "cr-0000000000000ffff"}, ErrorKind.NOT_FOUND, "cr-0000000000000ffff"),
        ({"instance_type": "g6.2xlarge"}, ErrorKind.INVALID_REQUEST, "is for g6.xlarge, not for g6.2xlarge"),
        ({"zone": "use1-az6"}, ErrorKind.INVALID_REQUEST, "is in use1-az4, not in use1-az6"),
    ],
)
def test_a_reservation_that_does_not_fit_is_refused_before_anything_is_sent(
    bench: AwsBench, change: dict[str, Any], kind: ErrorKind, says: str
) -> None:
    named = bench.reserve(1)
    error = refusal(bench, aimed(**{"named": named, **change}))
    assert error.kind is kind
    assert says in error.message
    assert "RunInstances" not in bench.calls()


def test_a_reservation_of_a_type_that_the_settings_leave_out_is_shown_all_the_same() -> None:
    with opened(allowed_types=["g5.*"]) as bench:
        bench.reserve(1)
        (one,) = shown(bench)
        assert one.type.accelerator is not None
        assert one.type.accelerator.name == "L4"


def test_what_our_launches_cannot_use_is_not_shown() -> None:
    assert is_ours({"InstancePlatform": "Linux/UNIX", "Tenancy": "default"})
    assert not is_ours({"InstancePlatform": "Windows", "Tenancy": "default"})
    assert not is_ours({"InstancePlatform": "Linux/UNIX", "Tenancy": "dedicated"})
    assert not is_ours({"InstancePlatform": "Linux/UNIX", "Interruptible": True})
