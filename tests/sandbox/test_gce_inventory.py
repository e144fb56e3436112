"""Compute Engine's face, driven by the real client: places, types, images, networks and prices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.api_core import exceptions as api
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials

from sandbox.catalogue import catalogue
from sandbox.faces.gce.methods import METHODS
from sandbox.scenario import QuotaRule
from tests.sandbox.discovery import load, method_of
from tests.sandbox.gce import PROJECT, LocalGce, local_gce

REGION = "us-central1"
SKUS = "/v1/services/6F81-5844-456A/skus"


@pytest.fixture
def gce() -> Iterator[LocalGce]:
    with local_gce() as local:
        yield local


def client(gce: LocalGce, service: str) -> Any:
    """The SDK's client of a service, by the name of its module."""
    import importlib

    module = importlib.import_module(f"google.cloud.compute_v1.services.{service}")
    kind = getattr(module, "".join(part.title() for part in service.split("_")) + "Client")
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    return kind(credentials=credentials, client_options=ClientOptions(api_endpoint=gce.url))


def call(gce: LocalGce, service: str, method: str, **request: Any) -> Any:
    """One call; lists are read to their end."""
    made = client(gce, service)
    answer = getattr(made, method)(request={"project": PROJECT, **request}, retry=None, timeout=5)
    found = list(answer) if "list" in method else answer
    made.transport.close()
    return found


def test_the_face_serves_only_methods_of_the_discovery_documents() -> None:
    for method in METHODS:
        root = "/compute/v1/projects/p/" if not method.path.startswith("/") else ""
        path = (root + method.path).rstrip("/")
        for name in (
            "project",
            "zone",
            "region",
            "instance",
            "operation",
            "family",
            "image",
            "subnetwork",
            "preference",
        ):
            path = path.replace(f"{{{name}}}", "x")
        found = method_of(method.verb, path.replace("{service}", "x"))
        assert found is not None, method.id
        described = found[1]
        assert described["id"].removeprefix("compute.") == method.id
        known = set(described["parameters"]) | {"returnPartialSuccess"}
        assert method.query <= known, method.id


def test_projects_and_regions_show_their_quotas(gce: LocalGce) -> None:
    assert call(gce, "projects", "get").name == PROJECT
    region = call(gce, "regions", "get", region=REGION)
    quotas = {quota.metric: quota.limit for quota in region.quotas}
    assert quotas["NVIDIA_L4_GPUS"] == 128
    assert quotas["CPUS"] == 2400
    assert not [metric for metric in quotas if "/" in metric or "H200" in metric]
    assert [zone.rpartition("/")[2] for zone in region.zones] == [
        "us-central1-a",
        "us-central1-b",
        "us-central1-c",
    ]


def test_a_region_can_be_made_to_tell_no_quotas(gce: LocalGce) -> None:
    gce.fault("regions.get", "state", value="QUOTA_INFO_UNAVAILABLE")
    region = call(gce, "regions", "get", region=REGION)
    assert region.quota_status_warning.code == "QUOTA_INFO_UNAVAILABLE"
    assert not region.quotas
    assert "quota_status_warning" not in call(gce, "regions", "get", region=REGION)


def quota_infos(gce: LocalGce, **params: str) -> dict[str, Any]:
    """One page of Cloud Quotas' list; quotas by id."""
    parent = f"projects/{PROJECT}/locations/global/services/compute.googleapis.com"
    answer = httpx.get(f"{gce.url}/v1/{parent}/quotaInfos", params=params)
    assert answer.status_code == 200
    return {"infos": {info["quotaId"]: info for info in answer.json()["quotaInfos"]}, **answer.json()}


def test_cloud_quotas_tells_the_scenarios_limits_narrow_ones_first(gce: LocalGce) -> None:
    for region, name, limit in (
        ("us-east4", "GPUS_PER_GPU_FAMILY/NVIDIA_H200", 16),
        ("global", "GPUS_ALL_REGIONS", 64),
    ):
        gce.world.set_quota(QuotaRule(provider="gcp", region=region, name=name, limit=limit))
    infos = quota_infos(gce)["infos"]
    families = infos["GPUS-PER-GPU-FAMILY-per-project-region"]
    assert families["metric"] == "compute.googleapis.com/gpus_per_gpu_family"
    assert families["dimensions"] == ["region", "gpu_family"]
    told = [(entry["dimensions"], entry["details"]["value"]) for entry in families["dimensionsInfos"]]
    assert told[0] == ({"gpu_family": "NVIDIA_H200", "region": "us-east4"}, "16")
    assert ({"gpu_family": "NVIDIA_H200"}, "128") in told[1:]
    usual = next(e for e in families["dimensionsInfos"] if e["dimensions"] == {"gpu_family": "NVIDIA_H200"})
    assert usual["applicableLocations"] == ["us-central1", "europe-west4"]
    everywhere = infos["GPUS-ALL-REGIONS-per-project"]["dimensionsInfos"]
    assert everywhere == [{"details": {"value": "64"}, "applicableLocations": ["global"]}]
    assert "PREEMPTIBLE-NVIDIA-B200-GPUS-per-project-region" in infos


