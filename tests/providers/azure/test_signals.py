"""What Azure says of spot capacity: in its grades, within its limits, and unknown where it says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from providers.azure.signals import EVICTIONS, GRADES, KEPT_FOR, SCORE
from providers.signals import SpotSignal
from providers.vocabulary import CapacityType
from tests.providers.azure.bench import SIZE, AzureBench
from tests.providers.azure.bench import bench as opened

H100 = "Standard_ND96isr_H100_v5"


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened({"interruptions": {"azure": 0.07}}) as one:
        yield one


def said(bench: AzureBench, source: str, size: str = SIZE) -> dict[str | None, SpotSignal]:
    listing = bench.provider.spot_signals("eastus")
    assert listing.incomplete == ()
    return {one.zone: one for one in listing.signals if (one.source, one.instance_type) == (source, size)}


def test_scores_are_told_for_the_region_and_each_zone_that_the_size_is_sold_in(bench: AzureBench) -> None:
    bench.exhaust(bench.offer(zone="eastus-1"))
    bench.exhaust(bench.offer(zone="eastus-2"), leave=2)
    found = {zone: one.obtainability for zone, one in said(bench, SCORE).items()}
    assert found == {
        None: GRADES["high"],
        "eastus-1": GRADES["low"],
        "eastus-2": GRADES["medium"],
        "eastus-3": GRADES["high"],
    }
    assert {one.eviction_rate for one in said(bench, SCORE).values()} == {None}
    assert set(said(bench, SCORE, H100)) == {None, "eastus-1", "eastus-2"}


def test_eviction_rates_are_the_middle_of_their_band_and_of_the_whole_region(bench: AzureBench) -> None:
    (one,) = said(bench, EVICTIONS).values()
    assert (one.zone, one.eviction_rate, one.obtainability) == (None, 0.075, None)


@pytest.mark.parametrize(("hourly", "share"), [(0.0, 0.025), (0.19, 0.175), (0.5, 0.2)])
def test_each_band_has_its_share(hourly: float, share: float) -> None:
    with opened({"interruptions": {"azure": hourly}}) as bench:
        assert said(bench, EVICTIONS)[None].eviction_rate == share


def test_every_size_is_asked_for_five_at_a_time_and_not_again_for_half_an_hour(bench: AzureBench) -> None:
    first = bench.provider.spot_signals("eastus")
    gpus = {
        offer.key.instance_type
        for offer in bench.provider.offers("eastus").offers
        if offer.type.accelerator and offer.key.capacity_type is CapacityType.SPOT
    }
    assert {one.instance_type for one in first.signals} == gpus
    calls = bench.cloud.calls()
    assert calls["SpotPlacementScores_Post"] == 2 * -(-len(gpus) // 5)
    bench.advance(KEPT_FOR - 60)
    assert bench.provider.spot_signals("eastus") == first
    assert bench.cloud.calls()["SpotPlacementScores_Post"] == calls["SpotPlacementScores_Post"]
    bench.advance(120)
    assert bench.provider.spot_signals("eastus") != first


def test_a_source_that_cannot_be_read_is_named_beside_the_other_and_asked_again(bench: AzureBench) -> None:
    bench.cloud.fault("SpotPlacementScores_Post", "error", code="AuthorizationFailed", http_status=403)
    listing = bench.provider.spot_signals("eastus")
    assert {one.source for one in listing.signals} == {EVICTIONS}
    assert listing.incomplete[0].startswith(f"{SCORE} of eastus")
    assert {one.source for one in bench.provider.spot_signals("eastus").signals} == {SCORE, EVICTIONS}


def test_where_nothing_is_sold_nothing_is_asked() -> None:
    with opened(allowed_types=["Standard_D2s_v5"]) as bench:
        assert bench.provider.spot_signals("eastus").signals == ()
        assert "SpotPlacementScores_Post" not in bench.cloud.calls()
