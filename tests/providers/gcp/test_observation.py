"""How an instance and the operations on it are read together, where the local cloud cannot play it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.gcp.observation import Handle, launch_of, node_of, observed, shown
from providers.gcp.sdk import load_slim
from providers.vocabulary import CapacityType, EndReason, InstanceRef, InstanceState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAME = "corral-0123456789abcdef0123-0"
REF = InstanceRef("us-central1", "us-central1-a", NAME, "operation-1:g2-standard-4", CapacityType.SPOT)
PLACE = "https://www.googleapis.com/compute/v1/projects/p/zones/us-central1-a"


def instance(status: str = "RUNNING", **fields: Any) -> Any:
    load_slim()
    from google.cloud.compute_v1.types import Instance

    shape = {
        "id": 7,
        "name": NAME,
        "zone": PLACE,
        "status": status,
        "machine_type": f"{PLACE}/machineTypes/g2",
    }
    return Instance(shape | {"scheduling": {"provisioning_model": "SPOT"}} | fields)


def operation(kind: str, **fields: Any) -> Any:
    load_slim()
    from google.cloud.compute_v1.types import Operation

    shape = {
        "name": f"op-{kind}",
        "operation_type": kind,
        "target_link": f"{PLACE}/instances/{NAME}",
        "target_id": 7,
    }
    return Operation(shape | {"status": "DONE"} | fields)


def seen(message: Any | None, *operations: Any, create: Any | None = None) -> Any:
    return observed(REF, message, list(operations), create, "lab", NOW)


def test_a_preemption_before_the_last_start_is_history() -> None:
    preempted = operation("compute.instances.preempted", insert_time="2026-03-01T10:00:00Z")
    again = instance(last_start_timestamp="2026-03-01T11:00:00.000-00:00")
    assert seen(again, preempted).state is InstanceState.RUNNING
    before = instance(last_start_timestamp="2026-03-01T09:00:00Z")
    assert seen(before, preempted).end_reason is EndReason.PREEMPTED


def test_a_preemption_of_an_earlier_instance_of_the_name_is_not_this_ones() -> None:
    other = operation("compute.instances.preempted", target_id=8)
    assert seen(instance(), other).state is InstanceState.RUNNING
    created = operation("insert")
    assert seen(None, other, created, create=created).state is InstanceState.ABSENT


def test_an_end_that_failed_is_none() -> None:
    broken = operation("delete", http_error_status_code=400, http_error_message="BAD REQUEST")
    assert seen(None, broken).state is InstanceState.ABSENT


def test_an_instance_that_runs_though_its_operation_failed_runs() -> None:
    """SkyPilot's issue 1797: RESOURCE_NOT_FOUND, and the machine was alive."""
    failure = operation("insert", http_error_status_code=404, http_error_message="NOT FOUND")
    found = seen(instance(), failure, create=failure)
    assert (found.state, found.error) == (InstanceState.RUNNING, None)


def test_an_instance_that_stops_before_it_ever_ran_was_refused() -> None:
    """dstack's issue 1386: a stock-out after the insert was accepted."""
    failure = operation("insert", http_error_status_code=503, http_error_message="SERVICE UNAVAILABLE")
    found = seen(instance("STOPPING"), failure, create=failure)
    assert isinstance(found.error, ProviderError)
    assert found.error.kind is ErrorKind.CAPACITY
    assert (found.state, found.end_reason) == (InstanceState.STOPPING, EndReason.CAPACITY)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("compute.instances.preempted", EndReason.PREEMPTED),
        ("compute.instances.hostError", EndReason.HOST_FAILURE),
        ("compute.instances.terminateOnHostMaintenance", EndReason.HOST_FAILURE),
        ("compute.instances.deferredStop", EndReason.MAX_AGE),
        ("compute.instances.guestTerminate", EndReason.USER),
        ("stop", EndReason.USER),
        ("compute.instances.migrateOnHostMaintenance", EndReason.UNKNOWN),
    ],
)
def test_system_operations_say_why_an_instance_stands_still(kind: str, reason: EndReason) -> None:
    found = seen(instance("TERMINATED"), operation(kind))
    assert (found.state, found.end_reason) == (InstanceState.STOPPED, reason)


def test_an_operation_that_is_not_done_means_patience() -> None:
    running = operation("insert", status="RUNNING")
    assert seen(None, running).state is InstanceState.PENDING
    unheard_of = operation("insert", status="UNDEFINED_STATUS")
    assert seen(None, unheard_of).state is InstanceState.PENDING


def test_an_instance_with_next_to_nothing_filled_in_is_shown() -> None:
    load_slim()
    from google.cloud.compute_v1.types import Instance

    found = shown(Instance(name="x"))
    assert (found.state, found.created_at, found.private_ip) == (InstanceState.UNKNOWN, None, None)


def test_names_tell_launch_and_node() -> None:
    assert (launch_of(NAME), node_of(NAME)) == ("corral-0123456789abcdef0123", 0)
    assert (launch_of("corral-x-12"), node_of("corral-x-12")) == ("corral-x", 12)
    assert (launch_of("somebody"), node_of("somebody")) == ("somebody", None)


def test_handles_are_read_as_they_were_written() -> None:
    handle = Handle("operation-1", "n1-standard-4+nvidia-tesla-t4x1")
    assert Handle.parse(str(handle)) == handle
    assert Handle.parse("operation-1") == Handle("operation-1")
