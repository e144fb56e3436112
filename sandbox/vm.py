"""What the sandbox's world keeps of one instance."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

State = Literal["pending", "running", "shutting_down", "stopped", "terminated"]
EndedBy = Literal["user", "instance", "preempted", "host_failure", "max_age"]
CapacityType = Literal["on_demand", "spot"]

#: The kinds of object that a ledger counts.
KINDS = ("instance", "disk", "nic", "address", "spot_request")


@dataclass(slots=True)
class Charge:
    """One price in force from `start` to `end` (None: still). USD per hour."""

    start: datetime
    price: float
    end: datetime | None = None


@dataclass(slots=True, eq=False)
class Vm:
    """An instance. Only the world changes it; faces read it and may keep their own data in `extra`.

    provider: `aws`, `gcp`, `azure`. id: EC2 `i-` + 17 hex digits, GCE's numeric id as text, Azure's vmId.
    zone: the catalogue's zone key (EC2 zone *id* `use1-az4`; GCE `us-central1-a`; Azure `eastus-1`, or the
    region itself where no zone was asked for). visible_at: until then lists and reads may deny knowing it.
    poweroff: what becomes of it when its guest shuts down; eviction: what becomes of it when it is
    preempted (`stop` keeps it, state `stopped`, with its disks). keep: kinds of object that outlive it.
    reservation: the name of the one that it sits in; paid_ahead: which was paid for, so it costs no more.
    notice_deadline: when the cloud takes it away; None while there is no notice. metadata_key: the secret
    path under which the metadata server knows it.
    """

    provider: str
    id: str
    name: str
    region: str
    zone: str
    instance_type: str
    capacity_type: CapacityType
    token: str
    tags: dict[str, str]
    user_data: str
    private_ip: str
    public_ip: str | None
    created_at: datetime
    visible_at: datetime
    metadata_key: str
    max_price: float | None = None
    poweroff: Literal["terminate", "stop"] = "terminate"
    eviction: Literal["delete", "stop"] = "delete"
    keep: frozenset[str] = frozenset()
    reservation: str | None = None
    paid_ahead: bool = False
    extra: dict[str, Any] = field(default_factory=dict)
    state: State = "pending"
    running_at: datetime | None = None
    noticed_at: datetime | None = None
    notice_deadline: datetime | None = None
    ending_at: datetime | None = None
    ended_at: datetime | None = None
    end_reason: EndedBy | None = None
    charges: list[Charge] = field(default_factory=list)
    objects: dict[str, list[str]] = field(default_factory=dict)

    @property
    def live(self) -> bool:
        """True until it is terminated."""
        return self.state != "terminated"

    def visible(self, now: datetime) -> bool:
        """True once reads may show it."""
        return now >= self.visible_at
