"""Compute Engine's face, driven by the real client: instances and the operations that make them.

Every call and answer is checked against the discovery document (see tests.sandbox.gce).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from google.api_core import exceptions as api
from google.api_core.client_options import ClientOptions
from google.auth.credentials import AnonymousCredentials

from sandbox.quotas import GLOBAL
from sandbox.scenario import CapacityRule, QuotaRule
from tests.sandbox.gce import IMAGE, PROJECT, LocalGce, local_gce

ZONE, REGION = "us-central1-a", "us-central1"


class Gce:
    """The SDK's clients of a local cloud, without retries of their own."""

    def __init__(self, local: LocalGce) -> None:
        from google.cloud.compute_v1.services.instances import InstancesClient
        from google.cloud.compute_v1.services.zone_operations import ZoneOperationsClient

        self.local = local
        options = ClientOptions(api_endpoint=local.url)
        credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
        self._instances = InstancesClient(credentials=credentials, client_options=options)
        self._operations = ZoneOperationsClient(credentials=credentials, client_options=options)

    def close(self) -> None:
        for client in (self._instances, self._operations):
            client.transport.close()  # type: ignore[no-untyped-call]

    def insert(
        self, body: dict[str, Any], request_id: str | None = None, zone: str = ZONE, timeout: float = 5
    ) -> Any:
        from google.cloud.compute_v1 import types

        request = types.InsertInstanceRequest(
            project=PROJECT, zone=zone, request_id=request_id, instance_resource=types.Instance(body)
        )
        return self._instances.insert_unary(request=request, retry=None, timeout=timeout)

    def bulk_insert(self, names: list[str], properties: dict[str, Any], request_id: str | None = None) -> Any:
        from google.cloud.compute_v1 import types

        resource = types.BulkInsertInstanceResource(
            count=len(names),
            min_count=len(names),
            instance_properties=types.InstanceProperties(properties),
            per_instance_properties={name: {} for name in names},
        )
        request = types.BulkInsertInstanceRequest(
            project=PROJECT, zone=ZONE, request_id=request_id, bulk_insert_instance_resource_resource=resource
        )
        return self._instances.bulk_insert_unary(request=request, retry=None, timeout=5)

    def get(self, name: str, zone: str = ZONE) -> Any:
        return self._instances.get(project=PROJECT, zone=zone, instance=name, retry=None, timeout=5)

    def delete(self, name: str, zone: str = ZONE) -> Any:
        return self._instances.delete_unary(project=PROJECT, zone=zone, instance=name, retry=None, timeout=5)

    def names(self, **query: Any) -> list[str]:
        request = {"project": PROJECT, "zone": ZONE, **query}
        return [i.name for i in self._instances.list(request=request, retry=None, timeout=5)]

    def aggregated(self, **query: Any) -> Any:
        request = {"project": PROJECT, **query}
        return self._instances.aggregated_list(request=request, retry=None, timeout=5)

    def operation(self, name: str) -> Any:
        return self._operations.get(project=PROJECT, zone=ZONE, operation=name, retry=None, timeout=5)

    def operations(self, **query: Any) -> list[Any]:
        request = {"project": PROJECT, "zone": ZONE, **query}
        return list(self._operations.list(request=request, retry=None, timeout=5))

    def finished(self, operation: Any) -> Any:
        """The operation once the cloud has had time for it."""
        self.local.advance(5)
        return self.operation(operation.name)


@pytest.fixture
def gce() -> Iterator[Gce]:
    with local_gce({"gcp": {"verdict_seconds": 2, "boot_seconds": 20, "terminate_seconds": 5}}) as local:
        made = Gce(local)
        yield made
        made.close()


def body(name: str = "vm-1", machine_type: str = "g2-standard-4", *, spot: bool = True) -> dict[str, Any]:
    """An instance as the SDK spells it."""
    scheduling: dict[str, Any] = {"on_host_maintenance": "TERMINATE", "automatic_restart": False}
    if spot:
        scheduling |= {"provisioning_model": "SPOT", "instance_termination_action": "DELETE"}
    return {
        "name": name,
        "machine_type": f"zones/{ZONE}/machineTypes/{machine_type}",
        "labels": {"fleet": "f1"},
        "scheduling": scheduling,
        "disks": [
            {"boot": True, "auto_delete": True, "initialize_params": {"source_image": IMAGE}},
        ],
        "network_interfaces": [{"network": "global/networks/default"}],
        "metadata": {"items": [{"key": "user-data", "value": "#cloud-config\n"}]},
    }


