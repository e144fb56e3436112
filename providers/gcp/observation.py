"""What an Instance message and the operations on it say together. Pure; the messages are read elsewhere.

Statuses: the `status` enum of Instance in the Compute Engine API. System operations: Compute Engine,
"System event audit logs" and `operationType` of zone operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp.errors import Where, done, failed, of_operation
from providers.gcp.machine_types import Shape, family_of, region_of
from providers.vocabulary import (
    CapacityType,
    CloudInstance,
    EndReason,
    InstanceRef,
    InstanceState,
)

STATES: dict[str, InstanceState] = {
    "PENDING": InstanceState.PENDING,
    "PROVISIONING": InstanceState.PENDING,
    "STAGING": InstanceState.PENDING,
    "RUNNING": InstanceState.RUNNING,
    "PENDING_STOP": InstanceState.STOPPING,
    "STOPPING": InstanceState.STOPPING,
    "SUSPENDING": InstanceState.STOPPING,
    "DEPROVISIONING": InstanceState.STOPPING,
    "STOPPED": InstanceState.STOPPED,
    "TERMINATED": InstanceState.STOPPED,
    "SUSPENDED": InstanceState.STOPPED,
}

# operationType of what ends or stops an instance -> why.
ENDS: dict[str, EndReason] = {
    "compute.instances.preempted": EndReason.PREEMPTED,
    "compute.instances.hostError": EndReason.HOST_FAILURE,
    "compute.instances.terminateOnHostMaintenance": EndReason.HOST_FAILURE,
    "compute.instances.deferredStop": EndReason.MAX_AGE,
    "compute.instances.deferredDelete": EndReason.MAX_AGE,
    "compute.instances.guestTerminate": EndReason.USER,
    "delete": EndReason.USER,
    "stop": EndReason.USER,
}

# Which reason counts when several operations ended an instance: ours may delete what was preempted before.
_WEIGHT = (
    EndReason.PREEMPTED,
    EndReason.HOST_FAILURE,
    EndReason.MAX_AGE,
    EndReason.USER,
)

_NAME = re.compile(r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
_LABEL_KEY = re.compile(r"^[a-z][a-z0-9_-]{0,62}$")
_LABEL_VALUE = re.compile(r"^[a-z0-9_-]{0,63}$")
_NODE = re.compile(r"^(?P<launch>.+)-(?P<node>\d+)$")
_CREATES = ("insert", "bulkInsert")


@dataclass(frozen=True, slots=True)
class Handle:
    """`Launched.operation`: an operation's name and, after colons, the instance type and the reservation that
    it is about.
    """

    operation: str
    instance_type: str | None = None
    reservation: str | None = None

    @classmethod
    def parse(cls, text: str) -> Handle:
        operation, instance_type, reservation = (*text.split(":", 2), "", "")[:3]
        return cls(operation, instance_type or None, reservation or None)

    def __str__(self) -> str:
        parts = (self.operation, self.instance_type or "", self.reservation or "")
        return ":".join(parts).rstrip(":")


def valid_name(name: str) -> bool:
    """Whether anything of Compute Engine can have that name (RFC 1035)."""
    return _NAME.match(name) is not None


def valid_label(key: str, value: str) -> bool:
    """Whether a label can be so (Compute Engine: "Requirements for labels")."""
    return _LABEL_KEY.match(key) is not None and _LABEL_VALUE.match(value) is not None


def launch_of(name: str) -> str:
    """What the names of one launch have in common: the name without the node's number."""
    match = _NODE.match(name)
    return match["launch"] if match else name


def node_of(name: str) -> int | None:
    match = _NODE.match(name)
    return int(match["node"]) if match else None


def tail(url: str) -> str:
    return url.rsplit("/", 1)[-1]


def shown(instance: Any) -> CloudInstance:
    """An Instance message by itself."""
    zone = tail(instance.zone)
    interface = instance.network_interfaces[0] if instance.network_interfaces else None
    access = interface.access_configs[0] if interface and interface.access_configs else None
    status = instance.status
    return CloudInstance(
        provider_id=instance.name,
        region=region_of(zone),
        zone=zone,
        state=STATES.get(status, InstanceState.UNKNOWN),
        name=instance.name,
        node=node_of(instance.name),
        tags=dict(instance.labels),
        instance_type=_instance_type(instance),
        capacity_type=_capacity_type(instance),
        created_at=time_of(instance.creation_timestamp),
        private_ip=(interface.network_i_p or None) if interface else None,
        public_ip=(access.nat_i_p or None) if access else None,
        detail=f"{status}: {instance.status_message}" if instance.status_message else status,
    )


def _instance_type(instance: Any) -> str:
    machine_type = tail(instance.machine_type)
    attached = instance.guest_accelerators
    # Machine types with a GPU of their own list it here too; only N1 takes one that is attached.
    if attached and machine_type.startswith("n1-"):
        first = attached[0]
        return str(Shape(machine_type, tail(first.accelerator_type), first.accelerator_count))
    return machine_type


