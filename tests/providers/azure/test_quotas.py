"""Quotas on Azure: each limit gates what draws on it, and what Azure does not tell stays unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from providers.azure.quotas import addresses, quotas
from providers.azure.skus import sizes
from providers.errors import ErrorKind, ProviderError
from providers.quotas import Quota, QuotaUnit, needed
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey, Scope
from sandbox.scenario import QuotaRule
from tests.clocks import FakeClock
from tests.providers.azure.bench import SIZE, AzureBench
from tests.providers.azure.bench import bench as opened
from tests.providers.azure.test_market import closed, sku

DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT
T4 = "Standard_NC4as_T4_v3"
A100 = "StandardNCADSA100v4Family"
IPS = "IPv4StandardSkuPublicIpAddresses"
EASTUS = Scope("azure", "lab", "eastus")
NOW = FakeClock().now()


@pytest.fixture
def bench() -> Iterator[AzureBench]:
    with opened() as one:
        yield one


def read(bench: AzureBench, region: str = "eastus") -> dict[str, Quota]:
    return {quota.key: quota for quota in bench.provider.quotas(region).quotas}


def limit(bench: AzureBench, name: str, vcpus: float, region: str = "eastus") -> None:
    bench.cloud.world.set_quota(QuotaRule(provider="azure", region=region, name=name, limit=vcpus))


def gated(bench: AzureBench, quota: Quota, region: str = "eastus") -> list[Offer]:
    return [offer for offer in bench.provider.offers(region).offers if quota.covers(offer)]


# What is read.


def test_every_limit_of_the_scenario_is_read_with_the_vendors_key_and_words(bench: AzureBench) -> None:
    limit(bench, "cores", 350)
    limit(bench, "lowPriorityCores", 96)
    limit(bench, A100, 48)
    limit(bench, "virtualMachines", 7)
    found = read(bench)
    assert {key: found[key].limit for key in ("cores", "lowPriorityCores", A100, "virtualMachines")} == {
        "cores": 350,
        "lowPriorityCores": 96,
        A100: 48,
        "virtualMachines": 7,
    }
    assert found["cores"].name == "Total Regional vCPUs"
    assert {found[key].unit for key in ("cores", "lowPriorityCores", A100)} == {QuotaUnit.VCPU}
    assert found["virtualMachines"].unit is QuotaUnit.INSTANCE
    assert {quota.region for quota in found.values()} == {"eastus"}
    assert (found[A100].adjustable, found["virtualMachines"].adjustable) == (True, None)


def test_usage_follows_what_runs_and_the_reading_says_when(bench: AzureBench) -> None:
    bench.provider.launch(bench.ask(bench.offer(SPOT)))
    bench.provider.launch(bench.ask(bench.offer(DEMAND), nodes=2, name="b"))
    bench.advance(3600)
    found = read(bench)
    used = {key: quota.usage for key, quota in found.items() if quota.usage}
    assert used == {"cores": 48, A100: 48, "lowPriorityCores": 24, "virtualMachines": 3, IPS: 3}
    assert {quota.read_at for quota in found.values()} == {bench.cloud.clock.now()}


def test_there_is_one_quota_for_each_family_that_is_offered_and_four_for_the_region(
    bench: AzureBench,
) -> None:
    listing = bench.provider.quotas("westeurope")
    families = [gate.family for quota in listing.quotas for gate in quota.gates if gate.family]
    offered = {offer.type.family for offer in bench.provider.offers("westeurope").offers}
    assert sorted(families) == sorted(offered)
    assert len(listing.quotas) == len(offered) + 4
    assert not listing.incomplete


def test_a_second_reading_asks_for_usage_again_and_for_sizes_no_more(bench: AzureBench) -> None:
    read(bench)
    limit(bench, "cores", 5)
    assert read(bench)["cores"].limit == 5
    assert bench.cloud.calls()["Usage_List"] == 2
    assert bench.cloud.calls()["ResourceSkus_List"] == 1


def test_public_addresses_are_a_limit_where_machines_get_one(bench: AzureBench) -> None:
    limit(bench, IPS, 2)
    one = read(bench)[IPS]
    assert (one.limit, one.usage, one.unit, one.adjustable) == (2, 0, QuotaUnit.INSTANCE, False)
    assert gated(bench, one) == list(bench.provider.offers("eastus").offers)
    bench.provider.launch(bench.ask(nodes=2))
    assert read(bench)[IPS].usage == 2
    asked = bench.ask(name="b")
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(asked)
    assert (caught.value.kind, caught.value.code) == (ErrorKind.QUOTA, "PublicIPCountLimitReached")
    assert caught.value.scope == EASTUS


def test_public_addresses_are_no_limit_where_machines_get_none() -> None:
    with opened(regions={"eastus": {"public_address": False}}) as bench:
        limit(bench, IPS, 0)
        assert IPS not in read(bench)
        bench.provider.launch(bench.ask())


def test_addresses_that_cannot_be_counted_leave_the_other_limits_known(bench: AzureBench) -> None:
    bench.cloud.fault("Usages_List", "error", code="AuthorizationFailed", http_status=403)
    listing = bench.provider.quotas("eastus")
    assert len(listing.incomplete) == 1
    assert "cores" in {quota.key for quota in listing.quotas}


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["PublicIPAddresses", "StandardSkuPublicIpAddresses"], ["StandardSkuPublicIpAddresses"]),
        (["StandardSkuPublicIpAddresses", IPS], [IPS]),
        (["VirtualNetworks"], []),
    ],
)
def test_the_limit_on_addresses_is_found_by_its_name(names: list[str], found: list[str]) -> None:
    rows = [{"name": {"value": name}, "limit": 20, "currentValue": 1} for name in names]
    assert [quota.key for quota in addresses(rows, EASTUS, NOW)] == found


# What is gated.


def test_each_quota_gates_the_offers_that_draw_on_it(bench: AzureBench) -> None:
    found = read(bench)
    everything = bench.provider.offers("eastus").offers
    demand = [offer for offer in everything if offer.key.capacity_type is DEMAND]
    spot = [offer for offer in everything if offer.key.capacity_type is SPOT]
    assert gated(bench, found["cores"]) == demand
    assert gated(bench, found["lowPriorityCores"]) == spot
    assert gated(bench, found["virtualMachines"]) == list(everything)
    family = [offer for offer in demand if offer.key.instance_type.endswith("_A100_v4")]
    assert gated(bench, found[A100]) == [
        offer for offer in family if offer.key.instance_type.startswith("Standard_NC")
    ]


def test_quotas_gate_nothing_in_another_region(bench: AzureBench) -> None:
    found, offers = read(bench).values(), bench.provider.offers("westeurope").offers
    assert [offer for offer in offers if any(quota.covers(offer) for quota in found)] == []


@pytest.mark.parametrize(
    ("capacity_type", "name"),
    [(DEMAND, "cores"), (DEMAND, A100), (SPOT, "lowPriorityCores"), (SPOT, "virtualMachines")],
)
def test_a_quota_that_is_used_up_covers_the_offer_that_the_cloud_then_refuses(
    bench: AzureBench, capacity_type: CapacityType, name: str
) -> None:
    limit(bench, name, 1 if name == "virtualMachines" else 24)
    bench.provider.launch(bench.ask(bench.offer(capacity_type)))
    quota = read(bench)[name]
    assert quota.limit is not None
    assert quota.limit == quota.usage
    with pytest.raises(ProviderError) as caught:
        bench.provider.launch(bench.ask(bench.offer(capacity_type), name="b"))
    assert caught.value.kind is ErrorKind.QUOTA
    offers = bench.provider.offers("eastus").offers
    assert gated(bench, quota) == [offer for offer in offers if caught.value.scope.covers(offer)]


# Cases seen elsewhere.


def usage(key: str, limit: Any, current: Any = 0) -> dict[str, Any]:
    name = {"value": key, "localizedValue": f"{key} vCPUs"}
    return {"unit": "Count", "currentValue": current, "limit": limit, "name": name}


def t4(family: str = "standardNCASv3_T4Family") -> dict[str, Any]:
    return sku(T4, family=family, can={"vCPUs": "4"})


def of(rows: list[dict[str, Any]], *skus: dict[str, Any]) -> list[Quota]:
    return list(quotas(rows, sizes(skus, "eastus"), EASTUS, NOW))


def refused(rows: list[dict[str, Any]], *skus: dict[str, Any]) -> set[tuple[str, CapacityType]]:
    """The sizes of which the quotas leave no room for one machine."""
    return {
        (size.type.name, capacity_type)
        for size in sizes(skus, "eastus").values()
        for capacity_type in (DEMAND, SPOT)
        if False in room(of(rows, *skus), capacity_type, size.type).values()
    }


def room(
    found: list[Quota], capacity_type: CapacityType, kind: InstanceType | None = None
) -> dict[str, bool | None]:
    """Whether one machine, a T4 unless told, fits into each quota that covers it; None: not known."""
    kind = kind or sizes([t4()], "eastus")[T4].type
    offer = Offer(OfferKey("azure", "lab", "eastus", "eastus-1", kind.name, capacity_type), kind, None)
    return {
        quota.key: None
        if quota.limit is None or quota.usage is None
        else quota.limit - quota.usage >= needed(quota.unit, kind, 1)
        for quota in found
        if quota.covers(offer)
    }


def test_QUO_01_a_family_without_quota_is_zero_there_and_has_room_elsewhere(bench: AzureBench) -> None:
    limit(bench, A100, 0, "eastus")
    limit(bench, A100, 100, "westeurope")
    here, there = read(bench)[A100], read(bench, "westeurope")[A100]
    assert (here.limit, here.usage) == (0, 0)
    assert (there.limit, there.usage) == (100, 0)
    for quota, region in ((here, "eastus"), (there, "westeurope")):
        assert SIZE in {offer.key.instance_type for offer in gated(bench, quota, region)}


@pytest.mark.parametrize("family", ["standardNCASv3_T4Family", "Standard NCASv3_T4 Family"])
def test_QUO_02_a_family_is_joined_whatever_its_blanks_and_spot_asks_its_own_pool(family: str) -> None:
    rows = [usage("Standard NCASv3_T4 Family", 8), usage("cores", 100), usage("lowPriorityCores", 3)]
    found = of(rows, t4(family))
    assert room(found, DEMAND) == {
        "Standard NCASv3_T4 Family": True,
        "cores": True,
        "virtualMachines": None,
    }
    assert room(found, SPOT) == {"lowPriorityCores": False, "virtualMachines": None}


def test_QUO_02_a_family_that_is_not_listed_is_unknown_and_not_zero() -> None:
    rows = [usage("cores", 100), usage("lowPriorityCores", 100), usage("standardNCFamily", 0)]
    assert room(of(rows, t4()), DEMAND) == {
        "cores": True,
        "standardNCASv3_T4Family": None,
        "virtualMachines": None,
    }


def test_QUO_03_what_is_left_of_a_family_fits_its_small_sizes_only() -> None:
    names = {f"Standard_D{vcpus}s_v5": vcpus for vcpus in (2, 16, 32, 64)}
    can = [{"vCPUs": str(vcpus), "GPUs": "0"} for vcpus in names.values()]
    skus = [sku(name, family="standardDSv5Family", can=one) for name, one in zip(names, can, strict=True)]
    other = sku("Standard_E32s_v5", family="standardESv5Family", can={"vCPUs": "32", "GPUs": "0"})
    rows = [usage("standardDSv5Family", 100, 56), usage("standardESv5Family", 100, 0)]
    assert refused(rows, *skus, other) == {("Standard_D64s_v5", DEMAND)}


def test_QUO_04_a_spot_pool_that_is_used_up_stops_all_spot_there_and_nothing_else() -> None:
    rows = [usage("lowPriorityCores", 100, 100), usage("cores", 100), usage("standardNCASv3_T4Family", 100)]
    assert refused(rows, t4(), sku()) == {(T4, SPOT), (SIZE, SPOT)}


def test_of_two_spellings_the_sizes_own_counts_whatever_the_order() -> None:
    rows = [usage("Standard NCASv3_T4 Family", 0), usage("standardNCASv3_T4Family", 8)]
    for order in (rows, rows[::-1]):
        assert room(of(order, t4()), DEMAND)["standardNCASv3_T4Family"] is True


# What Azure does not tell.


@pytest.mark.parametrize("figure", [None, -1, "12", {}])
def test_a_figure_that_is_none_is_unknown_and_the_other_rows_stand(figure: Any) -> None:
    rows = [usage("cores", figure, figure), {"unit": "Count"}, usage("lowPriorityCores", 3, 1)]
    found = {quota.key: (quota.limit, quota.usage) for quota in of(rows)}
    assert found == {
        "cores": (None, None),
        "lowPriorityCores": (3, 1),
        "virtualMachines": (None, None),
    }


def test_a_family_whose_sizes_are_all_closed_to_the_subscription_is_left_out() -> None:
    rows = [usage("standardNCASv3_T4Family", 0)]
    shut = t4() | {"restrictions": [closed("Location")]}
    assert "standardNCASv3_T4Family" not in {quota.key for quota in of(rows, shut)}


@pytest.mark.parametrize(
    ("code", "status"),
    [("AuthorizationFailed", 403), ("NoRegisteredProviderFound", 400), ("InternalServerError", 500)],
)
def test_usages_that_cannot_be_read_are_incomplete_and_say_why(
    bench: AzureBench, code: str, status: int
) -> None:
    bench.cloud.fault("Usage_List", "error", code=code, http_status=status, times=None)
    listing = bench.provider.quotas("eastus")
    assert listing.quotas == ()
    assert len(listing.incomplete) == 1
    assert "usages of eastus" in listing.incomplete[0]
    assert code in listing.incomplete[0]


def test_without_the_sizes_the_regions_own_limits_are_still_read(bench: AzureBench) -> None:
    bench.cloud.fault("ResourceSkus_List", "error", code="AuthorizationFailed", http_status=403)
    listing = bench.provider.quotas("eastus")
    assert {quota.key for quota in listing.quotas} == {"cores", "lowPriorityCores", "virtualMachines", IPS}
    assert "families of eastus" in listing.incomplete[0]


def test_a_throttle_that_passes_is_sat_out_and_the_reading_is_no_younger_than_the_question(
    bench: AzureBench,
) -> None:
    bench.cloud.fault("Usage_List", "throttle", times=2, retry_after=5)
    asked = bench.cloud.clock.now()
    listing = bench.provider.quotas("eastus")
    assert not listing.incomplete
    assert bench.cloud.clock.now() > asked
    assert {quota.read_at for quota in listing.quotas} == {asked}


def test_a_region_that_is_not_in_the_settings_has_no_quotas_to_read(bench: AzureBench) -> None:
    with pytest.raises(ProviderError, match="eastus, westeurope"):
        bench.provider.quotas("westus3")