def properties(machine_type: str = "g2-standard-4") -> dict[str, Any]:
    """The same for a bulk insert, which takes bare names."""
    bare = body()
    del bare["name"]
    return bare | {"machine_type": machine_type}


def exhaust(gce: Gce, left: int = 0) -> None:
    rule = {"provider": "gcp", "zone": ZONE, "instance_type": "g2-standard-4", "count": left}
    gce.local.world.set_capacity(CapacityRule.model_validate(rule))


# The life of an instance


def test_an_insert_is_accepted_at_once_and_decided_later(gce: Gce) -> None:
    operation = gce.insert(body())
    assert operation.operation_type == "insert"
    assert operation.status.name == "RUNNING"
    assert gce.finished(operation).status.name == "DONE"


def test_an_instance_goes_through_its_states(gce: Gce) -> None:
    gce.insert(body())
    seen = []
    for _ in range(6):
        seen.append(gce.get("vm-1").status)
        gce.local.advance(5)
    assert list(dict.fromkeys(seen)) == ["PROVISIONING", "STAGING", "RUNNING"]


def test_an_instance_shows_what_was_asked_for(gce: Gce) -> None:
    operation = gce.insert(body())
    seen = gce.get("vm-1")
    assert seen.id == operation.target_id
    assert seen.machine_type.endswith(f"/zones/{ZONE}/machineTypes/g2-standard-4")
    assert seen.zone.endswith(f"/zones/{ZONE}")
    assert dict(seen.labels) == {"fleet": "f1"}
    assert seen.scheduling.provisioning_model == "SPOT"
    assert [(item.key, item.value) for item in seen.metadata.items] == [("user-data", "#cloud-config\n")]
    assert seen.network_interfaces[0].network_i_p.startswith("127.20.")
    assert not seen.network_interfaces[0].access_configs


