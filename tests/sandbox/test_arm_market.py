"""Sizes, usages, prices and the account on the local Resource Manager."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from sandbox.faces.arm.call import ArmError
from sandbox.faces.arm.odata import matches
from tests.sandbox.arm_client import GROUP_ID, SIZE, Site
from tests.sandbox.arm_client import site as opened
from tests.sandbox.arm_server import SUBSCRIPTION

SUB = f"/subscriptions/{SUBSCRIPTION}"


@pytest.fixture
def site() -> Iterator[Site]:
    with opened() as one:
        yield one


def prices(site: Site, filter_: str) -> list[dict[str, object]]:
    """All rows of all pages."""
    rows: list[dict[str, object]] = []
    address: str | None = f"{site.cloud.url}/api/retail/prices"
    params: dict[str, str] | None = {"$filter": filter_}
    for _ in range(50):
        if address is None:
            return rows
        page = httpx.get(address, params=params, trust_env=False).json()
        rows += page["Items"]
        assert page["Count"] == len(page["Items"]) <= 100
        address, params = page["NextPageLink"], None
    raise AssertionError("the pages do not end")


def test_prices_are_the_markets_and_need_no_token(site: Site) -> None:
    rows = prices(
        site, f"armRegionName eq 'westeurope' and armSkuName eq '{SIZE}' and priceType eq 'Consumption'"
    )
    linux = {row["skuName"]: row["retailPrice"] for row in rows if "Windows" not in str(row["productName"])}
    assert linux["NC24ads A100 v4"] == 4.242315
    assert linux["NC24ads A100 v4 Spot"] == 1.696695


def test_prices_come_in_pages_that_hold_every_row_once(site: Site) -> None:
    rows = prices(site, "serviceName eq 'Virtual Machines'")
    keys = [
        (row["armRegionName"], row["armSkuName"], row["skuName"], row["productName"], row["type"])
        for row in rows
    ]
    assert len(keys) > 200
    assert len(set(keys)) == len(keys)


def test_a_filters_values_are_compared_with_case(site: Site) -> None:
    assert prices(site, "serviceName eq 'virtual machines'") == []


def test_usage_follows_what_runs(site: Site) -> None:
    def used() -> dict[str, int]:
        rows = site.get(f"{SUB}/providers/Microsoft.Compute/locations/eastus/usages")["value"]
        return {row["name"]["value"]: row["currentValue"] for row in rows if row["currentValue"]}

    site.made("spot")
    assert used() == {"lowPriorityCores": 24, "virtualMachines": 1}
    site.made("regular", spot=False)
    assert used() == {
        "lowPriorityCores": 24,
        "virtualMachines": 2,
        "cores": 24,
        "StandardNCADSA100v4Family": 24,
    }


def test_sizes_are_filtered_by_location_and_are_not_all_there_is(site: Site) -> None:
    path = f"{SUB}/providers/Microsoft.Compute/skus"
    rows = site.get(path, filter_="location eq 'eastus'")["value"]
    assert {row["locations"][0] for row in rows} == {"eastus"}
    assert {row["resourceType"] for row in rows} == {"virtualMachines", "disks"}
    assert len(site.get(path)["value"]) == 3 * len(rows)


def test_gpus_are_left_out_where_azure_leaves_them_out(site: Site) -> None:
    rows = site.get(f"{SUB}/providers/Microsoft.Compute/skus", filter_="location eq 'eastus'")["value"]
    gpus = {
        row["name"]: next((one["value"] for one in row["capabilities"] if one["name"] == "GPUs"), None)
        for row in rows
    }
    assert gpus["Standard_ND96isr_H100_v5"] == "8"
    assert gpus["Standard_ND128isr_NDR_GB200_v6"] is None


def test_everything_of_a_machine_is_found_by_its_tags(site: Site) -> None:
    site.made()
    rows = site.get(f"{GROUP_ID}/resources")["value"]
    assert sorted(row["type"] for row in rows) == [
        "Microsoft.Compute/disks",
        "Microsoft.Compute/virtualMachines",
        "Microsoft.Network/networkInterfaces",
        "Microsoft.Network/publicIPAddresses",
    ]
    by_tag = site.get(
        f"{GROUP_ID}/resources", filter_="tagName eq 'part' and tagValue eq 'card'", expand_="createdTime"
    )
    assert [row["type"] for row in by_tag["value"]] == ["Microsoft.Network/networkInterfaces"]
    assert by_tag["value"][0]["createdTime"] == "2026-03-01T12:00:00.000000Z"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("a eq '1'", True),
        ("A EQ '1'", True),
        ("a eq '2'", False),
        ("a eq '1' and b eq 'it''s'", True),
        ("a eq '2' or b eq 'it''s'", True),
        ("a eq '2' or a eq '1' and b eq 'x'", False),
        ("(a eq '2' or a eq '1') and b eq 'it''s'", True),
        ("c eq '1'", False),
    ],
)
def test_filters_are_read_as_odata_reads_them(text: str, found: bool) -> None:
    assert matches(text, [{"a": "1", "b": "it's"}]) is found


@pytest.mark.parametrize(
    "text", ["a", "a eq", "a ne '1'", "(a eq '1'", "a eq '1')", "a eq 1", "; drop", "(" * 99]
)
def test_a_filter_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ArmError, match="InvalidFilterInQueryString"):
        matches(text, [{"a": "1"}])


@pytest.mark.parametrize(
    ("method", "path", "headers", "status", "code"),
    [
        ("GET", SUB, {}, 401, "AuthenticationFailed"),
        ("GET", SUB, {"Authorization": "Bearer t"}, 400, "MissingApiVersionParameter"),
        ("GET", "/nothing/here", {"Authorization": "Bearer t"}, 404, "InvalidResourceType"),
        ("PATCH", SUB, {"Authorization": "Bearer t"}, 404, "InvalidResourceType"),
    ],
)
def test_a_call_without_what_every_call_needs_is_refused(
    site: Site, method: str, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = httpx.request(method, f"{site.cloud.url}{path}", headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff"])
def test_a_body_that_is_no_object_is_refused(site: Site, content: bytes) -> None:
    path = f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines/vm?api-version=2026-04-01"
    headers = {"Authorization": "Bearer t"}
    answer = httpx.put(f"{site.cloud.url}{path}", content=content, headers=headers, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "InvalidRequestContent")


def test_the_account_is_registered_enabled_and_allowed(site: Site) -> None:
    assert site.get(SUB)["state"] == "Enabled"
    for namespace in ("Microsoft.Compute", "microsoft.network"):
        assert site.get(f"{SUB}/providers/{namespace}")["registrationState"] == "Registered"
    assert site.send("GET", f"{SUB}/providers/Microsoft.Nothing").status_code == 404
    assert site.get(f"{GROUP_ID}/providers/Microsoft.Authorization/permissions")["value"][0]["actions"] == [
        "*"
    ]
    zones = site.get(f"{SUB}/locations")["value"][0]["availabilityZoneMappings"]
    assert [zone["logicalZone"] for zone in zones] == ["1", "2", "3"]


def test_a_question_that_the_graph_cannot_answer_is_refused(site: Site) -> None:
    answer = site.send(
        "POST", "/providers/Microsoft.ResourceGraph/resources", {"query": "Resources | take 1"}
    )
    assert answer.json()["error"]["code"] == "BadRequest"
