"""Requests and answers hold nothing that the SDK's generated models do not know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import azure.mgmt.compute.models as compute
import azure.mgmt.network.models as network
import pytest

from providers.azure.fabric import body as availability_set
from providers.azure.vm import body as sent_by_the_adapter
from providers.azure.vm import frozen
from providers.config import RegionConfig
from providers.vocabulary import CapacityType, LaunchRequest, OfferKey
from sandbox.quota_reviews import ReviewRule
from sandbox.reservations import ReservationRule
from tests.sandbox.arm_client import GROUP_ID, IMAGE, SIZE, SUBNET, PlainHttp, Site, Token, body
from tests.sandbox.arm_client import site as opened
from tests.sandbox.arm_models import strange
from tests.sandbox.arm_server import SUBSCRIPTION

SUB = f"/subscriptions/{SUBSCRIPTION}"
COMPUTE = f"{GROUP_ID}/providers/Microsoft.Compute"
NETWORK = f"{GROUP_ID}/providers/Microsoft.Network"
GALLERY = f"{COMPUTE}/galleries/corral/images/corral"
MARKET = (
    f"{SUB}/providers/Microsoft.Compute/locations/eastus/publishers/microsoft-dsvm/artifacttypes/vmimage"
    "/offers/ubuntu-hpc/skus/2204/versions"
)

WITH_TERMS = (
    MARKET.replace("microsoft-dsvm", "acme").replace("ubuntu-hpc", "gpu-desktop").replace("2204", "pro")
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One running spot machine and one create that has failed."""
    rule: dict[str, Any] = {"provider": "azure", "zone": "eastus-2", "count": 0}
    with opened({"capacity": [rule]}) as one:
        one.made()
        one.create("failed", spot=False, zone="2")
        one.cloud.advance(30)
        yield one


def test_the_checker_itself_finds_what_is_wrong() -> None:
    wrong = body()
    wrong["properties"]["hardwareProfile"] = {"vmSizee": "x"}
    wrong["properties"]["storageProfile"]["osDisk"]["diskSizeGB"] = "64"
    wrong["tags"] = ["a"]
    assert strange(compute.VirtualMachine, wrong) == [
        "body.tags: an object is expected",
        "body.properties.hardwareProfile.vmSizee: unknown field of HardwareProfile",
        "body.properties.storageProfile.osDisk.diskSizeGB: '64' is no int",
    ]


@pytest.mark.parametrize(
    ("path", "query", "model"),
    [
        (f"{COMPUTE}/virtualMachines/vm", {"expand_": "instanceView"}, compute.VirtualMachine),
        (f"{COMPUTE}/virtualMachines/failed", {"expand_": "instanceView"}, compute.VirtualMachine),
        (f"{COMPUTE}/virtualMachines/vm/instanceView", {}, compute.VirtualMachineInstanceView),
        (f"{COMPUTE}/virtualMachines", {}, compute.VirtualMachine),
        (f"{SUB}/providers/Microsoft.Compute/virtualMachines", {}, compute.VirtualMachine),
        (f"{SUB}/providers/Microsoft.Compute/skus", {}, compute.ResourceSku),
        (f"{SUB}/providers/Microsoft.Compute/locations/eastus/usages", {}, compute.Usage),
        (f"{COMPUTE}/disks", {}, compute.Disk),
        (f"{COMPUTE}/disks/vm-os", {}, compute.Disk),
        (GALLERY, {}, compute.GalleryImage),
        (f"{GALLERY}/versions", {}, compute.GalleryImageVersion),
        (f"{GALLERY}/versions/1.0.0", {}, compute.GalleryImageVersion),
        (f"{COMPUTE}/images/corral", {}, compute.Image),
        (MARKET, {}, compute.VirtualMachineImageResource),
        (f"{WITH_TERMS}/3.1.0", {}, compute.VirtualMachineImage),
        (f"{MARKET}/22.04.2025121501", {}, compute.VirtualMachineImage),
        (f"{NETWORK}/networkInterfaces", {}, network.NetworkInterface),
        (f"{NETWORK}/publicIPAddresses", {}, network.PublicIPAddress),
        (f"{NETWORK}/virtualNetworks", {}, network.VirtualNetwork),
        (f"{NETWORK}/virtualNetworks/vnet-eastus/subnets/default", {}, network.Subnet),
        (f"{SUB}/providers/Microsoft.Network/locations/eastus/usages", {}, network.Usage),
        (f"{NETWORK}/virtualNetworks/vnet-eastus/usages", {}, network.VirtualNetworkUsage),
        (f"{NETWORK}/networkSecurityGroups/nsg-eastus", {}, network.NetworkSecurityGroup),
    ],
)
def test_an_answer_holds_only_what_the_models_know(
    site: Site, path: str, query: dict[str, str], model: type
) -> None:
    answer = site.get(path, **query)
    rows = answer if isinstance(answer, list) else answer.get("value", [answer])
    assert rows
    assert [problem for row in rows for problem in strange(model, row)] == []