def _capacity_type(instance: Any) -> CapacityType:
    if instance.reservation_affinity.consume_reservation_type == "SPECIFIC_RESERVATION":
        return CapacityType.RESERVED
    scheduling = instance.scheduling
    spot = scheduling.provisioning_model == "SPOT" or scheduling.preemptible
    return CapacityType.SPOT if spot else CapacityType.ON_DEMAND


def time_of(text: str) -> datetime | None:
    """A timestamp of the API (RFC 3339); None where there is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def observed(
    ref: InstanceRef,
    instance: Any | None,
    operations: Sequence[Any],
    create: Any | None,
    account: str,
    now: datetime,
) -> CloudInstance:
    """An instance in the light of what was done to it.

    instance: None if the cloud denies knowing it. operations: those on the instances of its launch, newest
    first. create: the operation behind the ref's handle, if it could be read.
    """
    if instance is None:
        seen = CloudInstance(
            ref.provider_id,
            ref.region,
            ref.zone,
            InstanceState.ABSENT,
            name=ref.provider_id,
            node=node_of(ref.provider_id),
            capacity_type=ref.capacity_type,
        )
    else:
        seen = shown(instance)
    creates = _creates(ref.provider_id, operations, create)
    refusal = (
        None if seen.state is InstanceState.RUNNING else _refusal(ref, creates, operations, account, now)
    )
    end = _end(ref.provider_id, instance, operations, creates)
    if refusal is not None and not (refusal.kind is ErrorKind.CONFLICT and end):
        reason = EndReason.CAPACITY if refusal.kind is ErrorKind.CAPACITY else seen.end_reason
        return replace(seen, error=refusal, end_reason=reason, detail=str(refusal))
    if end is not None:
        return _ended(seen, end)
    if instance is None and any(not done(operation) for operation in creates):
        return replace(seen, state=InstanceState.PENDING, detail="being created")
    if seen.state in (InstanceState.STOPPING, InstanceState.STOPPED):
        return replace(seen, end_reason=EndReason.UNKNOWN)
    return seen


def _creates(name: str, operations: Sequence[Any], create: Any | None) -> list[Any]:
    """The operation that decides over this instance's creation first, then finer ones about it."""
    mine = [op for op in operations if op.operation_type in _CREATES and tail(op.target_link) == name]
    if create is None:
        return mine
    return [create, *(op for op in mine if op.name != create.name)]


def _refusal(
    ref: InstanceRef, creates: list[Any], operations: Sequence[Any], account: str, now: datetime
) -> ProviderError | None:
    """Why it was not created. A bulk insert's causes stand in the operations on its other instances too."""
    broken = [operation for operation in creates if failed(operation)]
    if not broken:
        return None
    launch = launch_of(ref.provider_id)
    others = [
        op
        for op in operations
        if op.operation_type in _CREATES
        and launch_of(tail(op.target_link)) == launch
        and failed(op)
        and op not in broken
    ]
    handle = Handle.parse(ref.operation) if ref.operation else None
    instance_type = handle.instance_type if handle else None
    where = Where(
        account=account,
        region=ref.region,
        zone=ref.zone,
        instance_type=instance_type,
        family=family_of(instance_type) if instance_type else None,
        capacity_type=ref.capacity_type,
        reservation=handle.reservation if handle else None,
    )
    return of_operation([*broken, *others], where, now)


def _end(name: str, instance: Any | None, operations: Sequence[Any], creates: list[Any]) -> EndReason | None:
    """Why it is ending or over. Matched on the instance's id where it is known: names can be reused."""
    if instance is not None:
        ids = {instance.id}
    else:
        ids = {op.target_id for op in creates if tail(op.target_link) == name and op.target_id}
    started = time_of(instance.last_start_timestamp) if instance is not None else None
    reasons = {
        _reason(op)
        for op in operations
        if op.operation_type in ENDS
        and tail(op.target_link) == name
        and (not ids or op.target_id in ids)
        and not failed(op)
        and _concerns(op, instance, started)
    }
    return min(reasons, key=_WEIGHT.index, default=None)


def _reason(operation: Any) -> EndReason:
    """A deletion by the cloud itself is that of a maximum run duration."""
    if operation.operation_type == "delete" and operation.user == "system":
        return EndReason.MAX_AGE
    return ENDS[operation.operation_type]


def _concerns(operation: Any, instance: Any | None, started: datetime | None) -> bool:
    """Of an instance that runs only its preemption counts, which shows up to a minute before the status
    changes; an end before its last start is history.
    """
    if instance is None or STATES.get(instance.status) not in (InstanceState.RUNNING, InstanceState.PENDING):
        return True
    if _reason(operation) is not EndReason.PREEMPTED:
        return False
    at = time_of(operation.insert_time)
    return started is None or at is None or at >= started


def _ended(seen: CloudInstance, end: EndReason) -> CloudInstance:
    """What is gone is over; what still shows as running has its end before it."""
    state = seen.state
    if state is InstanceState.ABSENT:
        state = InstanceState.TERMINATED
    elif state in (InstanceState.RUNNING, InstanceState.PENDING):
        state = InstanceState.STOPPING
    return replace(seen, state=state, end_reason=end)