def test_cloud_quotas_is_paged_and_knows_other_services_not(gce: LocalGce) -> None:
    every = list(quota_infos(gce)["infos"])
    first = quota_infos(gce, pageSize="5")
    second = quota_infos(gce, pageSize="5", pageToken=first["nextPageToken"])
    assert [*first["infos"], *second["infos"]] == every[:10]
    assert "nextPageToken" not in quota_infos(gce)
    wrong = {"run.googleapis.com/quotaInfos": 404, "compute.googleapis.com/quotaInfos?pageToken=x": 400}
    for path, status in wrong.items():
        answer = httpx.get(f"{gce.url}/v1/projects/{PROJECT}/locations/global/services/{path}")
        assert answer.status_code == status


def test_zones_and_regions_are_listed(gce: LocalGce) -> None:
    table = catalogue("gcp")
    assert {zone.name for zone in call(gce, "zones", "list")} == set(table.zones)
    assert {region.name for region in call(gce, "regions", "list")} == set(table.regions)
    assert call(gce, "zones", "get", zone="us-east4-a").region.endswith("/regions/us-east4")


@pytest.mark.parametrize(
    ("service", "request_"),
    [
        ("regions", {"region": "mars"}),
        ("zones", {"zone": "mars-a"}),
        ("images", {"image": "nothing"}),
        ("subnetworks", {"region": REGION, "subnetwork": "nothing"}),
        ("subnetworks", {"region": "mars", "subnetwork": "default"}),
    ],
)
def test_what_is_not_there_is_not_found(gce: LocalGce, service: str, request_: dict[str, str]) -> None:
    with pytest.raises(api.NotFound):
        call(gce, service, "get", **request_)


def test_machine_types_show_their_gpus_and_disks(gce: LocalGce) -> None:
    scopes = dict(call(gce, "machine_types", "aggregated_list"))
    types = {machine.name: machine for machine in scopes["zones/us-central1-a"].machine_types}
    h100 = types["a3-highgpu-8g"]
    assert (h100.guest_cpus, h100.memory_mb) == (208, 1872 * 1024)
    card = h100.accelerators[0]
    assert (card.guest_accelerator_type, card.guest_accelerator_count) == ("nvidia-h100-80gb", 8)
    assert h100.bundled_local_ssds.partition_count == 16
    assert not types["n1-standard-4"].accelerators
    assert "a4-highgpu-8g" not in types


def test_machine_types_of_one_zone_are_filtered_by_expression(gce: LocalGce) -> None:
    found = call(gce, "machine_types", "list", zone="us-central1-a", filter='name eq "g2-.*"')
    assert {machine.name for machine in found} == {
        "g2-standard-4",
        "g2-standard-8",
        "g2-standard-24",
        "g2-standard-48",
        "g2-standard-96",
    }


def test_accelerator_types_are_listed_by_zone(gce: LocalGce) -> None:
    scopes = dict(call(gce, "accelerator_types", "aggregated_list"))
    cards = {
        card.name: card.maximum_cards_per_instance for card in scopes["zones/us-central1-b"].accelerator_types
    }
    assert cards["nvidia-tesla-t4"] == 4
    assert cards["nvidia-b200"] == 8
    assert "nvidia-b200" not in {card.name for card in scopes["zones/us-central1-a"].accelerator_types}


def test_a_family_stands_for_its_newest_image(gce: LocalGce) -> None:
    image = call(gce, "images", "get_from_family", family="corral")
    assert call(gce, "images", "get", image=image.name) == image
    assert image.status == "READY"
    with pytest.raises(api.NotFound):
        call(gce, "images", "get_from_family", family="nothing")


def test_subnetworks_can_be_found_in_three_ways(gce: LocalGce) -> None:
    one = call(gce, "subnetworks", "get", region=REGION, subnetwork="training")
    scopes = dict(call(gce, "subnetworks", "aggregated_list"))
    usable = call(gce, "subnetworks", "list_usable")
    assert one.self_link in {subnet.self_link for subnet in scopes[f"regions/{REGION}"].subnetworks}
    assert one.self_link in {subnet.subnetwork for subnet in usable}
    ranges = [subnet.ip_cidr_range for subnet in usable]
    assert len(set(ranges)) == len(ranges)


def test_there_are_no_reservations(gce: LocalGce) -> None:
    scopes = dict(call(gce, "reservations", "aggregated_list"))
    assert not any(scope.reservations for scope in scopes.values())


# Prices


def skus(gce: LocalGce, **query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        page = httpx.get(gce.url + SKUS, params={"pageToken": token, **query}).json()
        found += page["skus"]
        token = page["nextPageToken"]
        if not token:
            return found


def test_skus_are_paged_and_the_same_on_any_page_size(gce: LocalGce) -> None:
    whole = skus(gce)
    assert skus(gce, pageSize="10") == whole
    assert len({sku["skuId"] for sku in whole}) == len(whole)


@pytest.mark.parametrize(
    "query", [{"pageSize": "0"}, {"pageSize": "5001"}, {"pageToken": "?"}, {"currencyCode": "EUR"}]
)
def test_a_price_query_that_cannot_be_answered_is_refused(gce: LocalGce, query: dict[str, str]) -> None:
    assert httpx.get(gce.url + SKUS, params=query).status_code == 400


def test_only_the_service_of_compute_engine_has_skus(gce: LocalGce) -> None:
    assert httpx.get(f"{gce.url}/v1/services/0000-0000-0000/skus").status_code == 404


def test_the_documents_are_those_that_the_sdk_is_made_from() -> None:
    assert load("compute")["version"] == "v1"
    assert load("cloudbilling")["version"] == "v1"