def test_an_external_address_is_given_where_it_is_asked_for(gce: Gce) -> None:
    access = [{"type_": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    interfaces = [{"network": "global/networks/default", "access_configs": access}]
    gce.insert(body() | {"network_interfaces": interfaces})
    assert gce.get("vm-1").network_interfaces[0].access_configs[0].nat_i_p


def test_a_deleted_instance_stops_and_is_gone(gce: Gce) -> None:
    gce.insert(body())
    gce.local.advance(30)
    operation = gce.delete("vm-1")
    assert gce.get("vm-1").status == "STOPPING"
    assert gce.operation(operation.name).status.name == "RUNNING"
    gce.local.advance(10)
    with pytest.raises(api.NotFound):
        gce.get("vm-1")
    assert gce.operation(operation.name).status.name == "DONE"
    objects = gce.local.world.ledger()["objects"]
    assert {kind: counts["live"] for kind, counts in objects.items() if counts["made"]} == {
        "instance": 0,
        "disk": 0,
    }


def test_a_disk_that_is_not_deleted_with_its_instance_stays(gce: Gce) -> None:
    disk = {"boot": True, "auto_delete": False, "initialize_params": {"source_image": IMAGE}}
    gce.insert(body() | {"disks": [disk]})
    gce.delete("vm-1")
    gce.local.advance(10)
    assert gce.local.world.ledger()["objects"]["disk"]["live"] == 1


def test_a_deletion_while_it_is_created_ends_the_insert_in_a_conflict(gce: Gce) -> None:
    operation = gce.insert(body())
    gce.delete("vm-1")
    ended = gce.finished(operation)
    assert (ended.status.name, ended.http_error_status_code) == ("DONE", 409)


def test_a_name_is_free_again_once_its_instance_is_gone(gce: Gce) -> None:
    first = gce.insert(body())
    gce.delete("vm-1")
    gce.local.advance(10)
    assert gce.insert(body()).target_id != first.target_id


def test_an_instance_that_powers_off_is_terminated_but_there(gce: Gce) -> None:
    gce.insert(body())
    gce.local.advance(30)
    gce.local.machines.off.extend(gce.local.vms())
    gce.local.advance(1)
    seen = gce.get("vm-1")
    assert seen.status == "TERMINATED"
    assert seen.last_stop_timestamp
    assert "compute.instances.guestTerminate" in {op.operation_type for op in gce.operations()}


# Idempotence


def test_the_same_request_id_is_answered_by_the_same_operation(gce: Gce) -> None:
    request_id = str(uuid.uuid4())
    first = gce.insert(body(), request_id)
    gce.local.advance(60)
    again = gce.insert(body(), request_id)
    assert again.name == first.name
    assert again.client_operation_id == request_id
    assert len(gce.local.vms()) == 1


def test_a_request_id_is_forgotten_after_an_hour(gce: Gce) -> None:
    request_id = str(uuid.uuid4())
    gce.insert(body(), request_id)
    gce.local.advance(3700)
    with pytest.raises(api.Conflict):
        gce.insert(body(), request_id)


def test_a_failure_is_replayed_too(gce: Gce) -> None:
    request_id = str(uuid.uuid4())
    exhaust(gce)
    first = gce.finished(gce.insert(body(), request_id))
    exhaust(gce, left=5)
    assert gce.insert(body(), request_id).name == first.name
    assert gce.local.vms() == []


@pytest.mark.parametrize("request_id", ["not-a-uuid", str(uuid.UUID(int=0))])
def test_a_request_id_must_be_a_uuid(gce: Gce, request_id: str) -> None:
    with pytest.raises(api.BadRequest):
        gce.insert(body(), request_id)


def test_a_second_instance_of_a_name_is_refused(gce: Gce) -> None:
    gce.insert(body())
    with pytest.raises(api.Conflict) as caught:
        gce.insert(body())
    assert caught.value.errors[0]["reason"] == "alreadyExists"


def test_names_are_unique_in_a_zone_only(gce: Gce) -> None:
    gce.insert(body())
    other = body() | {"machine_type": "zones/us-central1-b/machineTypes/g2-standard-4"}
    gce.insert(other, zone="us-central1-b")
    assert len(gce.local.vms()) == 2


# Refusals


def test_a_stock_out_comes_through_the_operation_with_details(gce: Gce) -> None:
    exhaust(gce)
    ended = gce.finished(gce.insert(body()))
    assert (ended.http_error_status_code, ended.http_error_message) == (503, "SERVICE UNAVAILABLE")
    error = ended.error.errors[0]
    assert error.code == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    info = next(detail.error_info for detail in error.error_details if "error_info" in detail)
    assert info.reason == "resource_availability"
    assert info.metadatas["vmType"] == "g2-standard-4"
    assert info.metadatas["zonesAvailable"] == "us-central1-b,us-central1-c"
    with pytest.raises(api.NotFound):
        gce.get("vm-1")


@pytest.mark.parametrize(
    ("name", "region", "text", "dimensions"),
    [
        (
            "PREEMPTIBLE_NVIDIA_L4_GPUS",
            REGION,
            "Quota 'PREEMPTIBLE_NVIDIA_L4_GPUS' exceeded.  Limit: 0.5 in region us-central1.",
            {"region": REGION},
        ),
        (
            "GPUS_ALL_REGIONS",
            GLOBAL,
            "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.5 globally.",
            {"global": "global"},
        ),
    ],
)
def test_a_quota_refusal_names_metric_limit_and_place(
    gce: Gce, name: str, region: str, text: str, dimensions: dict[str, str]
) -> None:
    gce.local.world.set_quota(QuotaRule(provider="gcp", region=region, name=name, limit=0.5))
    error = gce.finished(gce.insert(body())).error.errors[0]
    assert (error.code, error.message) == ("QUOTA_EXCEEDED", text)
    info = error.error_details[0].quota_info
    assert info.limit == 0.5
    assert dict(info.dimensions) == dimensions
    assert info.metric_name == f"compute.googleapis.com/{name.lower()}"


def test_newer_gpus_are_counted_by_family(gce: Gce) -> None:
    name = "GPUS_PER_GPU_FAMILY/NVIDIA_H100"
    gce.local.world.set_quota(QuotaRule(provider="gcp", region=REGION, name=name, limit=4))
    error = gce.finished(gce.insert(body("vm-1", "a3-highgpu-8g", spot=False))).error.errors[0]
    assert error.message == "Quota 'GPUS_PER_GPU_FAMILY' exceeded.  Limit: 4.0 in region us-central1."
    assert dict(error.error_details[0].quota_info.dimensions) == {
        "region": REGION,
        "gpu_family": "NVIDIA_H100",
    }


def bad(path: str, value: Any) -> dict[str, Any]:
    """The body with one value changed; `path` in dots."""
    changed: Any = body()
    node = changed
    *parents, last = path.split(".")
    for part in parents:
        node = node[int(part)] if part.isdigit() else node[part]
    node[last] = value
    return dict(changed)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (bad("name", "Upper"), "resource.name"),
        (bad("machine_type", f"zones/{ZONE}/machineTypes/a4-highgpu-8g"), "does not exist in zone"),
        (bad("machine_type", "g2-standard-4"), "resource.machineType"),
        (bad("labels", {"Fleet": "x"}), "resource.labels"),
        (bad("labels", {"fleet": "a b"}), "resource.labels"),
        (bad("scheduling.on_host_maintenance", "MIGRATE"), "live migration"),
        (bad("scheduling.automatic_restart", True), "restarted automatically"),
        (bad("disks", []), "Exactly one boot disk"),
        (bad("disks.0.initialize_params.source_image", "nothing"), "image resource cannot be found"),
        (bad("network_interfaces.0.network", "global/networks/nothing"), "network resource cannot be found"),
        (
            bad("network_interfaces.0.subnetwork", "regions/us-east4/subnetworks/default"),
            "subnetwork resource cannot be found",
        ),
        (bad("metadata", {"items": [{"key": "user-data", "value": "x" * 262_145}]}), "too large"),
    ],
)
def test_a_body_that_the_api_would_refuse_is_refused_at_once(
    gce: Gce, changed: dict[str, Any], text: str
) -> None:
    with pytest.raises(api.BadRequest, match=text):
        gce.insert(changed)
    assert gce.local.vms() == []
    assert gce.operations() == []


