"""Offers on Azure: every restriction counts, prices are the right rows, what is unknown stays unknown."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from providers.azure import price_snapshot
from providers.azure.prices import classify
from providers.azure.sizes import accelerator
from providers.azure.skus import sizes
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Accelerator, CapacityType
from sandbox.scenario import PriceRule
from tests.providers.azure.bench import SIZE, AzureBench
from tests.providers.azure.bench import bench as opened

DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


# Sizes.


def sku(name: str = SIZE, *, zones: tuple[str, ...] = ("1", "2", "3"), **more: Any) -> dict[str, Any]:
    can = {
        "vCPUs": "24",
        "MemoryGB": "220",
        "GPUs": "1",
        "LowPriorityCapable": "True",
        "HyperVGenerations": "V2",
        "PremiumIO": "True",
    }
    can |= more.pop("can", {})
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "family": "StandardNCADSA100v4Family",
        "locations": ["EastUS"],
        "locationInfo": [{"location": "eastus", "zones": list(zones)}],
        "capabilities": [{"name": key, "value": value} for key, value in can.items()],
        "restrictions": [],
        **more,
    }


def closed(kind: str, *zones: str, locations: tuple[str, ...] = ("eastus",)) -> dict[str, Any]:
    info = {"locations": list(locations), "zones": list(zones)}
    return {"type": kind, "values": list(locations), "restrictionInfo": info, "reasonCode": "QuotaId"}


@pytest.mark.parametrize(
    ("restrictions", "placements"),
    [
        ([], ("eastus-1", "eastus-2", "eastus-3", "eastus")),
        ([closed("Zone", "1"), closed("Zone", "3")], ("eastus-2", "eastus")),
        ([closed("Zone", "1", "2", "3")], ("eastus",)),
        ([closed("Zone", "1"), closed("Location")], ()),
        ([closed("Location", locations=("westus",))], ("eastus-1", "eastus-2", "eastus-3", "eastus")),
        ([closed("Zone", "1", locations=("westus",))], ("eastus-1", "eastus-2", "eastus-3", "eastus")),
    ],
)
def test_FAI_08_every_restriction_counts_and_closed_zones_leave_the_region_open(
    restrictions: list[dict[str, Any]], placements: tuple[str, ...]
) -> None:
    found = sizes([sku(restrictions=restrictions)], "eastus")
    assert found[SIZE].placements("eastus") == placements


def test_a_size_that_is_listed_without_zones_is_asked_for_by_region() -> None:
    assert sizes([sku(zones=())], "eastus")[SIZE].placements("eastus") == ("eastus",)


def test_other_places_and_other_kinds_are_no_sizes() -> None:
    rows = [
        sku(resourceType="disks"),
        sku(locations=["westus"]),
        sku("Standard_M416ms_v2", can={"GPUs": "0"}),
    ]
    assert sizes(rows, "eastus") == {}


def test_a_size_says_what_it_has() -> None:
    can = {"vCPUsAvailable": "20", "NvmeDiskSizeInMiB": "915456", "MaxResourceVolumeMB": "65536"}
    size = sizes([sku(can=can)], "eastus")[SIZE]
    assert (size.type.vcpus, size.type.memory_gib, size.type.local_disk_gib) == (20, 220, 894)
    assert size.type.accelerator == Accelerator("A100-80GB", 1, 80)
    assert (size.type.family, size.spot, size.premium_disks) == ("standardncadsa100v4family", True, True)
    arm = sizes([sku("Standard_ND128isr_NDR_GB200_v6", can={"CpuArchitectureType": "Arm64"})], "eastus")
    assert arm["Standard_ND128isr_NDR_GB200_v6"].type.architecture == "arm64"


@pytest.mark.parametrize(
    ("size", "gpus", "found"),
    [
        ("Standard_NC64as_T4_v3", 4, Accelerator("T4", 4, 16, "pcie")),
        ("Standard_NV36ads_A10_v5", 1, Accelerator("A10", 1, 24)),
        ("Standard_NV6ads_A10_v5", 1, None),
        ("Standard_NV18ads_A10_v5", 1, None),
        ("Standard_ND96asr_v4", 8, Accelerator("A100", 8, 40, "nvlink")),
        ("Standard_ND96amsr_A100_v4", 8, Accelerator("A100-80GB", 8, 80, "nvlink")),
        ("Standard_NC80adis_H100_v5", 2, Accelerator("H100-NVL", 2, 94)),
        ("Standard_ND96isr_H100_v5", 8, Accelerator("H100", 8, 80, "nvlink")),
        ("Standard_ND96isr_H200_v5", 8, Accelerator("H200", 8, 141, "nvlink")),
        ("Standard_ND128isr_NDR_GB200_v6", None, Accelerator("GB200", 4, 186, "nvlink")),
        ("Standard_ND96is_MI300X_v5", None, Accelerator("MI300X", 8, 192)),
        ("Standard_D2s_v5", None, None),
        ("Standard_NC24ads_A100_v4", None, None),
    ],
)
def test_gpus_are_named_as_on_every_cloud_where_azure_miscounts_them(
    size: str, gpus: float | None, found: Accelerator | None
) -> None:
    assert accelerator(size, gpus) == found


def test_fractions_of_a_gpu_and_confidential_sizes_are_not_offered() -> None:
    rows = [sku("Standard_NV6ads_A10_v5"), sku("Standard_NCC40ads_H100_v5"), sku("Standard_D2s_v5")]
    assert list(sizes(rows, "eastus")) == ["Standard_D2s_v5"]
    allowed = ["Standard_NV6ads_A10_v5", "Standard_NCC40ads_H100_v5"]
    assert sizes(rows, "eastus", allowed) == {}


def test_allowed_types_are_all_that_is_offered() -> None:
    rows = [sku(), sku("Standard_D2s_v5", can={"GPUs": "0"}), sku("Standard_B2s", can={"GPUs": "0"})]
    assert set(sizes(rows, "eastus")) == {SIZE, "Standard_D2s_v5"}
    assert set(sizes(rows, "eastus", ["Standard_B2s"])) == {"Standard_B2s"}


# Prices.


def row(price: Any, **more: Any) -> dict[str, Any]:
    return {
        "armSkuName": SIZE,
        "retailPrice": price,
        "skuName": "NC24ads A100 v4",
        "meterName": "NC24ads A100 v4",
        "productName": "Virtual Machines NCads A100 v4 Series",
        "type": "Consumption",
        "unitOfMeasure": "1 Hour",
        "isPrimaryMeterRegion": True,
        "effectiveStartDate": "2023-01-01T00:00:00Z",
        **more,
    }


DECOYS = [
    row(9.1, productName="Virtual Machines NCads A100 v4 Series Windows"),
    row(9.2, productName="NCads A100 v4 Srs Win"),
    row(0.7, skuName="NC24ads A100 v4 Low Priority", meterName="NC24ads A100 v4 Low Priority"),
    row(9.3, productName="NCads A100 v4 Series Cloud Services"),
    row(20_000, type="Reservation", reservationTerm="1 Year"),
    row(1.1, type="DevTestConsumption"),
    row(9.4, unitOfMeasure="1/Month"),
    row(0.0),
    row(0.00001),
    row(36_730.0),
    row(None),
    row("3.7"),
    row(9.5, effectiveStartDate="2027-01-01T00:00:00Z"),
    row(9.6, isPrimaryMeterRegion=False, effectiveStartDate="2025-06-01T00:00:00Z"),
    row(3.4, effectiveStartDate="2022-01-01T00:00:00Z"),
    row(9.7, skuName="NC24ads A100 v4 Spot", productName="Virtual Machines Windows"),
]


@pytest.mark.parametrize("seed", range(8))
def test_PRI_07_of_all_rows_the_linux_ones_in_force_count_in_any_order(seed: int) -> None:
    rows = [row(3.673), row(1.469, skuName="NC24ads A100 v4 Spot"), *DECOYS]
    random.Random(seed).shuffle(rows)
    assert classify(rows, NOW) == {(SIZE.lower(), DEMAND): 3.673, (SIZE.lower(), SPOT): 1.469}


def test_without_a_linux_row_there_is_no_price_rather_than_a_wrong_one() -> None:
    assert classify(DECOYS[:9], NOW) == {}


def test_offers_have_the_regions_price_in_every_zone(bench: AzureBench) -> None:
    listing = bench.provider.offers("westeurope")
    mine = {
        o.key.zone: o.price
        for o in listing.offers
        if o.key.instance_type == SIZE and o.key.capacity_type is SPOT
    }
    assert set(mine) == {"westeurope", "westeurope-1", "westeurope-2", "westeurope-3"}
    assert set(mine.values()) == {1.696695}
    assert {offer.price_source for offer in listing.offers} == {"live"}


def test_a_price_that_moved_is_seen_at_the_next_look(bench: AzureBench) -> None:
    where = {"provider": "azure", "region": "eastus", "instance_type": SIZE, "capacity_type": "spot"}
    bench.cloud.world.set_price(PriceRule.model_validate({**where, "price": 2.5}))
    prices = {o.price for o in bench.provider.offers("eastus").offers if o.key.instance_type == SIZE}
    assert prices == {2.5, 3.673}


def test_when_the_price_list_cannot_be_read_the_snapshot_serves_and_says_so(bench: AzureBench) -> None:
    bench.cloud.fault("RetailPrices_List", "error", code="x", http_status=503, times=None)
    offers = bench.provider.offers("eastus").offers
    known = {(o.key.instance_type, o.key.capacity_type): o for o in offers}
    listed = known[SIZE, DEMAND]
    assert (listed.price, listed.price_source) == (3.673, "snapshot")
    assert listed.priced_at == price_snapshot.TAKEN_AT
    assert known[SIZE, SPOT].price is None
    assert known["Standard_ND96isr_H200_v5", DEMAND].price is None
    elsewhere = bench.provider.offers("westeurope").offers
    assert elsewhere
    assert {offer.price for offer in elsewhere} == {None}


def test_half_a_price_list_is_none(bench: AzureBench) -> None:
    bench.cloud.fault("RetailPrices_List", "error", code="x", http_status=503, times=None, skip=1)
    assert {offer.price_source for offer in bench.provider.offers("eastus").offers} == {"snapshot"}


def test_a_passing_fault_of_the_price_list_is_sat_out(bench: AzureBench) -> None:
    bench.cloud.fault("RetailPrices_List", "drop_reply", times=2)
    assert {offer.price_source for offer in bench.provider.offers("eastus").offers} == {"live"}


def test_zones_of_the_settings_narrow_the_offers() -> None:
    regions = {"eastus": {"zones": ["2"]}, "westeurope": {"zones": ["westeurope-1", "westeurope"]}}
    with opened(regions=regions) as bench:
        assert {o.key.zone for o in bench.provider.offers("eastus").offers} == {"eastus-2"}
        zones = {o.key.zone for o in bench.provider.offers("westeurope").offers}
        assert zones == {"westeurope-1", "westeurope"}


def test_what_is_not_sold_to_the_subscription_is_not_offered(bench: AzureBench) -> None:
    offers = bench.provider.offers("eastus").offers
    zones = {o.key.zone for o in offers if o.key.instance_type == "Standard_ND96isr_H200_v5"}
    assert zones == {"eastus", "eastus-3"}
    assert "Standard_ND96isr_H200_v5" not in {
        o.key.instance_type for o in bench.provider.offers("westeurope").offers
    }


def test_a_region_without_a_subnet_offers_nothing() -> None:
    with opened(resource_group="empty") as bench:
        assert bench.provider.offers("eastus").offers == ()
    with opened() as bench:
        bench.cloud.fault("VirtualNetworks_List", "error", code="AuthorizationFailed", http_status=403)
        assert bench.provider.offers("eastus").offers, "what is not known is no reason"


def test_sizes_are_read_every_six_hours(bench: AzureBench) -> None:
    for seconds, reads in ((0, 1), (5 * 3600, 1), (3700, 2)):
        bench.advance(seconds)
        bench.provider.offers("eastus")
        assert bench.cloud.calls()["ResourceSkus_List"] == reads


def test_sizes_that_cannot_be_read_are_an_error_and_not_an_empty_region(bench: AzureBench) -> None:
    bench.cloud.fault("ResourceSkus_List", "error", code="AuthorizationFailed", http_status=403)
    with pytest.raises(ProviderError) as caught:
        bench.provider.offers("eastus")
    assert caught.value.kind is ErrorKind.AUTH


def test_an_answer_that_is_not_as_documented_is_an_error_like_any_other(
    bench: AzureBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sandbox.faces.arm.market._disk",
        lambda region: {"resourceType": "virtualMachines", "locations": [region]},
    )
    with pytest.raises(ProviderError) as caught:
        bench.provider.offers("eastus")
    assert (caught.value.kind, caught.value.code) == (ErrorKind.UNKNOWN, "UnexpectedAnswer")


def test_a_region_that_is_not_in_the_settings_is_refused(bench: AzureBench) -> None:
    with pytest.raises(ProviderError, match="eastus, westeurope"):
        bench.provider.offers("westus3")


# Built in.


def test_what_ships_with_the_adapter_is_what_the_region_says_once_it_is_read(bench: AzureBench) -> None:
    """Same sizes, same shape; nobody is asked."""
    built = bench.provider.built_in_offers("eastus")
    assert bench.cloud.calls() == {}
    read = {offer.key: offer for offer in bench.provider.offers("eastus").offers}
    both = [(offer, read[offer.key]) for offer in built.offers if offer.key in read]
    assert len(both) > 60
    for mine, theirs in both:
        mine_type, their_type = mine.type, theirs.type
        assert (mine_type.vcpus, mine_type.family, mine_type.accelerator, mine_type.fabric) == (
            their_type.vcpus,
            their_type.family,
            their_type.accelerator,
            their_type.fabric,
        )


def test_built_in_prices_are_marked_and_spot_prices_are_unknown(bench: AzureBench) -> None:
    built = bench.provider.built_in_offers("eastus")
    assert built.incomplete == ()
    assert {offer.price_source for offer in built.offers} == {"snapshot"}
    assert {offer.price for offer in built.offers if offer.key.capacity_type is SPOT} == {None}
    prices = {offer.key.instance_type: offer.price for offer in built.offers if offer.key.zone == "eastus-1"}
    assert set(prices) <= set(price_snapshot.ON_DEMAND) | {"Standard_ND96isr_H200_v5"}
    dated = [offer for offer in built.offers if offer.price is not None]
    assert {offer.priced_at for offer in dated} == {price_snapshot.TAKEN_AT}
    assert {offer.type.accelerator is not None for offer in built.offers} == {True}


def test_a_region_that_is_not_built_in_is_said_to_be_missing(bench: AzureBench) -> None:
    built = bench.provider.built_in_offers("westeurope")
    assert (built.offers, len(built.incomplete)) == ((), 1)


def test_settings_limit_what_is_built_in_too() -> None:
    with opened(regions={"eastus": {"zones": ["2"]}}, allowed_types=[SIZE]) as bench:
        keys = {offer.key for offer in bench.provider.built_in_offers("eastus").offers}
    assert {(key.zone, key.instance_type) for key in keys} == {("eastus-2", SIZE)}
    assert {key.capacity_type for key in keys} == {DEMAND, SPOT}
