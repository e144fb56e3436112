"""Virtual machines on the local Resource Manager, driven by the real SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.mgmt.compute.models import VirtualMachine

from sandbox.scenario import CapacityRule, QuotaRule
from tests.sandbox.arm_client import GROUP_ID, SIZE, Site, body
from tests.sandbox.arm_client import site as opened
from tests.sandbox.arm_server import GROUP

VMS = f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines"


@pytest.fixture
def site() -> Iterator[Site]:
    with opened() as one:
        yield one


def codes(vm: Any) -> list[str]:
    """The statuses of an instance view."""
    return [status.code for status in vm.instance_view.statuses]


def view(site: Site, name: str = "vm") -> Any:
    return site.vms.get(GROUP, name, expand="instanceView")


def sold_out(site: Site, **where: Any) -> None:
    rule = {"provider": "azure", "instance_type": SIZE, "count": 0, **where}
    site.cloud.world.set_capacity(CapacityRule.model_validate(rule))


def limited(site: Site, name: str, limit: int) -> None:
    site.cloud.world.set_quota(QuotaRule(provider="azure", region="eastus", name=name, limit=limit))


# Creating.


def test_a_create_is_accepted_at_once_and_done_when_the_machine_runs(site: Site) -> None:
    poller = site.create()
    assert site.vms.get(GROUP, "vm").provisioning_state == "Creating"
    assert not poller.done()
    site.cloud.advance(60)
    vm = poller.result(10)
    assert (vm.provisioning_state, vm.zones, vm.location) == ("Succeeded", ["1"], "eastus")
    assert codes(view(site)) == ["ProvisioningState/succeeded", "PowerState/running"]


def test_what_was_secret_is_not_shown_again(site: Site) -> None:
    site.made()
    assert "customData" not in str(site.get(f"{VMS}/vm", expand_="instanceView"))
    assert site.cloud.vm("vm").user_data == "#cloud-config\n"


def test_without_an_answer_to_wait_for_the_created_machine_is_shown(site: Site) -> None:
    vm = site.vms.begin_create_or_update(GROUP, "vm", VirtualMachine(body()), polling=False).result()
    assert vm.provisioning_state == "Creating"
    assert vm.vm_id == site.cloud.vm("vm").id


def test_a_shortage_on_demand_comes_late_and_leaves_a_failed_machine(site: Site) -> None:
    sold_out(site, zone="eastus-1")
    poller = site.create(spot=False)
    assert codes(view(site)) == ["ProvisioningState/creating"]
    site.cloud.advance(10)
    with pytest.raises(HttpResponseError) as caught:
        poller.result(10)
    assert caught.value.status_code == 200
    assert caught.value.error is not None
    assert caught.value.error.code == "ZonalAllocationFailed"
    failed = view(site)
    assert failed.provisioning_state == "Failed"
    assert codes(failed) == ["ProvisioningState/failed/ZonalAllocationFailed"]
    assert [vm.name for vm in site.vms.list(GROUP)] == ["vm"]
    site.vms.begin_delete(GROUP, "vm", force_deletion=True).result(10)
    with pytest.raises(ResourceNotFoundError):
        site.vms.get(GROUP, "vm")


def test_a_shortage_without_a_zone_has_its_own_code(site: Site) -> None:
    sold_out(site, zone="eastus")
    poller = site.create(spot=False, zone=None)
    site.cloud.advance(10)
    with pytest.raises(HttpResponseError, match="AllocationFailed"):
        poller.result(10)
    assert site.made("zonal", spot=False).provisioning_state == "Succeeded"


def test_a_shortage_of_spot_is_refused_at_once_and_leaves_nothing(site: Site) -> None:
    sold_out(site, capacity_type="spot")
    with pytest.raises(ResourceExistsError) as caught:
        site.create()
    assert caught.value.error is not None
    assert caught.value.error.code == "SkuNotAvailable"
    assert list(site.vms.list(GROUP)) == []


@pytest.mark.parametrize(
    ("name", "spot", "shown"),
    [
        ("lowPriorityCores", True, "LowPriorityCores"),
        ("cores", False, "Total Regional Cores"),
        ("StandardNCADSA100v4Family", False, "StandardNCADSA100v4Family Cores"),
    ],
)
def test_a_quota_is_refused_at_once_with_its_figures(site: Site, name: str, spot: bool, shown: str) -> None:
    site.made("first", spot=spot)
    limited(site, name, 30)
    with pytest.raises(ResourceExistsError) as caught:
        site.create("second", spot=spot)
    assert caught.value.error is not None
    assert caught.value.error.code == "OperationNotAllowed"
    assert (
        f"exceeding approved {shown} quota. Additional details - Deployment Model: Resource Manager, "
        "Location: eastus, Current Limit: 30, Current Usage: 24, Additional Required: 24, (Minimum) New "
        "Limit Required: 48."
    ) in caught.value.message


def test_a_bid_below_the_price_is_refused_with_both_figures(site: Site) -> None:
    with pytest.raises(ResourceExistsError) as caught:
        site.create(properties={"billingProfile": {"maxPrice": 0.01}})
    assert caught.value.error is not None
    assert caught.value.error.code == "SpotPriceGreaterThanProvidedMaxPrice"
    assert "'0.01 USD'" in caught.value.message
    assert "'1.469 USD'" in caught.value.message


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"location": ""}, 400, "LocationRequired"),
        ({"location": "mars"}, 400, "LocationNotAvailableForResourceType"),
        ({"zone": "9"}, 400, "InvalidAvailabilityZone"),
        ({"properties": {"hardwareProfile": {"vmSize": "Standard_Nope"}}}, 400, "InvalidParameter"),
        ({"properties": {"hardwareProfile": {}}}, 400, "InvalidParameter"),
        ({"properties": {"storageProfile": {"osDisk": {}}}}, 400, "InvalidParameter"),
        ({"properties": {"osProfile": {"adminUsername": "root"}}}, 400, "InvalidParameter"),
        ({"properties": {"osProfile": {"adminUsername": "x"}}}, 400, "InvalidParameter"),
        ({"properties": {"networkProfile": {}}}, 400, "InvalidParameter"),
        ({"properties": {"priority": "Cheap"}}, 400, "InvalidParameter"),
        (
            {"properties": {"priority": "Regular", "billingProfile": None}},
            409,
            "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines",
        ),
        (
            {"properties": {"priority": "Regular", "evictionPolicy": None}},
            409,
            "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines",
        ),
        ({"properties": {"billingProfile": {"maxPrice": 0}}}, 409, "MaxPriceValueInvalid"),
        ({"tags": {"a/b": "c"}}, 400, "InvalidTagNameCharacters"),
        ({"tags": {str(number): "x" for number in range(51)}}, 400, "TooManyTags"),
    ],
)
def test_a_create_that_makes_no_sense_is_refused_and_makes_nothing(
    site: Site, changes: dict[str, Any], status: int, code: str
) -> None:
    response = site.send("PUT", f"{VMS}/vm", body(**changes))
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert set(site.cloud.live().values()) == {0}


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ({"id": f"{GROUP_ID}/providers/Microsoft.Compute/images/none"}, "NotFound"),
        (
            {"id": f"{GROUP_ID}/providers/Microsoft.Compute/galleries/g/images/i/versions/1.0.0"},
            "GalleryImageNotFound",
        ),
        ({"publisher": "a", "offer": "b", "sku": "c", "version": "latest"}, "PlatformImageNotFound"),
    ],
)
def test_an_image_that_is_not_there_is_refused(site: Site, image: dict[str, str], code: str) -> None:
    changed = body()
    changed["properties"]["storageProfile"]["imageReference"] = image
    response = site.send("PUT", f"{VMS}/vm", changed)
    assert (response.status_code, response.json()["error"]["code"]) == (404, code)


def test_a_subnet_of_another_region_is_refused(site: Site) -> None:
    response = site.send("PUT", f"{VMS}/vm", body(location="westeurope", zone=None))
    assert response.json()["error"]["code"] == "InvalidResourceReference"


def test_a_group_that_is_not_there_is_refused_until_it_is_made(site: Site) -> None:
    path = VMS.replace(GROUP_ID, GROUP_ID.replace(GROUP, "other"))
    assert site.send("PUT", f"{path}/vm", body()).json()["error"]["code"] == "ResourceGroupNotFound"
    group = GROUP_ID.replace(GROUP, "other")
    assert site.send("PUT", group, {"location": "eastus"}).status_code == 201
    assert site.send("PUT", group, {"location": "eastus"}).status_code == 200
    assert site.send("PUT", f"{path}/vm", body()).status_code == 201
    assert list(site.vms.list(GROUP)) == []
    assert [vm.name for vm in site.vms.list("OTHER")] == ["vm"]


# The same name again.


def test_a_create_only_put_of_a_name_that_is_taken_fails_its_condition(site: Site) -> None:
    site.create()
    with pytest.raises(ResourceExistsError) as caught:
        site.vms.begin_create_or_update(
            GROUP,
            "VM",
            VirtualMachine(body()),
            etag="*",
            match_condition=MatchConditions.IfMissing,
        )
    assert caught.value.status_code == 412
    assert site.cloud.live()["instance"] == 1


def test_the_same_put_again_is_an_update_and_makes_no_second_machine(site: Site) -> None:
    first = site.made()
    again = site.send("PUT", f"{VMS}/vm", body())
    assert again.status_code == 200
    assert again.json()["properties"]["vmId"] == first.vm_id
    assert site.cloud.live()["instance"] == 1


@pytest.mark.parametrize(
    ("changes", "code", "target"),
    [
        ({"zone": "2"}, "PropertyChangeNotAllowed", "zones"),
        (
            {"properties": {"priority": "Regular", "evictionPolicy": None, "billingProfile": None}},
            "PropertyChangeNotAllowed",
            "priority",
        ),
        ({"location": "westeurope"}, "InvalidResourceLocation", None),
    ],
)
def test_what_cannot_be_changed_is_refused_and_named(
    site: Site, changes: dict[str, Any], code: str, target: str | None
) -> None:
    site.made()
    response = site.send("PUT", f"{VMS}/vm", body(**changes))
    error = response.json()["error"]
    assert (response.status_code, error["code"], error.get("target")) == (409, code, target)


def test_a_failed_machine_keeps_its_name_from_another_region(site: Site) -> None:
    sold_out(site, zone="eastus-1")
    site.create(spot=False)
    response = site.send("PUT", f"{VMS}/vm", body(spot=False, location="westeurope"))
    assert response.json()["error"]["code"] == "InvalidResourceLocation"


# Ending.


def test_a_delete_takes_everything_with_it(site: Site) -> None:
    site.made()
    assert site.cloud.live() == {"instance": 1, "disk": 1, "nic": 1, "address": 1, "spot_request": 0}
    poller = site.vms.begin_delete(GROUP, "vm")
    assert view(site).provisioning_state == "Deleting"
    site.cloud.advance(30)
    poller.result(10)
    assert set(site.cloud.live().values()) == {0}
    assert site.send("DELETE", f"{VMS}/vm").status_code == 204


def test_what_is_to_be_detached_stays_and_lets_go_in_order(site: Site) -> None:
    site.made(delete="Detach")
    network = f"{GROUP_ID}/providers/Microsoft.Network"
    card = site.get(f"{network}/networkInterfaces")["value"][0]
    address = site.get(f"{network}/publicIPAddresses")["value"][0]
    disk = site.get(f"{GROUP_ID}/providers/Microsoft.Compute/disks")["value"][0]
    for one, code in (
        (card, "NicInUse"),
        (address, "PublicIPAddressCannotBeDeleted"),
        (disk, "OperationNotAllowed"),
    ):
        assert site.send("DELETE", one["id"]).json()["error"]["code"] == code
    site.vms.begin_delete(GROUP, "vm", polling=False)
    site.cloud.advance(30)
    assert site.cloud.live() == {"instance": 0, "disk": 1, "nic": 1, "address": 1, "spot_request": 0}
    assert site.send("DELETE", address["id"]).json()["error"]["code"] == "PublicIPAddressCannotBeDeleted"
    assert [site.send("DELETE", one["id"]).status_code for one in (card, address, disk)] == [200, 200, 202]
    assert [site.send("DELETE", one["id"]).status_code for one in (card, address, disk)] == [204] * 3
    assert set(site.cloud.live().values()) == {0}


def test_an_eviction_gives_notice_then_deletes_and_is_annotated(site: Site) -> None:
    site.made()
    site.vms.simulate_eviction(GROUP, "vm")
    assert site.cloud.vm("vm").notice_deadline is not None
    assert codes(view(site)) == ["ProvisioningState/succeeded", "PowerState/running"]
    site.cloud.advance(60)
    with pytest.raises(ResourceNotFoundError):
        site.vms.get(GROUP, "vm")
    query = (
        "HealthResources | where type =~ 'microsoft.resourcehealth/resourceannotations' and "
        "properties.annotationName =~ 'VirtualMachinePreempted' and "
        f"properties.targetResourceId in~ ('{VMS}/vm', '{VMS}/other')"
    )
    answer = site.send("POST", "/providers/Microsoft.ResourceGraph/resources", {"query": query}).json()
    assert [row["targetResourceId"] for row in answer["data"]] == [f"{VMS}/vm".lower()]


def test_an_eviction_that_deallocates_keeps_the_machine_unbilled(site: Site) -> None:
    site.made(properties={"evictionPolicy": "Deallocate"})
    site.vms.simulate_eviction(GROUP, "vm")
    site.cloud.advance(60)
    assert codes(view(site)) == ["ProvisioningState/succeeded", "PowerState/deallocated"]
    assert site.cloud.vm("vm").charges[-1].end is not None


def test_only_spot_is_evicted(site: Site) -> None:
    site.made(spot=False)
    with pytest.raises(ResourceExistsError, match="only for Azure Spot"):
        site.vms.simulate_eviction(GROUP, "vm")


def test_a_guest_that_shuts_down_is_stopped_and_billed_on(site: Site) -> None:
    site.made()
    vm = site.cloud.vm("vm")
    site.cloud.guests.off.append(vm)
    site.cloud.advance(3600)
    assert codes(view(site)) == ["ProvisioningState/succeeded", "PowerState/stopped"]
    assert vm.charges[-1].end is None


# Listing.


def test_lists_come_in_pages_and_power_only_where_it_is_asked_for(site: Site) -> None:
    sold_out(site, count=200)
    for number in range(51):
        site.send("PUT", f"{VMS}/vm{number}", body(f"vm{number}"))
    far = body("far", location="westeurope", zone=None)
    card = far["properties"]["networkProfile"]["networkInterfaceConfigurations"][0]["properties"]
    inner = card["ipConfigurations"][0]["properties"]
    inner["subnet"] = {"id": inner["subnet"]["id"].replace("eastus", "westeurope")}
    assert site.send("PUT", f"{VMS}/far", far).status_code == 201
    assert len(list(site.vms.list(GROUP))) == 52
    assert {vm.name for vm in site.vms.list_by_location("westeurope")} == {"far"}
    everything = list(site.vms.list_all(status_only="true"))
    assert len(everything) == 52
    assert all(vm.instance_view is not None for vm in everything)
    assert all(vm.instance_view is None for vm in site.vms.list_all())


def test_an_empty_page_has_more_behind_it(site: Site) -> None:
    site.made()
    site.cloud.fault("VirtualMachines_List", "empty_page")
    assert [vm.name for vm in site.vms.list(GROUP)] == ["vm"]


def test_reads_may_lag_behind_a_create() -> None:
    with opened({"azure": {"list_lag_seconds": 30}}) as site:
        site.create()
        assert list(site.vms.list(GROUP)) == []
        response = site.send("PUT", f"{VMS}/vm", body(), headers={"If-None-Match": "*"})
        assert response.status_code == 412
        site.cloud.advance(31)
        assert [vm.name for vm in site.vms.list(GROUP)] == ["vm"]


# Faults.


def test_a_throttle_says_so_only_in_its_details(site: Site) -> None:
    site.cloud.fault("VirtualMachines_CreateOrUpdate", "throttle", retry_after=7.2)
    response = site.send("PUT", f"{VMS}/vm", body())
    assert (response.status_code, response.headers["Retry-After"]) == (429, "8")
    assert response.json()["code"] == "OperationNotAllowed"
    assert response.json()["details"][0]["code"] == "TooManyRequests"
    assert set(site.cloud.live().values()) == {0}


def test_an_operation_may_be_made_to_fail_as_a_rule_says(site: Site) -> None:
    site.cloud.fault(
        "VirtualMachines_CreateOrUpdate/operation",
        "error",
        code="OverconstrainedZonalAllocationRequest",
        message="too much is asked",
        match={"properties.priority": "Spot", "name": "vm"},
    )
    poller = site.create()
    site.cloud.advance(10)
    with pytest.raises(HttpResponseError, match="OverconstrainedZonalAllocationRequest"):
        poller.result(10)
    assert site.made("other").provisioning_state == "Succeeded"


def test_an_operation_may_get_stuck_or_lost(site: Site) -> None:
    site.cloud.fault("VirtualMachines_CreateOrUpdate", "stuck")
    stuck = site.send("PUT", f"{VMS}/stuck", body("stuck"))
    site.cloud.fault("VirtualMachines_CreateOrUpdate", "lost")
    lost = site.send("PUT", f"{VMS}/lost", body("lost"))
    site.cloud.advance(24 * 3600)
    answer, _ = site.follow(stuck.headers["Azure-AsyncOperation"])
    assert answer["status"] == "InProgress"
    assert codes(view(site, "stuck")) == ["ProvisioningState/creating"]
    _, response = site.follow(lost.headers["Azure-AsyncOperation"])
    assert response.status_code == 404
    assert codes(view(site, "lost")) == ["ProvisioningState/succeeded", "PowerState/running"]


def test_a_create_cut_short_by_an_eviction_is_canceled(site: Site) -> None:
    created = site.send("PUT", f"{VMS}/vm", body())
    site.cloud.world.preempt(site.cloud.vm("vm"), notice=False)
    site.cloud.advance(30)
    answer, _ = site.follow(created.headers["Azure-AsyncOperation"])
    assert (answer["status"], answer["error"]["code"]) == ("Canceled", "OperationPreempted")