def test_what_is_not_sold_on_demand_cannot_be_had_so(gce: Gce) -> None:
    with pytest.raises(api.BadRequest):
        gce.insert(body("vm-1", "a3-highgpu-1g", spot=False))


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"labels": 5}'])
def test_a_body_that_is_no_instance_at_all_is_refused(raw: bytes) -> None:
    """Sent past the SDK, and past the check of requests: it is the face that has to withstand it."""
    with local_gce() as local:
        url = f"{local.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"
        assert httpx.post(url, content=raw).status_code == 400
        local.discovery.violations.clear()


def test_an_unknown_parameter_is_refused(gce: Gce) -> None:
    answer = httpx.get(f"{gce.local.url}/compute/v1/projects/{PROJECT}/zones?colour=red")
    assert answer.status_code == 400
    assert gce.local.discovery.violations == ["compute.zones.list: query colour"]
    gce.local.discovery.violations.clear()


@pytest.mark.parametrize("path", ["", "/compute/v1/projects/p/zones/z/disks", "/nothing"])
def test_what_is_not_served_is_not_found(gce: Gce, path: str) -> None:
    assert httpx.get(gce.local.url + path).status_code == 404
    gce.local.discovery.violations.clear()


# Bulk inserts


def test_a_bulk_insert_makes_all_by_their_names(gce: Gce) -> None:
    names = ["gang-0", "gang-1", "gang-2"]
    parent = gce.finished(gce.bulk_insert(names, properties()))
    assert sorted(gce.names()) == names
    assert parent.operation_type == "bulkInsert"
    progress = parent.instances_bulk_insert_operation_metadata.per_location_status[f"zones/{ZONE}"]
    assert (progress.target_vm_count, progress.created_vm_count) == (3, 3)