QUOTA = f"{SUB}/providers/Microsoft.Compute/locations/eastus/providers/Microsoft.Quota"


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("quotas", "CurrentQuotaLimitBase"),
        ("quotas/Standard%20NCASv3_T4%20Family", "CurrentQuotaLimitBase"),
        ("quotaRequests", "QuotaRequestDetails"),
        ("quotaRequests/q", "QuotaRequestDetails"),
    ],
)
def test_an_answer_about_quota_holds_only_what_the_models_know(site: Site, path: str, model: str) -> None:
    models = pytest.importorskip("azure.mgmt.quota.models")
    world = site.cloud.world
    denied = {"provider": "azure", "verdict": "denied", "taken_up": 0, "decided": 0}
    world.set_review(ReviewRule.model_validate(denied))
    world.file_quota_request("azure", "q", region="eastus", name="cores", wanted=9000)
    site.cloud.advance(1)
    answer = site.get(f"{QUOTA}/{path}")
    rows = answer.get("value", [answer])
    assert rows
    assert [problem for row in rows for problem in strange(getattr(models, model), row)] == []


def test_the_quota_sdk_files_a_request_and_reads_it(site: Site) -> None:
    sdk = pytest.importorskip("azure.mgmt.quota")
    models = pytest.importorskip("azure.mgmt.quota.models")
    scope = f"{SUB[1:]}/providers/Microsoft.Compute/locations/westus3"
    with sdk.QuotaMgmtClient(
        Token(), SUBSCRIPTION, base_url=site.cloud.url, per_call_policies=[PlainHttp()], retry_total=0
    ) as client:
        wanted = models.QuotaProperties(
            limit=models.LimitObject(value=5000), name=models.ResourceName(value="lowPriorityCores")
        )
        body = models.CurrentQuotaLimitBase(properties=wanted)
        client.quota.begin_create_or_update("lowPriorityCores", scope, body, polling=False)
        (shown,) = client.quota_request_status.list(scope)
        assert shown.properties.value[0].limit.value == 5000
        assert shown.properties.provisioning_state == "Accepted"


@pytest.mark.parametrize("kind", ["plain", "block"])
def test_an_answer_about_reserved_capacity_holds_only_what_the_models_know(site: Site, kind: str) -> None:
    rule = {"provider": "azure", "name": f"{kind}/r", "zone": "eastus-1", "instance_type": SIZE, "count": 1}
    site.cloud.world.reserve(ReservationRule.model_validate({**rule, "kind": kind, "ends": 99_000}))
    groups = f"{COMPUTE}/capacityReservationGroups"
    answers: list[tuple[type, Any]] = [
        (compute.CapacityReservationGroup, row)
        for row in site.get(f"{SUB}/providers/Microsoft.Compute/capacityReservationGroups")["value"]
    ]
    answers += [(compute.CapacityReservationGroup, site.get(f"{groups}/{kind}", expand_="instanceView"))]
    found = site.get(f"{groups}/{kind}/capacityReservations")["value"]
    answers += [(compute.CapacityReservation, row) for row in found]
    view = site.get(f"{groups}/{kind}/capacityReservations/r", expand_="instanceView")
    answers += [(compute.CapacityReservation, view)]
    assert len(answers) >= 4
    assert [problem for model, row in answers for problem in strange(model, row)] == []


def test_the_recommender_sdk_reads_placement_scores(site: Site) -> None:
    sdk = pytest.importorskip("azure.mgmt.computerecommender")
    models = pytest.importorskip("azure.mgmt.computerecommender.models")
    with sdk.RecommenderMgmtClient(
        Token(), SUBSCRIPTION, base_url=site.cloud.url, per_call_policies=[PlainHttp()], retry_total=0
    ) as client:
        wanted = models.SpotPlacementScoresInput(
            desired_locations=["eastus"],
            desired_sizes=[models.ResourceSize(sku=SIZE)],
            desired_count=1,
            availability_zones=True,
        )
        answer = client.spot_placement_scores.post("eastus", wanted)
    found = {row.availability_zone: row.score for row in answer.placement_scores}
    assert found["1"] == "High"
    assert strange(models.SpotPlacementScoresResponse, answer.as_dict()) == []


