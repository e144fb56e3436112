"""What is offered, and at what price."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp.adapter import GcpProvider
from providers.gcp.machine_types import boot_disk_type, capacity_types, family_of, region_of
from providers.gcp.price_list import AS_OF, list_price
from providers.gcp.prices import PriceBook, read_sku
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer
from sandbox.scenario import PriceRule
from tests.providers.gcp.bench import REGION, GceBench, account

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def by_name(offers: Iterable[Offer], how: CapacityType = ON_DEMAND) -> dict[str, Offer]:
    """instance type -> an offer of it."""
    return {o.key.instance_type: o for o in offers if o.key.capacity_type is how}


# Offers


@pytest.mark.parametrize(
    ("name", "gpu", "family"),
    [
        ("n1-standard-4+nvidia-tesla-t4x1", Accelerator("T4", 1, 16), "NVIDIA_T4"),
        ("n1-standard-16+nvidia-tesla-t4x4", Accelerator("T4", 4, 16, "pcie"), "NVIDIA_T4"),
        ("g2-standard-96", Accelerator("L4", 8, 24, "pcie"), "NVIDIA_L4"),
        ("a2-highgpu-4g", Accelerator("A100", 4, 40, "nvlink"), "NVIDIA_A100"),
        ("a2-ultragpu-8g", Accelerator("A100-80GB", 8, 80, "nvlink"), "NVIDIA_A100_80GB"),
        ("a3-highgpu-8g", Accelerator("H100", 8, 80, "nvlink"), "NVIDIA_H100"),
        ("a3-megagpu-8g", Accelerator("H100-MEGA", 8, 80, "nvlink"), "NVIDIA_H100_MEGA"),
        ("a3-ultragpu-8g", Accelerator("H200", 8, 141, "nvlink"), "NVIDIA_H200"),
        ("a4-highgpu-8g", Accelerator("B200", 8, 180, "nvlink"), "NVIDIA_B200"),
        ("e2-standard-2", None, "CPUS"),
    ],
)
def test_types_bear_canonical_names_and_quota_families(
    bench: GceBench, name: str, gpu: Accelerator | None, family: str
) -> None:
    offered = by_name(bench.provider.offers(REGION).offers, SPOT)[name].type
    assert (offered.accelerator, offered.family) == (gpu, family)
    assert family_of(name) == family


def test_bundled_disks_are_counted(bench: GceBench) -> None:
    offered = by_name(bench.provider.offers(REGION).offers, SPOT)
    assert offered["a3-highgpu-8g"].type.local_disk_gib == 6000
    assert offered["g2-standard-8"].type.local_disk_gib == 0


@pytest.mark.parametrize("name", ["a3-ultragpu-8g", "a4-highgpu-8g", "a3-highgpu-1g", "a3-highgpu-4g"])
def test_what_is_not_sold_on_demand_is_not_offered_so(bench: GceBench, name: str) -> None:
    offers = bench.provider.offers(REGION).offers
    assert name in by_name(offers, SPOT)
    assert name not in by_name(offers, ON_DEMAND)


def test_offers_are_of_zones_that_have_the_type(bench: GceBench) -> None:
    zones = {
        o.key.zone for o in bench.provider.offers(REGION).offers if o.key.instance_type == "a4-highgpu-8g"
    }
    assert zones == {"us-central1-b"}


def test_zones_and_types_can_be_narrowed(bench: GceBench) -> None:
    settings = account(
        bench.gce.url,
        regions={REGION: {"zones": [f"{REGION}-c"]}},
        allowed_types=["g2-standard-4", "n1-standard-4+nvidia-tesla-t4x1"],
    )
    provider = GcpProvider(settings, bench.gce.clock)
    offers = provider.offers(REGION).offers
    provider.close()
    assert {o.key.zone for o in offers} == {f"{REGION}-c"}
    assert set(by_name(offers)) == {"g2-standard-4", "n1-standard-4+nvidia-tesla-t4x1"}


def test_a_region_that_the_account_does_not_use_is_refused(bench: GceBench) -> None:
    with pytest.raises(ProviderError, match="us-east4 is not among") as caught:
        bench.provider.offers("us-east4")
    assert caught.value.kind is ErrorKind.INVALID_REQUEST


def test_one_reading_serves_all_regions_for_an_hour(bench: GceBench) -> None:
    regions: dict[str, Any] = {REGION: {}, "us-east4": {}, "europe-west4": {}}
    provider = GcpProvider(account(bench.gce.url, regions=regions), bench.gce.clock)
    for region in regions:
        assert {o.key.region for o in provider.offers(region).offers} == {region}
    calls = bench.gce.calls()
    assert calls["machineTypes.aggregatedList"] == calls["cloudbilling.services.skus.list"] == 1
    bench.advance(3700)
    provider.offers(REGION)
    assert bench.gce.calls()["machineTypes.aggregatedList"] == 2
    provider.close()


def test_a_zone_that_cannot_be_read_makes_the_offers_incomplete_and_is_read_again_soon(
    bench: GceBench,
) -> None:
    bench.gce.fault("machineTypes.aggregatedList", "unreachable", value=f"{REGION}-a")
    listing = bench.provider.offers(REGION)
    assert listing.incomplete == (f"{REGION}-a",)
    assert f"{REGION}-a" not in {o.key.zone for o in listing.offers}
    bench.advance(130)
    assert bench.provider.offers(REGION).incomplete == ()


def test_offers_that_cannot_be_read_are_an_error_and_read_again_at_once(bench: GceBench) -> None:
    bench.gce.fault("machineTypes.aggregatedList", "error", http_status=502, times=5)
    with pytest.raises(ProviderError) as caught:
        bench.provider.offers(REGION)
    assert caught.value.kind is ErrorKind.TRANSIENT
    assert bench.provider.offers(REGION).offers


def test_the_one_subnetwork_of_a_region_stands_in_its_offers(bench: GceBench) -> None:
    provider = GcpProvider(
        account(bench.gce.url, regions={REGION: {"subnets": ["training"]}}), bench.gce.clock
    )
    assert {o.subnet for o in provider.offers(REGION).offers} == {
        f"projects/sandbox-project/regions/{REGION}/subnetworks/training"
    }
    provider.close()


@pytest.mark.parametrize(
    ("zone", "region"),
    [("us-central1-a", "us-central1"), ("us-south1-ai1b", "us-south1"), ("europe-west4-b", "europe-west4")],
)
def test_regions_of_zones(zone: str, region: str) -> None:
    assert region_of(zone) == region


def test_how_machine_types_are_sold_and_booted() -> None:
    assert capacity_types("a3-highgpu-8g") == (ON_DEMAND, SPOT)
    assert capacity_types("a3-highgpu-2g") == (SPOT,)
    assert capacity_types("a4x-highgpu-4g") == (SPOT,)
    assert boot_disk_type("g4-standard-48") == "hyperdisk-balanced"
    assert boot_disk_type("a3-highgpu-8g") == "pd-balanced"


# Prices


def test_PRI_05_prices_add_up_to_what_the_cloud_bills(bench: GceBench) -> None:
    regions: dict[str, Any] = {REGION: {}, "us-east4": {}, "europe-west4": {}}
    provider = GcpProvider(account(bench.gce.url, regions=regions), bench.gce.clock)
    world = bench.gce.world
    checked = 0
    for region in regions:
        for offer in provider.offers(region).offers:
            key = offer.key
            billed = world.price(
                "gcp",
                region,
                key.zone,
                key.instance_type,
                "spot" if key.capacity_type is SPOT else "on_demand",
            )
            assert offer.price == pytest.approx(billed, abs=1e-4), str(key)
            assert (offer.price_source, offer.priced_at) == ("live", bench.gce.clock.now())
            checked += 1
    assert checked > 150
    provider.close()


@pytest.mark.parametrize(
    ("name", "on_demand", "spot"),
    [
        # Sums of us-central1's list, August 2026.
        ("a2-highgpu-1g", 3.67, 1.93),
        ("a2-ultragpu-8g", 40.55, 22.08),
        ("a3-highgpu-8g", 88.49, 50.61),
        ("g2-standard-4", 0.707, 0.397),
    ],
)
def test_PRI_05_golden_prices(bench: GceBench, name: str, on_demand: float, spot: float) -> None:
    offers = bench.provider.offers(REGION).offers
    assert by_name(offers)[name].price == pytest.approx(on_demand, rel=0.01)
    assert by_name(offers, SPOT)[name].price == pytest.approx(spot, rel=0.01)


def test_a_price_that_changes_is_seen_within_six_hours(bench: GceBench) -> None:
    rule = {"provider": "gcp", "instance_type": "g2-standard-4", "capacity_type": "spot", "price": 0.2}
    before = by_name(bench.provider.offers(REGION).offers, SPOT)["g2-standard-4"]
    bench.gce.world.set_price(PriceRule.model_validate(rule))
    bench.advance(6.1 * 3600)
    after = by_name(bench.provider.offers(REGION).offers, SPOT)["g2-standard-4"]
    assert before.price == pytest.approx(0.397, rel=0.01)
    assert after.price == pytest.approx(0.2, abs=1e-4)


def test_prices_are_read_page_by_page(bench: GceBench, monkeypatch: pytest.MonkeyPatch) -> None:
    from providers.gcp import price_feed

    monkeypatch.setattr(price_feed, "_PAGE", 7)
    assert by_name(bench.provider.offers(REGION).offers)["a3-highgpu-8g"].price == pytest.approx(
        88.49, rel=0.01
    )
    assert bench.gce.calls()["cloudbilling.services.skus.list"] > 5


def test_without_the_price_catalogue_the_list_that_ships_serves(bench: GceBench) -> None:
    bench.gce.fault("cloudbilling.services.skus.list", "error", http_status=502, times=10)
    offers = bench.provider.offers(REGION).offers
    h100 = by_name(offers)["a3-highgpu-8g"]
    assert (h100.price, h100.price_source, h100.priced_at) == (88.49, "snapshot", AS_OF)
    assert by_name(offers, SPOT)["a4-highgpu-8g"].price is None
    bench.gce.world.restore(_everything())
    bench.advance(310)
    assert by_name(bench.provider.offers(REGION).offers)["a3-highgpu-8g"].price_source == "live"


def test_an_older_book_serves_while_the_catalogue_cannot_be_read(bench: GceBench) -> None:
    first = by_name(bench.provider.offers(REGION).offers)["a3-highgpu-8g"]
    bench.gce.fault("cloudbilling.services.skus.list", "throttle", times=10)
    bench.advance(6.1 * 3600)
    second = by_name(bench.provider.offers(REGION).offers)["a3-highgpu-8g"]
    assert (second.price, second.price_source, second.priced_at) == (first.price, "live", first.priced_at)


def test_the_list_that_ships_knows_no_other_region() -> None:
    assert list_price("us-east4", "a3-highgpu-8g", 8, ON_DEMAND) is None
    assert list_price(REGION, "a3-highgpu-2g", 2, SPOT) == pytest.approx(50.61 / 4, abs=1e-3)
    assert list_price(REGION, "e2-standard-2", 0, ON_DEMAND) is None


def _everything() -> Any:
    from sandbox.scenario import Restore

    return Restore.model_validate({"do": "restore", "at": 0})


# SKUs


def sku(description: str, usage: str = "OnDemand", price: float = 1.0, unit: str = "h") -> dict[str, Any]:
    nanos = round(price * 1e9)
    money = {"currencyCode": "USD", "units": str(nanos // 10**9), "nanos": nanos % 10**9}
    expression = {"usageUnit": unit, "tieredRates": [{"startUsageAmount": 0, "unitPrice": money}]}
    return {
        "description": description,
        "category": {"resourceFamily": "Compute", "usageType": usage},
        "serviceRegions": [REGION],
        "pricingInfo": [{"pricingExpression": expression}],
    }


@pytest.mark.parametrize(
    ("description", "part"),
    [
        ("A2 Instance Core running in Americas", "a2 core"),
        ("A3 Instance Ram running in Americas", "a3-highgpu ram"),
        ("A3Plus Instance Core running in Americas", "a3-megagpu core"),
        ("N1 Predefined Instance Core running in Sydney", "n1 core"),
        ("Nvidia Tesla T4 GPU running in Americas", "nvidia-tesla-t4"),
        ("Nvidia Tesla A100 80GB GPU running in Iowa", "nvidia-a100-80gb"),
        ("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "nvidia-tesla-a100"),
        ("Nvidia H100 80GB Plus GPU running in Americas", "nvidia-h100-mega-80gb"),
        ("Nvidia H100 Mega 80GB GPU running in Americas", "nvidia-h100-mega-80gb"),
        ("H200 141GB GPU running in Americas", "nvidia-h200-141gb"),
        ("RTX 6000 96GB running in Americas", "nvidia-rtx-pro-6000"),
        ("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "nvidia-b200"),
        ("SSD backed Local Storage", "ssd"),
        ("SSD backed Local Storage in Frankfurt", "ssd"),
    ],
)
def test_descriptions_of_parts_are_understood(description: str, part: str) -> None:
    read = read_sku(sku(description))
    assert read is not None
    assert read[1] == part


@pytest.mark.parametrize(
    "description",
    [
        "A2 Sole Tenancy Instance Core running in Americas",
        "Reserved Nvidia H100 80GB GPU in Americas",
        "N1 Predefined Instance Core Premium",
        "N2 Custom Instance Core running in Americas",
        "DWS Calendar Mode A4 Nvidia B200 (1 gpu slice) running in Americas",
        "Nvidia L4 GPU attached to DWS Defined Duration VMs running in Americas",
        "N2D AMD Instance Core running in Americas",
        "Network Internet Egress from Americas to Americas",
    ],
)
def test_other_kinds_of_sku_are_passed_over(description: str) -> None:
    assert read_sku(sku(description)) is None


def test_commitments_are_passed_over() -> None:
    assert read_sku(sku("A2 Instance Core running in Americas", "Commit1Yr")) is None


def test_PRI_06_a_spot_price_is_known_by_its_description_too() -> None:
    dear = sku("Nvidia H100 80GB GPU running in Iowa", price=9.8)
    cheap = sku("Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Iowa", price=2.4)
    for order in ([dear, cheap], [cheap, dear]):
        book = PriceBook(frozenset({REGION}))
        book.add(order)
        assert book.parts[REGION, False, "nvidia-h100-80gb"] == pytest.approx(9.8)
        assert book.parts[REGION, True, "nvidia-h100-80gb"] == pytest.approx(2.4)


def test_prices_per_month_become_prices_per_hour() -> None:
    read = read_sku(sku("SSD backed Local Storage", price=0.073, unit="GiBy.mo"))
    assert read is not None
    assert read[2] == pytest.approx(0.0001)


@pytest.mark.parametrize("change", [{"pricingInfo": []}, {"pricingInfo": [{}]}, {"pricingInfo": None}])
def test_PRI_01_a_sku_without_a_price_is_no_price(change: dict[str, Any]) -> None:
    assert read_sku(sku("A2 Instance Core running in Iowa") | change) is None


def test_PRI_01_nothing_is_ever_free() -> None:
    assert read_sku(sku("A2 Instance Core running in Iowa", price=0.0)) is None


def test_PRI_05_a_missing_part_leaves_the_price_unknown() -> None:
    size = InstanceType("a2-highgpu-1g", "NVIDIA_A100", 12, 85, Accelerator("A100", 1, 40))
    parts = [
        sku("A2 Instance Core running in Iowa", price=0.03),
        sku("A2 Instance Ram running in Iowa", price=0.004, unit="GiBy.h"),
        sku("Nvidia Tesla A100 GPU running in Iowa", price=2.9),
    ]
    for missing in range(3):
        book = PriceBook(frozenset({REGION}))
        book.add(part for index, part in enumerate(parts) if index != missing)
        assert book.price(REGION, size, ON_DEMAND) is None
    book = PriceBook(frozenset({REGION}))
    book.add(parts)
    assert book.price(REGION, size, ON_DEMAND) == pytest.approx(12 * 0.03 + 85 * 0.004 + 2.9)
    assert book.price(REGION, size, SPOT) is None
    assert book.price("us-east4", size, ON_DEMAND) is None


def test_a_b200_slice_is_the_whole_machines_share() -> None:
    size = InstanceType(
        "a4-highgpu-8g", "NVIDIA_B200", 224, 3968, Accelerator("B200", 8, 180, "nvlink"), 12_000
    )
    book = PriceBook(frozenset({REGION}))
    book.add([sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Iowa", "Preemptible", 8.06)])
    assert book.price(REGION, size, SPOT) == pytest.approx(64.48)
