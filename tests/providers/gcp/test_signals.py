"""What Google says of spot capacity, and how fast it is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp import rates
from providers.vocabulary import CapacityType
from sandbox.scenario import CapacityRule
from tests.clocks import FakeClock
from tests.providers.contract import pick
from tests.providers.gcp.bench import REGION, GceBench

ADVICE = "advice.capacity"
N1 = "n1-standard-4+nvidia-tesla-t4x1"
FEW = ["g2-standard-8", N1, "e2-standard-2"]


@pytest.fixture
def bench(bench: GceBench) -> Iterator[GceBench]:
    """An account of few types, so that few questions are asked."""
    made = GceBench(bench.gce, allowed_types=FEW)
    yield made
    made.provider.close()


def obtainability(bench: GceBench) -> dict[tuple[str | None, str], float | None]:
    listing = bench.provider.spot_signals(REGION)
    assert not listing.incomplete
    return {(signal.zone, signal.instance_type): signal.obtainability for signal in listing.signals}


def test_each_gpu_type_has_a_signal_in_each_zone_where_it_is_sold(bench: GceBench) -> None:
    found = obtainability(bench)
    spot = {
        (offer.key.zone, offer.key.instance_type)
        for offer in bench.provider.offers(REGION).offers
        if offer.key.capacity_type is CapacityType.SPOT and offer.type.accelerator is not None
    }
    assert set(found) == spot
    assert N1 in {name for _, name in found}
    assert set(found.values()) == {0.9}


def test_a_zone_without_capacity_has_a_low_one(bench: GceBench) -> None:
    zone = pick(bench).key.zone
    rule = {"provider": "gcp", "zone": zone, "instance_type": "g2-standard-8", "count": 0}
    bench.gce.world.set_capacity(CapacityRule.model_validate(rule))
    found = obtainability(bench)
    assert found[zone, "g2-standard-8"] == 0.1
    assert found[zone, N1] == 0.9


def test_an_answer_is_kept_for_half_an_hour(bench: GceBench) -> None:
    obtainability(bench)
    asked = bench.gce.calls()[ADVICE]
    obtainability(bench)
    assert bench.gce.calls()[ADVICE] == asked
    bench.advance(1801)
    obtainability(bench)
    assert bench.gce.calls()[ADVICE] == 2 * asked


def test_without_the_permission_nothing_is_known_and_the_vendor_is_left_alone(bench: GceBench) -> None:
    bench.gce.fault(ADVICE, "error", code="forbidden", http_status=403, times=None)
    for _ in range(3):
        listing = bench.provider.spot_signals(REGION)
        assert not listing.signals
        assert f"{REGION}-a" in listing.incomplete
    assert bench.gce.calls()[ADVICE] == 1


def test_a_type_without_advice_has_no_signal_and_is_not_asked_about_again(bench: GceBench) -> None:
    bench.gce.fault(ADVICE, "error", code="invalid", http_status=400)
    asked = len(obtainability(bench)) + 1
    bench.advance(1801)
    obtainability(bench)
    assert bench.gce.calls()[ADVICE] == 2 * asked - 1


def test_what_could_not_be_asked_keeps_its_last_answer(bench: GceBench) -> None:
    before = obtainability(bench)
    bench.advance(1801)
    bench.gce.fault(ADVICE, "error", http_status=503, times=None)
    listing = bench.provider.spot_signals(REGION)
    assert {(s.zone, s.instance_type): s.obtainability for s in listing.signals} == before
    assert listing.incomplete


# How fast


def test_calls_of_a_region_are_spaced_out_by_what_they_do() -> None:
    clock = FakeClock(waits_advance=True)
    limits = rates.limiter(clock, "lab")
    began = clock.monotonic()
    for _ in range(300):
        limits.take(REGION, "insert_unary")
    assert clock.monotonic() - began == pytest.approx((300 - 40) / 8, abs=0.5)
    limits.take("us-east4", "insert_unary")
    limits.take(REGION, "get")


def test_no_rate_passes_the_vendors_own() -> None:
    """1500 a minute by region and group; bulk inserts 20 a second."""
    for name, rate in {**rates.RATES, "get": rates.DEFAULT}.items():
        assert rate.burst + 60 * rate.per_second <= 1500 * 0.6, name
    assert rates.RATES["bulk_insert_unary"].per_second < 20


def test_who_would_wait_too_long_is_refused_like_the_vendor_would(bench: GceBench) -> None:
    limits = rates.limiter(FakeClock(), "lab")
    limits.close()
    with pytest.raises(ProviderError) as caught:  # noqa: PT012 - it is one of many
        for _ in range(1000):
            limits.take(REGION, "insert_unary")
    assert caught.value.kind is ErrorKind.THROTTLED
    assert caught.value.retry_after
    assert caught.value.scope.account == "lab"
