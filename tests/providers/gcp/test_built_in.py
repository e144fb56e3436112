"""What is shown of a region before anything was read."""

from __future__ import annotations

from providers.gcp.adapter import GcpProvider
from providers.gcp.built_in import _SERIES, _ZONES, built_in_offers
from tests.clocks import FakeClock
from tests.providers.gcp.bench import REGION, GceBench, account

NOWHERE = "http://127.0.0.1:9"


def test_it_asks_nobody_and_is_marked_as_a_snapshot() -> None:
    provider = GcpProvider(account(NOWHERE), FakeClock())
    listing = provider.built_in_offers(REGION)
    assert listing.offers
    assert not listing.incomplete
    assert {offer.price_source for offer in listing.offers} == {"snapshot"}
    assert all(offer.price is None or offer.price > 0 for offer in listing.offers)
    assert any(offer.price for offer in listing.offers)
    assert len({offer.key for offer in listing.offers}) == len(listing.offers)
    provider.close()


def test_it_agrees_with_what_is_read_of_the_same_types(bench: GceBench) -> None:
    read = {offer.key: offer for offer in bench.provider.offers(REGION).offers}
    known = {offer.key: offer for offer in bench.provider.built_in_offers(REGION).offers}
    both = set(read) & set(known)
    assert len(both) > 20
    for key in both:
        assert known[key].type == read[key].type, str(key)


def test_settings_limit_it_as_they_limit_what_is_read() -> None:
    some = account(NOWHERE, allowed_types=["g2-standard-8"], regions={REGION: {"zones": [f"{REGION}-b"]}})
    keys = [offer.key for offer in built_in_offers(some, REGION).offers]
    assert {(key.zone, key.instance_type) for key in keys} == {(f"{REGION}-b", "g2-standard-8")}
    assert built_in_offers(some, "us-east4").incomplete == ("us-east4",)


def test_outside_the_region_of_the_price_list_prices_are_unknown() -> None:
    offers = built_in_offers(account(NOWHERE, regions={"europe-west4": {}}), "europe-west4").offers
    assert offers
    assert {offer.price for offer in offers} == {None}


def test_each_series_has_its_zones() -> None:
    assert {prefix for prefix, *_ in _SERIES} == set(_ZONES)