def test_a_bulk_insert_short_of_one_makes_none_and_its_children_say_why(gce: Gce) -> None:
    exhaust(gce, left=2)
    parent = gce.finished(gce.bulk_insert(["gang-0", "gang-1", "gang-2"], properties()))
    assert [error.code for error in parent.error.errors] == ["VM_MIN_COUNT_NOT_REACHED"]
    children = [
        op for op in gce.operations() if op.operation_group_id == parent.name and op.name != parent.name
    ]
    assert {op.operation_type for op in children} == {"insert"}
    assert {error.code for op in children for error in op.error.errors} == {
        "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    }
    assert gce.names() == []


def test_a_bulk_insert_is_idempotent_on_its_request_id(gce: Gce) -> None:
    request_id = str(uuid.uuid4())
    first = gce.bulk_insert(["gang-0", "gang-1"], properties(), request_id)
    assert gce.bulk_insert(["gang-0", "gang-1"], properties(), request_id).name == first.name
    assert len(gce.local.vms()) == 2


def test_a_bulk_insert_whose_name_is_taken_makes_none(gce: Gce) -> None:
    gce.insert(body("gang-1"))
    gce.finished(gce.bulk_insert(["gang-0", "gang-1"], properties()))
    codes = {error.code for op in gce.operations() for error in op.error.errors}
    assert "RESOURCE_ALREADY_EXISTS" in codes
    assert gce.names() == ["gang-1"]


def test_a_bulk_insert_takes_bare_names_only(gce: Gce) -> None:
    with pytest.raises(api.InternalServerError):
        gce.bulk_insert(["gang-0"], properties(f"zones/{ZONE}/machineTypes/g2-standard-4"))


# Lists


def test_a_list_is_filtered_and_paged(gce: Gce) -> None:
    for number in range(5):
        gce.insert(body(f"vm-{number}") | {"labels": {"fleet": "even" if number % 2 == 0 else "odd"}})
    assert gce.names(filter='labels.fleet="even"', max_results=2) == ["vm-0", "vm-2", "vm-4"]
    assert gce.names(filter='name eq "vm-(1|3)"') == ["vm-1", "vm-3"]
    assert gce.names(filter='labels.fleet="odd" AND name:vm-3') == ["vm-3"]
    assert gce.names(filter='labels.fleet="odd" OR name="vm-0"', max_results=1) == ["vm-0", "vm-1", "vm-3"]
    assert gce.names(filter="labels.fleet:* AND NOT (name=vm-1)", max_results=500) == [
        "vm-0",
        "vm-2",
        "vm-3",
        "vm-4",
    ]
    assert gce.names(filter="labels.nothing:*") == []


@pytest.mark.parametrize("text", ["labels.fleet=", "(name=x", "name eq '['", "name & x", "= x", "name"])
def test_a_filter_that_cannot_be_read_is_refused(gce: Gce, text: str) -> None:
    with pytest.raises(api.BadRequest):
        gce.names(filter=text)


def test_an_aggregated_list_names_every_zone_with_or_without_results(gce: Gce) -> None:
    gce.insert(body())
    scopes = dict(gce.aggregated(filter="labels.fleet=f1"))
    assert [i.name for i in scopes[f"zones/{ZONE}"].instances] == ["vm-1"]
    assert scopes["zones/us-central1-b"].warning.code == "NO_RESULTS_ON_PAGE"


def test_an_aggregated_list_is_paged_across_zones(gce: Gce) -> None:
    for zone in ("us-central1-a", "us-central1-b", "us-central1-c"):
        machine_type = f"zones/{zone}/machineTypes/g2-standard-4"
        gce.insert(body() | {"machine_type": machine_type}, zone=zone)
    pages = list(gce.aggregated(max_results=2).pages)
    counts = [sum(len(scope.instances) for scope in page.items.values()) for page in pages]
    assert counts == [2, 1]


def test_another_projects_instances_are_not_shown(gce: Gce) -> None:
    gce.insert(body())
    url = f"{gce.local.url}/compute/v1/projects/other/zones/{ZONE}/instances"
    assert httpx.get(url).json()["items"] == []
    assert httpx.get(f"{url}/vm-1").status_code == 404


def test_reads_lag_behind_but_the_operation_knows(gce: Gce) -> None:
    with local_gce({"gcp": {"list_lag_seconds": 30, "verdict_seconds": 1}}) as local:
        lagging = Gce(local)
        operation = lagging.insert(body())
        assert lagging.finished(operation).status.name == "DONE"
        assert lagging.names() == []
        local.advance(30)
        assert lagging.names() == ["vm-1"]
        lagging.close()


# What the cloud does by itself


def test_a_preempted_instance_leaves_a_system_operation(gce: Gce) -> None:
    operation = gce.insert(body())
    gce.local.advance(30)
    gce.local.world.preempt(gce.local.vms()[0])
    assert gce.get("vm-1").status == "RUNNING"
    gce.local.advance(60)
    with pytest.raises(api.NotFound):
        gce.get("vm-1")
    events = gce.operations(
        filter='operationType="compute.instances.preempted"', order_by="creationTimestamp desc"
    )
    assert [(op.target_id, op.user, op.status.name) for op in events] == [
        (operation.target_id, "system", "DONE")
    ]
    assert events[0].name.startswith("systemevent-")


def test_spot_that_is_to_be_stopped_is_stopped_and_keeps_its_disk(gce: Gce) -> None:
    stopping = bad("scheduling.instance_termination_action", "STOP")
    gce.insert(stopping)
    gce.local.advance(30)
    gce.local.world.preempt(gce.local.vms()[0])
    gce.local.advance(60)
    assert gce.get("vm-1").status == "TERMINATED"


def test_a_deleted_instance_has_no_system_operation(gce: Gce) -> None:
    gce.insert(body())
    gce.delete("vm-1")
    gce.local.advance(10)
    newest_first = gce.operations(order_by="creationTimestamp desc")
    assert {op.operation_type for op in newest_first} == {"insert", "delete"}


def test_an_instance_is_deleted_after_its_run_duration(gce: Gce) -> None:
    gce.insert(bad("scheduling.max_run_duration", {"seconds": 600}))
    gce.local.advance(700)
    assert gce.names() == []
    deletes = [op for op in gce.operations() if op.operation_type == "delete"]
    assert [op.user for op in deletes] == ["system"]


# Faults


def test_a_dropped_reply_has_had_its_effect(gce: Gce) -> None:
    import requests

    gce.local.fault("instances.insert", "drop_reply")
    with pytest.raises(requests.exceptions.ConnectionError):
        gce.insert(body())
    assert gce.names() == ["vm-1"]


def test_a_call_that_hangs_has_had_its_effect(gce: Gce) -> None:
    import requests

    gce.local.fault("instances.insert", "hang")
    with pytest.raises(requests.exceptions.ReadTimeout):
        gce.insert(body(), timeout=0.2)
    assert gce.names() == ["vm-1"]


def test_throttling_is_a_403_with_its_own_reason(gce: Gce) -> None:
    gce.local.fault("instances.get", "throttle", retry_after=3)
    with pytest.raises(api.Forbidden) as caught:
        gce.get("vm-1")
    assert caught.value.errors[0]["reason"] == "rateLimitExceeded"
    assert caught.value.response.headers["Retry-After"] == "3"


def test_an_error_without_a_code_is_a_page_of_html(gce: Gce) -> None:
    gce.local.fault("instances.get", "error", http_status=502)
    with pytest.raises(api.BadGateway) as caught:
        gce.get("vm-1")
    assert caught.value.errors == []


def test_a_scripted_operation_error_ends_the_operation_with_it(gce: Gce) -> None:
    gce.local.fault("instances.insert", "error", code="RESOURCE_NOT_FOUND", http_status=404)
    ended = gce.finished(gce.insert(body()))
    assert [error.code for error in ended.error.errors] == ["RESOURCE_NOT_FOUND"]
    assert ended.http_error_status_code == 404


def test_a_scripted_operation_error_can_come_without_an_http_status(gce: Gce) -> None:
    gce.local.fault("instances.insert", "error", code="STOCKOUT", http_status=200)
    ended = gce.finished(gce.insert(body()))
    assert ended.error.errors[0].code == "STOCKOUT"
    assert "http_error_status_code" not in ended


def test_an_operation_can_hang_for_ever_or_be_forgotten(gce: Gce) -> None:
    gce.local.fault("instances.insert", "stuck")
    operation = gce.insert(body())
    gce.local.advance(5000)
    assert gce.operation(operation.name).status.name == "RUNNING"
    gce.local.fault("zoneOperations.get", "lost")
    with pytest.raises(api.NotFound):
        gce.operation(operation.name)


def test_a_status_can_be_one_that_nobody_knows(gce: Gce) -> None:
    gce.insert(body())
    gce.local.fault("instances.get", "state", value="REPAIRING")
    assert gce.get("vm-1").status == "REPAIRING"


def test_an_unreachable_zone_is_named_and_left_out(gce: Gce) -> None:
    gce.insert(body())
    gce.local.fault("instances.aggregatedList", "unreachable", value=ZONE)
    pager = gce.aggregated()
    assert [place.rpartition("/")[2] for place in pager.unreachables] == [ZONE]
    scopes = dict(pager)
    assert scopes[f"zones/{ZONE}"].warning.code == "UNREACHABLE"
    assert not scopes[f"zones/{ZONE}"].instances


def test_a_page_can_be_empty_and_not_the_last(gce: Gce) -> None:
    gce.insert(body())
    gce.local.fault("instances.list", "empty_page")
    assert gce.names() == ["vm-1"]
    assert gce.local.calls()["instances.list"] == 2
