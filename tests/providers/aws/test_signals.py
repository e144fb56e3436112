"""What EC2 says of its spot capacity, and what is known of it before it was asked."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from providers.aws import built_in
from providers.vocabulary import CapacityType, Offer, OfferKey
from tests.providers.aws.bench import AwsBench, opened
from tests.providers.aws.conftest import account

SCORES = "GetSpotPlacementScores"
REGION = "us-east-1"


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened() as one:
        yield one


def score(bench: AwsBench, instance_type: str, zone: str = "use1-az4") -> float | None:
    signals = bench.provider.spot_signals(REGION).signals
    found = [one for one in signals if (one.instance_type, one.zone) == (instance_type, zone)]
    return found[0].obtainability if found else None


def exhaust(bench: AwsBench, *names: str) -> None:
    for name in names:
        bench.exhaust(OfferKey("aws", "lab", REGION, "use1-az4", name, CapacityType.SPOT))


def test_a_score_is_the_same_for_all_sizes_of_a_gpu_in_a_zone(bench: AwsBench) -> None:
    exhaust(bench, "g6.xlarge", "g6.2xlarge", "g6.12xlarge", "g6.48xlarge")
    assert score(bench, "g6.xlarge") == score(bench, "g6.48xlarge") == 0.1
    assert score(bench, "g6.xlarge", "use1-az6") == 1
    assert score(bench, "g5.xlarge") == 1


def test_a_gpu_of_fewer_than_three_sizes_has_no_score_rather_than_a_low_one(bench: AwsBench) -> None:
    assert score(bench, "p5.48xlarge") is None
    sizes = {one.instance_type for one in bench.provider.spot_signals(REGION).signals}
    assert not [name for name in sizes if fnmatchcase(name, "p*")]


def test_scores_are_asked_once_an_hour_for_each_gpu(bench: AwsBench) -> None:
    for _ in range(3):
        listing = bench.provider.spot_signals(REGION)
        assert not listing.incomplete
    assert bench.calls()[SCORES] == 4
    bench.advance(3601)
    bench.provider.spot_signals(REGION)
    assert bench.calls()[SCORES] == 8


def test_a_limit_of_the_vendors_is_not_hammered_and_leaves_the_rest(bench: AwsBench) -> None:
    bench.fault(SCORES, "error", code="MaxConfigLimitExceededException", http_status=400)
    listing = bench.provider.spot_signals(REGION)
    assert listing.incomplete == (f"{REGION} A10G",)
    assert {one.instance_type.partition(".")[0] for one in listing.signals} == {"g4dn", "g6", "g6e"}
    assert bench.calls()[SCORES] == 4


def test_without_the_permission_nothing_is_said(bench: AwsBench) -> None:
    bench.fault(SCORES, "error", code="UnauthorizedOperation", http_status=403, times=None)
    listing = bench.provider.spot_signals(REGION)
    assert listing.signals == ()
    assert len(listing.incomplete) == 4


# Built in


def shipped(region: str = REGION, **settings: object) -> list[Offer]:
    config = account("http://127.0.0.1:9", **settings)
    return list(built_in.offers(config, region))


def test_built_in_offers_ask_nobody_and_carry_list_prices(bench: AwsBench) -> None:
    offers = {offer.key: offer for offer in bench.provider.built_in_offers(REGION).offers}
    assert bench.calls() == {}
    key = OfferKey("aws", "lab", REGION, "use1-az4", "p5.48xlarge", CapacityType.ON_DEMAND)
    assert (offers[key].price, offers[key].price_source) == (55.04, "snapshot")
    assert offers[key].priced_at is not None
    spot = OfferKey("aws", "lab", REGION, "use1-az4", "p5.48xlarge", CapacityType.SPOT)
    assert offers[spot].price is None
    assert {offer.price_source for offer in offers.values()} == {"snapshot"}


def test_built_in_types_are_those_that_are_read_later(bench: AwsBench) -> None:
    later = {offer.type.name: offer.type for offer in bench.provider.offers(REGION).offers}
    for offer in bench.provider.built_in_offers(REGION).offers:
        read = later.get(offer.type.name)
        if read is not None:
            assert (offer.type.vcpus, offer.type.memory_gib) == (read.vcpus, read.memory_gib)
            assert (offer.type.accelerator, offer.type.family) == (read.accelerator, read.family)
            assert offer.type.fabric == read.fabric


def test_a_price_of_another_region_is_unknown_and_its_types_are_its_own() -> None:
    ireland = shipped("eu-west-1")
    assert {offer.price for offer in ireland} == {None}
    assert {offer.key.zone for offer in ireland} <= {"euw1-az1", "euw1-az2", "euw1-az3"}
    assert "p6-b300.48xlarge" not in {offer.type.name for offer in ireland}
    assert shipped("xx-nowhere-1") == []


def test_the_settings_choose_among_the_built_in_offers() -> None:
    few = shipped(allowed_types=["g6.*"], regions={REGION: {"zones": ["use1-az4"]}})
    assert {offer.key.zone for offer in few} == {"use1-az4"}
    assert {offer.type.name.partition(".")[0] for offer in few} == {"g6"}
    named = shipped(regions={REGION: {"zones": ["us-east-1a"]}})
    assert len({offer.key.zone for offer in named}) > 1