def test_an_availability_set_holds_only_what_the_models_know(site: Site) -> None:
    key = OfferKey("azure", "lab", "eastus", "eastus", SIZE, CapacityType.ON_DEMAND)
    sent = availability_set(LaunchRequest("a" * 32, key, 2, "", {"x": "y"}, 50, fabric=True))
    assert strange(compute.AvailabilitySet, sent) == []
    site.send("PUT", f"{COMPUTE}/availabilitySets/s", sent).raise_for_status()
    inside = {"availabilitySet": {"id": f"{COMPUTE}/availabilitySets/s"}}
    site.create("inside", spot=False, zone=None, properties=inside)
    (shown,) = site.get(f"{COMPUTE}/availabilitySets")["value"]
    assert shown["properties"]["virtualMachines"]
    assert strange(compute.AvailabilitySet, shown) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"spot": True, "zone": None}, "AzureSpotVMNotSupportedInAvailabilitySet"),
        ({"spot": False, "zone": "1"}, "BadRequest"),
    ],
)
def test_an_availability_set_takes_neither_spot_nor_zones(site: Site, change: Any, code: str) -> None:
    body_of_set = {"location": "eastus", "sku": {"name": "Aligned"}}
    site.send("PUT", f"{COMPUTE}/availabilitySets/t", body_of_set).raise_for_status()
    inside = {"availabilitySet": {"id": f"{COMPUTE}/availabilitySets/t"}}
    path = f"{COMPUTE}/virtualMachines/refused"
    answer = site.send("PUT", path, body("refused", properties=inside, **change))
    assert answer.json()["error"]["code"] == code


def test_a_card_with_its_address_expanded_holds_only_what_the_models_know(site: Site) -> None:
    card = site.get(f"{NETWORK}/networkInterfaces")["value"][0]
    whole = site.get(card["id"], expand_="ipConfigurations/publicIPAddress")
    address = whole["properties"]["ipConfigurations"][0]["properties"]["publicIPAddress"]
    assert address["properties"]["ipAddress"] == site.cloud.vm("vm").public_ip
    assert strange(network.NetworkInterface, whole) == []
    assert strange(network.PublicIPAddress, site.get(address["id"])) == []


def test_the_answer_to_a_create_holds_only_what_the_models_know(site: Site) -> None:
    answer = site.send("PUT", f"{COMPUTE}/virtualMachines/another", body("another"))
    assert answer.status_code == 201
    assert strange(compute.VirtualMachine, answer.json()) == []


def test_the_models_read_the_answers_as_they_are_meant(site: Site) -> None:
    sizes = {sku.name: sku for sku in site.client.resource_skus.list(filter="location eq 'westeurope'")}
    closed = sizes["Standard_NC40ads_H100_v5"].restrictions or []
    assert [(one.type, (one.restriction_info and one.restriction_info.zones)) for one in closed] == [
        ("Zone", ["1", "3"])
    ]
    assert {one.type for one in sizes["Standard_ND96isr_H200_v5"].restrictions or []} == {"Location", "Zone"}
    usage = {row.name.value: row for row in site.client.usage.list("eastus")}
    assert (usage["lowPriorityCores"].limit, usage["lowPriorityCores"].unit) == (2400, "Count")
    image = site.client.gallery_image_versions.get("sandbox", "corral", "corral", "1.1.0")
    assert image.publishing_profile is not None
    assert "eastus" in {one.name for one in image.publishing_profile.target_regions or []}
    found = site.client.virtual_machine_images.list("eastus", "microsoft-dsvm", "ubuntu-hpc", "2204")
    assert [one.name for one in found] == ["22.04.2025081801", "22.04.2025121501"]


@pytest.mark.parametrize("capacity_type", list(CapacityType))
@pytest.mark.parametrize("zone", ["eastus", "eastus-1"])
@pytest.mark.parametrize("image", [IMAGE, "publisher:offer:sku:1.0.0"])
def test_the_adapters_create_holds_only_what_the_models_know(
    capacity_type: CapacityType, zone: str, image: str
) -> None:
    reserved = f"{COMPUTE}/capacityReservationGroups/g/capacityReservations/r"
    named = reserved if capacity_type is CapacityType.RESERVED else None
    key = OfferKey("azure", "lab", "eastus", zone, SIZE, capacity_type, named)
    extra = {
        "ssh_public_key": "ssh-rsa AAAA",
        "image_disk_gib": "30",
        "plan_name": "n",
        "plan_product": "p",
        "plan_publisher": "q",
        **frozen(RegionConfig(security_groups=("/nsg",), instance_role="/identity")),
    }
    request = LaunchRequest("a" * 32, key, 2, "#cloud-config\n", {"x": "y"}, 50, image, SUBNET, extra=extra)
    whole = sent_by_the_adapter(request, 1)
    assert strange(compute.VirtualMachine, whole) == []
    assert whole == sent_by_the_adapter(request, 1)
