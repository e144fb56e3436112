"""Compute Engine's face beside instances: placement policies, disks, interfaces, reservations, quotas.

What the adapter does with them is tested with the adapter; here is what it never does. Every call and answer
is checked against the discovery documents (see tests.sandbox.gce).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sandbox.reservations import ReservationRule
from tests.sandbox.gce import PROJECT, LocalGce, local_gce

REGION, ZONE = "us-central1", "us-central1-a"
ROOT = f"/compute/v1/projects/{PROJECT}"
POLICIES = f"{ROOT}/regions/{REGION}/resourcePolicies"
INSTANCES = f"{ROOT}/zones/{ZONE}/instances"
ADVICE = f"{ROOT}/regions/{REGION}/advice/capacity"
PREFERENCES = f"/v1/projects/{PROJECT}/locations/global/quotaPreferences"
COMPACT = {"groupPlacementPolicy": {"collocation": "COLLOCATED"}}


@pytest.fixture
def gce() -> Iterator[LocalGce]:
    with local_gce({"gcp": {"verdict_seconds": 2, "boot_seconds": 5}}) as local:
        yield local


def send(gce: LocalGce, verb: str, path: str, body: Any = None, **query: str) -> Any:
    """The status and the JSON of one call."""
    answer = httpx.request(verb, gce.url + path, json=body, params=query)
    return answer.status_code, answer.json()


def reason(answer: Any) -> tuple[int, str]:
    status, body = answer
    return status, body["error"]["errors"][0]["reason"]


def machine(name: str = "vm", **fields: Any) -> dict[str, Any]:
    disk = {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {"sourceImage": f"projects/{PROJECT}/global/images/family/corral"},
    }
    return {
        "name": name,
        "machineType": f"zones/{ZONE}/machineTypes/{fields.pop('machine_type', 'a3-highgpu-8g')}",
        "disks": [disk],
        "networkInterfaces": [{"network": "global/networks/default"}],
        "scheduling": {"onHostMaintenance": "TERMINATE"},
        **fields,
    }


def nic(name: str, kind: str = "GVNIC") -> dict[str, str]:
    return {"subnetwork": f"projects/{PROJECT}/regions/{REGION}/subnetworks/{name}", "nicType": kind}


def test_a_policy_can_be_used_once_it_is_ready_and_deleted_once_nobody_uses_it(gce: LocalGce) -> None:
    close: dict[str, Any] = {
        "resourcePolicies": [f"projects/{PROJECT}/regions/{REGION}/resourcePolicies/close"]
    }
    assert send(gce, "POST", POLICIES, {"name": "close", **COMPACT})[1]["status"] == "RUNNING"
    assert reason(send(gce, "POST", INSTANCES, machine(**close))) == (404, "notFound")
    assert reason(send(gce, "POST", POLICIES, {"name": "close", **COMPACT})) == (409, "alreadyExists")
    gce.advance(3)
    assert send(gce, "GET", f"{POLICIES}/close")[1]["status"] == "READY"
    assert send(gce, "POST", INSTANCES, machine(**close))[0] == 200
    status, body = send(gce, "DELETE", f"{POLICIES}/close")
    assert (status, "is already being used by 'vm'" in body["error"]["message"]) == (400, True)
    gce.advance(10)
    send(gce, "DELETE", f"{INSTANCES}/vm")
    gce.advance(60)
    assert send(gce, "DELETE", f"{POLICIES}/close")[0] == 200
    assert send(gce, "GET", POLICIES)[1]["items"] == []


def test_a_disk_in_use_stays_and_one_that_is_left_goes(gce: LocalGce) -> None:
    kept = machine()
    kept["disks"][0]["autoDelete"] = False
    send(gce, "POST", INSTANCES, kept)
    gce.advance(10)
    disk = f"{ROOT}/zones/{ZONE}/disks/vm"
    assert reason(send(gce, "DELETE", disk)) == (400, "resourceInUseByAnotherResource")
    send(gce, "DELETE", f"{INSTANCES}/vm")
    gce.advance(60)
    listed = send(gce, "GET", f"{ROOT}/aggregated/disks")[1]["items"][f"zones/{ZONE}"]["disks"]
    assert [(found["name"], found.get("users")) for found in listed] == [("vm", None)]
    assert send(gce, "DELETE", disk)[0] == 200
    assert reason(send(gce, "DELETE", disk)) == (404, "notFound")


@pytest.mark.parametrize(
    ("machine_type", "interfaces", "said"),
    [
        ("g2-standard-8", [nic("default"), nic("gpu-0")], "takes one interface and 0 further ones"),
        ("a3-highgpu-8g", [nic("default"), nic("rdma-0", "MRDMA")], "4 further ones"),
        ("a3-highgpu-8g", [nic("default"), nic("default")], "must be in networks of their own"),
        ("a3-highgpu-8g", [nic("default"), nic("rdma-0")], "The network profile of rdma"),
        ("a3-highgpu-8g", [nic("nowhere")], "referenced subnetwork resource cannot be found"),
        ("a3-highgpu-8g", [], "takes one interface"),
    ],
)
def test_interfaces_that_a_type_does_not_take_are_refused(
    gce: LocalGce, machine_type: str, interfaces: list[dict[str, str]], said: str
) -> None:
    body = machine(machine_type=machine_type, networkInterfaces=interfaces)
    status, answer = send(gce, "POST", INSTANCES, body)
    assert (status, said in answer["error"]["message"]) == (400, True), answer


def paid(gce: LocalGce, **terms: Any) -> None:
    rule = {"provider": "gcp", "name": "paid", "zone": ZONE, "instance_type": "a3-highgpu-8g", "count": 1}
    gce.world.reserve(ReservationRule.model_validate({**rule, **terms}))


def into(name: str, model: str = "STANDARD") -> dict[str, Any]:
    affinity = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": [name]}
    affinity["key"] = "compute.googleapis.com/reservation-name"
    scheduling = {"onHostMaintenance": "TERMINATE", "provisioningModel": model}
    return machine(reservationAffinity=affinity, scheduling=scheduling)


def refused_with(gce: LocalGce, body: dict[str, Any]) -> str:
    """The message of the operation of an insert that failed."""
    operation = send(gce, "POST", INSTANCES, body)[1]
    gce.advance(5)
    ended = send(gce, "GET", f"{ROOT}/zones/{ZONE}/operations/{operation['name']}")[1]
    text: str = ended["error"]["errors"][0]["message"]
    return text


def test_by_default_an_instance_eats_what_was_reserved_for_anybody(gce: LocalGce) -> None:
    paid(gce, targeted=False)
    send(gce, "POST", INSTANCES, machine())
    (vm,) = gce.vms()
    assert vm.reservation == "paid"
    shown = send(gce, "GET", f"{INSTANCES}/vm")[1]["resourceStatus"]["reservationConsumptionInfo"]
    assert shown["consumedReservation"].endswith(f"zones/{ZONE}/reservations/paid")


def test_a_block_takes_bound_instances_only_and_a_plain_reservation_no_such(gce: LocalGce) -> None:
    paid(gce)
    assert "No available resources" in refused_with(gce, into("paid", "RESERVATION_BOUND"))
    paid(gce, kind="block", ends=3600)
    assert "No available resources" in refused_with(gce, into("paid"))
    assert "do not exist" in refused_with(gce, into("other"))


def test_an_instance_is_bound_to_a_reservation_that_it_names(gce: LocalGce) -> None:
    body = machine(scheduling={"onHostMaintenance": "TERMINATE", "provisioningModel": "RESERVATION_BOUND"})
    assert reason(send(gce, "POST", INSTANCES, body)) == (400, "invalid")


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"instanceProperties": {"scheduling": {"provisioningModel": "STANDARD"}}},
        {"distributionPolicy": {"zones": [{"zone": "zones/us-east4-a"}]}},
        {"instanceFlexibilityPolicy": {"instanceSelections": {"x": {"machineTypes": ["p9"]}}}},
    ],
)
def test_advice_that_makes_no_sense_is_refused(gce: LocalGce, change: dict[str, Any]) -> None:
    body = {
        "size": 1,
        "instanceProperties": {"scheduling": {"provisioningModel": "SPOT"}},
        "instanceFlexibilityPolicy": {"instanceSelections": {"x": {"machineTypes": ["g2-standard-4"]}}},
    }
    assert send(gce, "POST", ADVICE, body)[0] == 200
    assert reason(send(gce, "POST", ADVICE, {**body, **change})) == (400, "invalid")


def preference(**fields: Any) -> dict[str, Any]:
    return {
        "service": "compute.googleapis.com",
        "quotaId": "NVIDIA-L4-GPUS-per-project-region",
        "dimensions": {"region": REGION},
        "quotaConfig": {"preferredValue": "192"},
        "contactEmail": "ops@example.com",
        **fields,
    }


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"contactEmail": ""}, (400, "badRequest")),
        ({"dimensions": {}}, (400, "badRequest")),
        ({"service": "run.googleapis.com"}, (400, "badRequest")),
        ({"quotaId": "NVIDIA-Z9-GPUS-per-project-region"}, (404, "notFound")),
        ({"quotaConfig": {"preferredValue": "8"}}, (400, "failedPrecondition")),
    ],
)
def test_a_preference_that_cannot_be_is_refused(
    gce: LocalGce, change: dict[str, Any], answer: tuple[int, str]
) -> None:
    assert reason(send(gce, "POST", PREFERENCES, preference(**change))) == answer


def test_there_is_one_preference_for_a_limit_and_a_stale_etag_changes_nothing(gce: LocalGce) -> None:
    made = send(gce, "POST", PREFERENCES, preference(), quotaPreferenceId="mine")[1]
    assert reason(send(gce, "POST", PREFERENCES, preference())) == (409, "alreadyExists")
    stale = preference(etag='"old"', quotaConfig={"preferredValue": "256"})
    assert reason(send(gce, "PATCH", f"{PREFERENCES}/mine", stale)) == (409, "aborted")
    assert send(gce, "GET", f"{PREFERENCES}/mine")[1] == made
    fresh = preference(etag=made["etag"], quotaConfig={"preferredValue": "256"})
    assert send(gce, "PATCH", f"{PREFERENCES}/mine", fresh)[1]["quotaConfig"]["preferredValue"] == "256"
