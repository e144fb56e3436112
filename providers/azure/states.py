"""A virtual machine's JSON, with its instance view, as a CloudInstance. Pure.

Source: Azure documentation, "States and billing status of Azure Virtual Machines". Power comes before
provisioning: a machine whose last update failed may well be running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from providers.azure.errors import Attempt, from_body
from providers.azure.vm import NODE_TAG, reservation_of, zone_key
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, CloudInstance, InstanceState

_POWER = {
    "creating": InstanceState.PENDING,
    "starting": InstanceState.PENDING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.STOPPING,
    "stopped": InstanceState.STOPPED,
    "deallocating": InstanceState.STOPPING,
    "deallocated": InstanceState.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Status:
    """`provisioning` is the last operation's result, `power` None where the answer does not say; `code`
    and `message` are those of a failure.
    """

    provisioning: str
    power: str | None
    code: str = ""
    message: str = ""


def read_status(vm: Mapping[str, Any]) -> Status:
    """The parts of `ProvisioningState/failed/AllocationFailed` and `PowerState/running`."""
    properties = vm.get("properties") or {}
    provisioning, power, code, message = str(properties.get("provisioningState") or ""), None, "", ""
    for item in (properties.get("instanceView") or {}).get("statuses") or ():
        parts = str(item.get("code") or "").split("/")
        if len(parts) >= 2 and parts[0].lower() == "powerstate":
            power = parts[1].lower()
        if len(parts) >= 2 and parts[0].lower() == "provisioningstate":
            provisioning = provisioning or parts[1]
            if len(parts) == 3:
                code = parts[2]
            message = str(item.get("message") or "")
    return Status(provisioning.lower(), power, code, message)


def state_of(status: Status, *, refused: bool) -> InstanceState:
    """refused: the create failed, so that no word of power means that nothing runs."""
    if status.provisioning == "deleting":
        return InstanceState.STOPPING
    if status.power is not None:
        return _POWER.get(status.power, InstanceState.UNKNOWN)
    if status.provisioning in {"creating", "updating"}:
        return InstanceState.PENDING
    if refused:
        # The resource is there all the same, keeps its name and must be deleted.
        return InstanceState.STOPPED
    return InstanceState.UNKNOWN


def failure(status: Status, attempt: Attempt) -> ProviderError | None:
    """What a synchronous refusal would have raised, if the create failed.

    None for a machine that has power: its last operation may have been another one, or its guest is slow.
    None too where the fault is Azure's passing own and power is not told: it may be running.
    """
    if status.provisioning != "failed" or status.power not in {None, "deallocated"}:
        return None
    body = {"code": status.code or "ProvisioningFailed", "message": status.message}
    error = from_body(None, body, attempt)
    return None if error.kind in {ErrorKind.TRANSIENT, ErrorKind.CONFLICT} else error


def attempt_of(account: str, vm: Mapping[str, Any], region: str) -> Attempt:
    """What had been asked for, as the machine still shows it."""
    properties = vm.get("properties") or {}
    reference = (properties.get("storageProfile") or {}).get("imageReference") or {}
    return Attempt(
        account,
        region,
        zone_key(region, vm.get("zones")),
        (properties.get("hardwareProfile") or {}).get("vmSize"),
        capacity_type(vm),
        image=_image(reference),
        reservation=reservation_of(vm),
        placement_group=str((properties.get("availabilitySet") or {}).get("id") or "").rpartition("/")[2]
        or None,
    )


def _last(path: Any) -> str | None:
    return str(path or "").rpartition("/")[2] or None


def _image(reference: Mapping[str, Any]) -> str | None:
    if reference.get("id"):
        return str(reference["id"])
    names = [str(reference.get(part) or "") for part in ("publisher", "offer", "sku", "version")]
    return ":".join(names) if all(names) else None


def capacity_type(vm: Mapping[str, Any]) -> CapacityType:
    """Spot, or what Azure calls Regular: reserved if it names a reservation, else on-demand."""
    spot = str((vm.get("properties") or {}).get("priority") or "").lower() in {"spot", "low"}
    if spot:
        return CapacityType.SPOT
    return CapacityType.RESERVED if reservation_of(vm) else CapacityType.ON_DEMAND


def instance(vm: Mapping[str, Any], region: str, state: InstanceState, **more: Any) -> CloudInstance:
    """What the JSON says, and what the caller found out beside it."""
    tags = {str(key): str(value) for key, value in (vm.get("tags") or {}).items()}
    properties = vm.get("properties") or {}
    name = str(vm.get("name") or "")
    return CloudInstance(
        provider_id=name,
        region=region,
        zone=zone_key(region, vm.get("zones")),
        state=state,
        name=name,
        node=_node(tags, name),
        tags=tags,
        instance_type=str((properties.get("hardwareProfile") or {}).get("vmSize") or ""),
        capacity_type=capacity_type(vm),
        created_at=_time(properties.get("timeCreated")),
        **more,
    )


def _node(tags: Mapping[str, str], name: str) -> int | None:
    text = tags.get(NODE_TAG, "")
    return int(text) if text.isdecimal() else node_of_name(name)


def node_of_name(name: str) -> int | None:
    """The rank at the end of a name of ours."""
    text = name.rpartition("-")[2]
    return int(text) if text.isdecimal() else None


def _time(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
