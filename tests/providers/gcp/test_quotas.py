"""What limits a project in a region, and what each limit stands against."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp import quota_metrics as metrics
from providers.gcp.adapter import GcpProvider
from providers.gcp.check import quotas_above_zero
from providers.gcp.machine_types import GPUS
from providers.gcp.quota_index import read
from providers.gcp.quota_rows import Found, Row, with_usage
from providers.gcp.quota_usage import Usage, count
from providers.quotas import Quota, QuotaListing, QuotaUnit, needed
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer
from sandbox.faces.gce import cloudquotas
from sandbox.scenario import QuotaRule
from tests.providers.contract import pick, request, start
from tests.providers.gcp.bench import REGION, GceBench, account
from tests.sandbox.discovery import load

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND
H200 = "GPUS_PER_GPU_FAMILY/NVIDIA_H200"


def limit(bench: GceBench, name: str, value: float, region: str = REGION) -> None:
    bench.gce.world.set_quota(QuotaRule(provider="gcp", region=region, name=name, limit=value))


def offer_of(bench: GceBench, name: str, how: CapacityType = ON_DEMAND) -> Offer:
    offers = bench.provider.offers(REGION).offers
    return next(o for o in offers if (o.key.instance_type, o.key.capacity_type) == (name, how))


def by_key(listing: QuotaListing) -> dict[str, Quota]:
    return {quota.key: quota for quota in listing.quotas}


def figures(quota: Quota) -> tuple[float | None, float | None]:
    return quota.limit, quota.usage


# What gates what


DRAWS: tuple[tuple[str, CapacityType, set[str]], ...] = (
    ("g2-standard-8", ON_DEMAND, {"NVIDIA_L4_GPUS"}),
    ("g2-standard-8", SPOT, {"PREEMPTIBLE_NVIDIA_L4_GPUS"}),
    ("n1-standard-4+nvidia-tesla-t4x1", ON_DEMAND, {"NVIDIA_T4_GPUS", "CPUS"}),
    ("n1-standard-4+nvidia-tesla-t4x1", SPOT, {"PREEMPTIBLE_NVIDIA_T4_GPUS", "PREEMPTIBLE_CPUS"}),
    ("a2-ultragpu-1g", ON_DEMAND, {"NVIDIA_A100_80GB_GPUS", "A2_CPUS"}),
    ("a2-ultragpu-1g", SPOT, {"PREEMPTIBLE_NVIDIA_A100_80GB_GPUS", "PREEMPTIBLE_CPUS"}),
    ("a3-highgpu-8g", ON_DEMAND, {"GPUS_PER_GPU_FAMILY/NVIDIA_H100"}),
    ("a3-highgpu-8g", SPOT, {"PREEMPTIBLE_NVIDIA_H100_GPUS"}),
    ("a3-ultragpu-8g", SPOT, {"PREEMPTIBLE_NVIDIA_H200_GPUS"}),
    ("e2-standard-2", ON_DEMAND, {"CPUS"}),
    ("e2-standard-2", SPOT, {"PREEMPTIBLE_CPUS"}),
)


def test_each_offer_draws_on_its_familys_quotas(bench: GceBench) -> None:
    offers = bench.provider.offers(REGION).offers
    quotas = bench.provider.quotas(REGION).quotas
    for name, how, keys in DRAWS:
        mine = [o for o in offers if (o.key.instance_type, o.key.capacity_type) == (name, how)]
        assert mine
        assert all({q.key for q in quotas if q.covers(offer)} == keys for offer in mine), (name, how)


def test_every_quota_gates_something_and_every_offer_is_gated(bench: GceBench) -> None:
    offers = bench.provider.offers(REGION).offers
    listing = bench.provider.quotas(REGION)
    assert all(any(quota.covers(offer) for offer in offers) for quota in listing.quotas)
    for offer in offers:
        assert [quota for quota in listing.quotas if quota.covers(offer)], str(offer.key)
    assert not listing.incomplete


SHARED = (
    ("g2-standard-8", "PREEMPTIBLE_NVIDIA_L4_GPUS", "NVIDIA_L4_GPUS"),
    ("a3-highgpu-8g", "PREEMPTIBLE_NVIDIA_H100_GPUS", "GPUS_PER_GPU_FAMILY/NVIDIA_H100"),
    ("a3-ultragpu-8g", "PREEMPTIBLE_NVIDIA_H200_GPUS", H200),
    ("e2-standard-2", "PREEMPTIBLE_CPUS", "CPUS"),
)


def test_without_preemptible_quota_spot_draws_on_the_standard_one(bench: GceBench) -> None:
    for _, preemptible, _ in SHARED:
        limit(bench, preemptible, 0)
    quotas = bench.provider.quotas(REGION).quotas
    for name, preemptible, standard in SHARED:
        offer = offer_of(bench, name, SPOT)
        assert {quota.key for quota in quotas if quota.covers(offer)} == {standard}
        assert preemptible not in {quota.key for quota in quotas}


def test_a_standard_quota_counts_spot_instances_where_they_draw_on_it(bench: GceBench) -> None:
    limit(bench, "PREEMPTIBLE_NVIDIA_H200_GPUS", 0)
    start(bench, request(offer_of(bench, "a3-ultragpu-8g", SPOT), "on-standard", prepared_by=bench.provider))
    assert figures(by_key(bench.provider.quotas(REGION))[H200]) == (128, 8)


def test_QUO_09_a_project_wide_limit_stands_against_every_region_and_gpu(bench: GceBench) -> None:
    limit(bench, "GPUS_ALL_REGIONS", 0, "global")
    provider = GcpProvider(
        account(bench.gce.url, regions={REGION: {}, "us-east4": {}}), bench.gce.clock, read_timeout=5
    )
    quota = by_key(provider.quotas(REGION))["GPUS_ALL_REGIONS"]
    assert (quota.region, quota.limit, quota.unit) == (None, 0, QuotaUnit.GPU)
    for region in (REGION, "us-east4"):
        for offer in provider.offers(region).offers:
            assert quota.covers(offer) is (offer.type.accelerator is not None)
    provider.close()


def test_project_wide_limits_count_what_runs_and_are_none_where_the_project_has_none(bench: GceBench) -> None:
    assert not {"GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS"} & set(by_key(bench.provider.quotas(REGION)))
    limit(bench, "*_ALL_REGIONS", 100, "global")
    start(bench, request(pick(bench, SPOT), "everywhere", nodes=2, prepared_by=bench.provider))
    quotas = by_key(bench.provider.quotas(REGION))
    assert figures(quotas["GPUS_ALL_REGIONS"]) == (100, 2)
    assert figures(quotas["CPUS_ALL_REGIONS"]) == (100, 16)
    assert quotas["CPUS_ALL_REGIONS"].covers(offer_of(bench, "e2-standard-2"))


def test_QUO_01_a_limit_of_zero_is_zero_there_and_nowhere_else(bench: GceBench) -> None:
    limit(bench, "*NVIDIA_L4_GPUS", 0)
    provider = GcpProvider(account(bench.gce.url, regions={REGION: {}, "us-east4": {}}), bench.gce.clock)
    here, there = (by_key(provider.quotas(region))["NVIDIA_L4_GPUS"] for region in (REGION, "us-east4"))
    assert (here.limit, there.limit) == (0, 128)
    offers = [
        o for r in (REGION, "us-east4") for o in provider.offers(r).offers if o.type.family == "NVIDIA_L4"
    ]
    assert {offer.key.region for offer in offers if here.covers(offer)} == {REGION}
    provider.close()


def test_QUO_11_no_two_families_share_a_key_and_keys_are_the_vendors() -> None:
    families = sorted(metrics.GPU_FAMILIES)
    keys = [key for family in families for key in (metrics.standard(family), metrics.preemptible(family))]
    assert len(set(keys)) == len(keys) == 2 * len({gpu.family for gpu in GPUS.values()})
    enum = set(load("compute")["schemas"]["Quota"]["properties"]["metric"]["enum"])
    for family in families:
        assert (
            (metrics.standard(family) in enum) is (f"{family}_GPUS" in enum) is (family in metrics.OWN_METRIC)
        )
        assert family not in metrics.OWN_METRIC or metrics.preemptible(family) in enum
    vcpus = {*metrics.VCPU_METRIC.values(), metrics.PREEMPTIBLE_VCPUS, *metrics.PROJECT_WIDE}
    assert vcpus <= enum


# Limits and usage


def test_a_region_tells_limit_and_usage(bench: GceBench) -> None:
    limit(bench, "NVIDIA_L4_GPUS", 5)
    start(bench, request(pick(bench), "uses", nodes=2, prepared_by=bench.provider))
    quotas = by_key(bench.provider.quotas(REGION))
    assert figures(quotas["NVIDIA_L4_GPUS"]) == (5, 2)
    assert figures(quotas["PREEMPTIBLE_NVIDIA_L4_GPUS"]) == (128, 0)
    assert quotas["NVIDIA_L4_GPUS"].read_at == bench.gce.clock.now()


def test_cloud_quotas_tells_limits_that_a_region_does_not_and_usage_is_counted(bench: GceBench) -> None:
    limit(bench, "GPUS_PER_GPU_FAMILY/NVIDIA_H100", 24)
    start(bench, request(offer_of(bench, "a3-highgpu-8g"), "counted", prepared_by=bench.provider))
    start(bench, request(offer_of(bench, "a3-highgpu-8g", SPOT), "spot", prepared_by=bench.provider))
    quotas = by_key(bench.provider.quotas(REGION))
    assert figures(quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"]) == (24, 8)
    assert figures(quotas["PREEMPTIBLE_NVIDIA_H100_GPUS"]) == (128, 8)
    assert figures(quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100_MEGA"]) == (128, 0)
    assert quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"].name.endswith("(NVIDIA_H100)")
    assert quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"].adjustable is True


def test_the_limit_of_the_region_wins_over_the_usual_one(bench: GceBench) -> None:
    limit(bench, "PREEMPTIBLE_NVIDIA_B200_GPUS", 16, "us-east4")
    provider = GcpProvider(account(bench.gce.url, regions={REGION: {}, "us-east4": {}}), bench.gce.clock)
    found = {
        region: by_key(provider.quotas(region))["PREEMPTIBLE_NVIDIA_B200_GPUS"].limit
        for region in (REGION, "us-east4")
    }
    assert found == {REGION: 128, "us-east4": 16}
    provider.close()


def test_one_list_serves_all_regions_for_a_quarter_of_an_hour(
    bench: GceBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloudquotas, "_PAGE", 6)
    provider = GcpProvider(account(bench.gce.url, regions={REGION: {}, "us-east4": {}}), bench.gce.clock)
    first = provider.quotas(REGION)
    pages = bench.gce.calls()[cloudquotas.METHOD]
    assert pages == 3
    assert by_key(first)["PREEMPTIBLE_NVIDIA_B200_GPUS"].limit == 128
    read_at = by_key(first)["PREEMPTIBLE_NVIDIA_B200_GPUS"].read_at
    bench.advance(600)
    assert by_key(provider.quotas("us-east4"))["PREEMPTIBLE_NVIDIA_B200_GPUS"].read_at == read_at
    assert bench.gce.calls()[cloudquotas.METHOD] == pages
    bench.advance(400)
    provider.quotas(REGION)
    assert bench.gce.calls()[cloudquotas.METHOD] == 2 * pages
    provider.close()


def test_a_project_of_older_gpus_needs_no_cloud_quotas(bench: GceBench) -> None:
    settings = account(bench.gce.url, allowed_types=["g2-standard-8", "e2-standard-2"])
    provider = GcpProvider(settings, bench.gce.clock)
    keys = {"NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "CPUS", "PREEMPTIBLE_CPUS"}
    assert set(by_key(provider.quotas(REGION))) == keys
    assert cloudquotas.METHOD not in bench.gce.calls()
    provider.close()


# What cannot be read


def test_without_cloud_quotas_limits_are_unknown_and_keep_their_keys_and_gates(bench: GceBench) -> None:
    bench.gce.fault(cloudquotas.METHOD, "error", code="SERVICE_DISABLED", http_status=403)
    listing = bench.provider.quotas(REGION)
    quotas = by_key(listing)
    unknown = {key for key, quota in quotas.items() if quota.limit is None}
    assert unknown == {
        "GPUS_PER_GPU_FAMILY/NVIDIA_H100",
        "GPUS_PER_GPU_FAMILY/NVIDIA_H100_MEGA",
        "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS",
        "PREEMPTIBLE_NVIDIA_H200_GPUS",
        "PREEMPTIBLE_NVIDIA_B200_GPUS",
    }
    assert set(listing.incomplete) == unknown | {"cloudquotas.googleapis.com"}
    assert quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"].covers(offer_of(bench, "a3-highgpu-8g"))
    assert figures(quotas["NVIDIA_L4_GPUS"]) == (128, 0)


@pytest.mark.parametrize(
    ("fault", "again_after"),
    [({"code": "SERVICE_DISABLED", "http_status": 403}, 900), ({"http_status": 502, "times": 5}, 120)],
)
def test_cloud_quotas_is_asked_again_when_that_may_help(
    bench: GceBench, fault: dict[str, Any], again_after: float
) -> None:
    bench.gce.fault(cloudquotas.METHOD, "error", **fault)
    assert bench.provider.quotas(REGION).incomplete
    bench.advance(again_after - 20)
    assert bench.provider.quotas(REGION).incomplete
    bench.advance(30)
    assert not bench.provider.quotas(REGION).incomplete


def test_a_region_that_cannot_tell_its_quotas_leaves_them_unknown(bench: GceBench) -> None:
    bench.gce.fault("regions.get", "state", value="QUOTA_INFO_UNAVAILABLE")
    listing = bench.provider.quotas(REGION)
    quotas = by_key(listing)
    regional = {"NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "CPUS", "A2_CPUS", "PREEMPTIBLE_CPUS"}
    assert {figures(quotas[key]) for key in regional} == {(None, None)}
    assert regional <= set(listing.incomplete)
    assert figures(quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"]) == (128, 0)
    assert quotas["NVIDIA_L4_GPUS"].covers(pick(bench))
    assert not quotas["NVIDIA_L4_GPUS"].covers(pick(bench, SPOT))


def test_a_zone_that_cannot_be_listed_leaves_counted_usage_unknown(bench: GceBench) -> None:
    bench.gce.fault("instances.aggregatedList", "unreachable", value=f"{REGION}-b")
    listing = bench.provider.quotas(REGION)
    quotas = by_key(listing)
    assert figures(quotas["GPUS_PER_GPU_FAMILY/NVIDIA_H100"]) == (128, None)
    assert figures(quotas["NVIDIA_L4_GPUS"]) == (128, 0)
    assert {f"{REGION}-b", "GPUS_PER_GPU_FAMILY/NVIDIA_H100"} <= set(listing.incomplete)
    assert "NVIDIA_L4_GPUS" not in listing.incomplete


def test_a_project_that_cannot_be_read_leaves_its_limits_unnamed_as_absent(bench: GceBench) -> None:
    limit(bench, "*_ALL_REGIONS", 100, "global")
    bench.gce.fault("projects.get", "error", code="forbidden", http_status=403)
    listing = bench.provider.quotas(REGION)
    assert listing.incomplete == ("GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS")
    assert not set(listing.incomplete) & set(by_key(listing))


def test_zones_whose_offers_are_not_known_are_named(bench: GceBench) -> None:
    bench.gce.fault("machineTypes.aggregatedList", "unreachable", value=f"{REGION}-a")
    assert bench.provider.quotas(REGION).incomplete == (f"{REGION}-a",)


def test_a_region_that_cannot_be_read_is_an_error(bench: GceBench) -> None:
    bench.gce.fault("regions.get", "error", http_status=502, times=5)
    with pytest.raises(ProviderError) as caught:
        bench.provider.quotas(REGION)
    assert caught.value.kind is ErrorKind.TRANSIENT
    with pytest.raises(ProviderError, match="europe-west4 is not among"):
        bench.provider.quotas("europe-west4")


# Cloud Quotas' values


def info(quota_id: str, *values: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"quotaId": quota_id, "dimensions": ["region"], "dimensionsInfos": list(values), **facts}


def value(number: Any, places: Iterable[str] = (REGION,), **dimensions: str) -> dict[str, Any]:
    return {"dimensions": dimensions, "details": {"value": number}, "applicableLocations": list(places)}


def told(*values: dict[str, Any], **dimensions: str) -> float | None:
    infos = read([info("GPUS-PER-GPU-FAMILY-per-project-region", *values)], frozenset({REGION, "us-east4"}))
    return infos["GPUS_PER_GPU_FAMILY"].limit(REGION, dimensions or {"gpu_family": "NVIDIA_H200"})


def test_the_first_value_that_is_about_the_place_and_family_counts() -> None:
    rows = [
        value("1", region="us-east4", gpu_family="NVIDIA_H200", places=["us-east4"]),
        value("2", region=REGION, gpu_family="NVIDIA_H100"),
        value("3", gpu_family="NVIDIA_H200", places=["us-east4"]),
        value("4", gpu_family="NVIDIA_H200", places=["us-west1", REGION]),
        value("5", places=[REGION, "us-east4"]),
    ]
    assert told(*rows) == 4
    assert told(*rows, gpu_family="NVIDIA_H100") == 2
    assert told(*rows, gpu_family="NVIDIA_GB200") == 5
    assert told(*rows[:3]) is None


def test_a_value_that_is_left_out_is_unknown_and_minus_one_is_no_limit() -> None:
    assert told({"applicableLocations": [REGION], "details": {}}) is None
    assert told({"applicableLocations": [REGION], "dimensions": None, "details": None}) is None
    assert told(value("0")) == 0
    assert told(value("-1")) == math.inf


def test_other_kinds_of_quota_are_passed_over() -> None:
    names = (
        "COMMITTED-NVIDIA-H100-GPUS-per-project-region",
        "NVIDIA-T4-VWS-GPUS-per-project-region",
        "NVIDIA-H100-GPUS-per-project-zone",
        "NVIDIA-L4-GPUS-per-project",
        "IN-USE-ADDRESSES-per-project-region",
    )
    assert read([info(name, value("1")) for name in names], frozenset({REGION})) == {}


@pytest.mark.parametrize(
    ("facts", "adjustable"),
    [
        ({}, None),
        ({"quotaIncreaseEligibility": {"isEligible": True}}, True),
        ({"quotaIncreaseEligibility": {"ineligibilityReason": "NOT_SUPPORTED"}}, False),
        ({"isFixed": True, "quotaIncreaseEligibility": {"isEligible": True}}, False),
    ],
)
def test_whether_an_increase_can_be_asked_for(facts: dict[str, Any], adjustable: bool | None) -> None:
    name = "PREEMPTIBLE-NVIDIA-H200-GPUS-per-project-region"
    found = read([info(name, value("8"), **facts)], frozenset({REGION}))
    assert found["PREEMPTIBLE_NVIDIA_H200_GPUS"].adjustable is adjustable


# Counting


def instance(machine_type: str, status: str = "RUNNING", model: str = "STANDARD", **fields: Any) -> Any:
    from providers.gcp.sdk import load_slim

    load_slim()
    from google.cloud.compute_v1.types import Instance

    return Instance(
        machine_type=f"projects/p/zones/{REGION}-a/machineTypes/{machine_type}",
        status=status,
        scheduling={"provisioning_model": model},
        **fields,
    )


def test_gpus_are_counted_by_family_and_quota() -> None:
    size = InstanceType("g4-standard-96", "NVIDIA_RTX_PRO_6000", 96, 360, Accelerator("RTX-PRO-6000", 2, 96))
    cards = [{"accelerator_type": "x/acceleratorTypes/nvidia-h100-80gb", "accelerator_count": 8}]
    found = count(
        [
            instance("a3-highgpu-8g", guest_accelerators=cards),
            instance("a3-highgpu-2g"),
            instance("a3-highgpu-1g", model="FLEX_START"),
            instance("a3-ultragpu-8g-nolssd", model="SPOT", status="STOPPING"),
            instance("g4-standard-96"),
            instance("a4-highgpu-8g", model="RESERVATION_BOUND"),
            instance("a4-highgpu-8g", status="TERMINATED"),
            instance("a4-highgpu-8g", status="PENDING"),
        ],
        {size.name: size},
    )
    assert found == {
        ("NVIDIA_H100", ON_DEMAND): 10,
        ("NVIDIA_H100", SPOT): 1,
        ("NVIDIA_H200", SPOT): 8,
        ("NVIDIA_RTX_PRO_6000", ON_DEMAND): 2,
    }


def test_what_still_runs_on_demand_draws_on_the_quota_that_spot_draws_on() -> None:
    row = Row(H200, QuotaUnit.GPU, Found(16, counts="NVIDIA_H200"), frozenset({("NVIDIA_H200", SPOT)}))
    usage = Usage({("NVIDIA_H200", ON_DEMAND): 8, ("NVIDIA_H200", SPOT): 4, ("NVIDIA_B200", SPOT): 1})
    assert with_usage(row, usage).found.usage == 12
    apart = replace(row, key="PREEMPTIBLE_NVIDIA_H200_GPUS")
    assert with_usage(apart, usage).found.usage == 4


# Checking


def test_check_names_the_quotas_above_zero(bench: GceBench) -> None:
    limit(bench, "*", 0)
    limit(bench, "NVIDIA_L4_GPUS", 4)
    result = next(r for r in bench.provider.check() if r.subject == f"quotas in {REGION}")
    assert result.ok
    assert result.detail == "above zero: NVIDIA_L4_GPUS 4"


@pytest.mark.parametrize(
    ("name", "region", "text"),
    [
        ("*NVIDIA*", REGION, "all are zero: "),
        ("GPUS_ALL_REGIONS", "global", "GPUS_ALL_REGIONS of the project is zero"),
    ],
)
def test_check_tells_of_quotas_that_allow_nothing(bench: GceBench, name: str, region: str, text: str) -> None:
    limit(bench, name, 0, region)
    result = next(r for r in bench.provider.check() if r.subject == f"quotas in {REGION}")
    assert not result.ok
    assert text in result.detail
    assert "increase" in result.remedy


def test_check_says_what_it_could_not_see(bench: GceBench) -> None:
    bench.gce.fault(cloudquotas.METHOD, "error", code="SERVICE_DISABLED", http_status=403)
    result = next(r for r in bench.provider.check() if r.subject == f"quotas in {REGION}")
    assert result.ok
    known, unknown, unread = result.detail.split("; ")
    assert known.startswith("above zero: ")
    assert unknown.startswith("unknown: ")
    assert "GPUS_PER_GPU_FAMILY/NVIDIA_H100" in unknown
    assert unread == "could not be read: cloudquotas.googleapis.com"


def test_where_no_gpu_is_offered_vcpus_are_what_counts(bench: GceBench) -> None:
    provider = GcpProvider(account(bench.gce.url, allowed_types=["e2-standard-2"]), bench.gce.clock)
    assert quotas_above_zero(provider.quotas(REGION).quotas) == "above zero: CPUS 2400, PREEMPTIBLE_CPUS 2400"
    assert needed(QuotaUnit.VCPU, provider.offers(REGION).offers[0].type, 3) == 6
    provider.close()
