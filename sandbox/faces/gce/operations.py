"""Zone operations: what was asked for, and how it ended. Kept here; what the cloud did itself is read off the
instances (`compute.instances.preempted` and the like).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sandbox.faces.gce.answers import LINKS
from sandbox.ledger import stamp
from sandbox.vm import Vm
from sandbox.world import World

_WINDOW = timedelta(minutes=60)  # how long a requestId is known
_USER = "corral@sandbox-project.iam.gserviceaccount.com"
_SYSTEM_OPERATIONS = {
    "preempted": ("compute.instances.preempted", "Instance was preempted."),
    "host_failure": ("compute.instances.hostError", "Instance terminated by Compute Engine."),
    "instance": ("compute.instances.guestTerminate", "Instance was terminated by its guest."),
    "max_age": ("delete", "Instance reached its maximum run duration."),
}


@dataclass(slots=True)
class Failure:
    """How an operation failed: its errors as on the wire, and the HTTP status that it carries, if any."""

    errors: list[dict[str, Any]] = field(default_factory=list)
    http_status: int | None = None
    http_message: str = ""


@dataclass(slots=True)
class Record:
    """One operation. `ends_at` None: when its instance is gone (a deletion), or never (`stuck`)."""

    name: str
    id: str
    project: str
    zone: str
    kind: str
    made_at: datetime
    ends_at: datetime | None
    target: str
    target_id: str | None = None
    request_id: str | None = None
    group: str | None = None
    user: str = _USER
    failure: Failure | None = None
    vm: Vm | None = None
    stuck: bool = False
    status_message: str = ""
    locations: dict[str, dict[str, Any]] | None = None

    def done(self, now: datetime) -> bool:
        """Whether it has ended."""
        if self.stuck:
            return False
        if self.ends_at is not None:
            return now >= self.ends_at
        return self.vm is not None and self.vm.state == "terminated"


class Operations:
    """The operations of one face. Safe to share between threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.RLock()
        self._records: dict[str, Record] = {}
        self._by_request: dict[tuple[str, str], tuple[datetime, Record]] = {}
        self._count = 0

    def open(self, project: str, zone: str, kind: str, target: str, **facts: Any) -> Record:
        """A new operation. facts: further fields of Record; `seconds` until it ends (None: see Record)."""
        with self._lock:
            self._count += 1
            now = self._world.now()
            seconds = facts.pop("seconds", 0.0)
            text = hashlib.sha256(f"{self._world.scenario.seed}/{self._count}".encode()).hexdigest()
            record = Record(
                name=f"operation-{int(now.timestamp() * 1000)}-{text[:13]}-{text[13:21]}-{text[21:29]}",
                id=str(int(text[:15], 16)),
                project=project,
                zone=zone,
                kind=kind,
                made_at=now,
                ends_at=None if seconds is None else now + timedelta(seconds=seconds),
                target=target,
                **facts,
            )
            self._records[record.name] = record
            if record.request_id:
                self._by_request[project, record.request_id] = (now, record)
            return record

    def of_request(self, project: str, request_id: str | None) -> Record | None:
        """The operation that this requestId has already made."""
        if not request_id:
            return None
        with self._lock:
            known = self._by_request.get((project, request_id))
            if known is None or self._world.now() - known[0] > _WINDOW:
                return None
            return known[1]

    def unfinished_create(self, vm: Vm) -> Record | None:
        """The insert of an instance, while it has not ended."""
        with self._lock:
            now = self._world.now()
            return next(
                (r for r in self._records.values() if r.vm is vm and r.kind == "insert" and not r.done(now)),
                None,
            )

    def get(self, project: str, zone: str, name: str) -> dict[str, Any] | None:
        """One operation's JSON."""
        return next((op for op in self.of_zone(project, zone) if op["name"] == name), None)

    def of_zone(self, project: str, zone: str) -> list[dict[str, Any]]:
        """The JSON of all operations of a zone, those of the cloud itself included."""
        with self._lock:
            records = [r for r in self._records.values() if (r.project, r.zone) == (project, zone)]
        now = self._world.now()
        vms = self._world.vms("gcp", lambda vm: vm.zone == zone and vm.extra.get("project") == project)
        systems = [record for vm in vms if (record := _system(vm)) is not None]
        return [shown(record, now) for record in [*records, *systems]]


def _system(vm: Vm) -> Record | None:
    """What the cloud did to an instance by itself. A preemption shows from its notice on, while the instance
    still shows as running.
    """
    reason = "preempted" if vm.noticed_at is not None else vm.end_reason
    at = vm.noticed_at or vm.ending_at
    if reason not in _SYSTEM_OPERATIONS or at is None:
        return None
    kind, message = _SYSTEM_OPERATIONS[reason]
    number = str(int(vm.id) + 1)
    return Record(
        name=f"systemevent-{int(at.timestamp() * 1000)}-{number[:12]}",
        id=number,
        project=str(vm.extra["project"]),
        zone=vm.zone,
        kind=kind,
        made_at=at,
        ends_at=at,
        target=f"instances/{vm.name}",
        target_id=vm.id,
        user="system",
        status_message=message,
    )


def shown(record: Record, now: datetime) -> dict[str, Any]:
    """An operation as the API shows it."""
    ended = record.done(now)
    place = f"{LINKS}projects/{record.project}/zones/{record.zone}"
    body: dict[str, Any] = {
        "kind": "compute#operation",
        "id": record.id,
        "name": record.name,
        "zone": place,
        "operationType": record.kind,
        "targetLink": f"{place}/{record.target}" if record.target else place,
        "targetId": record.target_id,
        "status": "DONE" if ended else "RUNNING",
        "statusMessage": record.status_message or None,
        "user": record.user,
        "progress": 100 if ended else 0,
        "insertTime": stamp(record.made_at),
        "startTime": stamp(record.made_at),
        "selfLink": f"{place}/operations/{record.name}",
        "clientOperationId": record.request_id,
        "operationGroupId": record.group,
    }
    if ended:
        body["endTime"] = stamp(record.ends_at or (record.vm.ended_at if record.vm else None) or now)
        body |= _failed(record.failure)
    if record.locations is not None:
        body["instancesBulkInsertOperationMetadata"] = {"perLocationStatus": record.locations}
    return {key: value for key, value in body.items() if value is not None}


def _failed(failure: Failure | None) -> Mapping[str, Any]:
    if failure is None:
        return {}
    body: dict[str, Any] = {}
    if failure.errors:
        body["error"] = {"errors": failure.errors}
    if failure.http_status is not None:
        body |= {"httpErrorStatusCode": failure.http_status, "httpErrorMessage": failure.http_message}
    return body
