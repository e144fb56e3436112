"""Table: instances."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlmodel import Field, Index

from providers.vocabulary import CapacityType, EndReason, InstanceRef, OfferKey
from providers.vocabulary import InstanceState as CloudState
from service.db import Claimable, choice, document
from service.states import InstanceState


class AgentState(StrEnum):
    """What the agent last said of itself; the wire's spelling."""

    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    DRAINING = "draining"
    EXITED = "exited"


class Instance(Claimable, table=True):
    """One VM that we asked for. Three kinds of column: what we want and did (`state`), what the cloud says
    (`cloud_…`), what the agent says (`agent_…`, `exit_…`). `unknown_since`: since when complete listings
    have not shown it. `ending_at`: since when its cloud ends it, and so bills it no longer.
    """

    __table_args__ = (
        Index("instance_by_state", "state", "wake_at"),
        Index("instance_by_place", "provider", "account", "region", "state"),
        Index("instance_by_provider_id", "provider_id"),
    )

    id: str = Field(primary_key=True, max_length=40)
    node: int
    token: str = Field(max_length=32, index=True)
    state: InstanceState = Field(default=InstanceState.PLANNED, sa_type=choice(InstanceState))
    reason: str | None = Field(default=None, max_length=64)
    purpose: str = Field(default="attempt", max_length=16)
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    capacity_type: CapacityType = Field(sa_type=choice(CapacityType))
    provider_id: str | None = Field(default=None, max_length=255)
    operation: str | None = Field(default=None, max_length=4096)
    planned_at: datetime
    requested_at: datetime | None = None
    running_at: datetime | None = None
    terminating_at: datetime | None = None
    terminate_sent_at: datetime | None = None
    terminate_tries: int = 0
    terminated_at: datetime | None = None
    ending_at: datetime | None = None
    cloud_state: CloudState | None = Field(default=None, sa_type=choice(CloudState))
    cloud_seen_at: datetime | None = None
    cloud_end_reason: EndReason | None = Field(default=None, sa_type=choice(EndReason))
    unknown_since: datetime | None = None
    private_ip: str | None = Field(default=None, max_length=45)
    public_ip: str | None = Field(default=None, max_length=45)
    reachable: bool = False
    session_hash: str | None = Field(default=None, max_length=64, index=True)
    agent_version: str | None = Field(default=None, max_length=32)
    agent_state: AgentState | None = Field(default=None, sa_type=choice(AgentState))
    agent_seen_at: datetime | None = None
    boot_id: str | None = Field(default=None, max_length=64)
    facts: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    notice_at: datetime | None = None
    notice_deadline: datetime | None = None
    notice_kind: str | None = Field(default=None, max_length=24)
    exit_at: datetime | None = None
    exit_code: int | None = None
    exit_reason: str | None = Field(default=None, max_length=24)
    exit_detail: str | None = None

    @property
    def offer_key(self) -> OfferKey:
        """The offer that it is an instance of; of which reservation is not kept."""
        return OfferKey(
            self.provider, self.account, self.region, self.zone, self.instance_type, self.capacity_type
        )

    @property
    def ref(self) -> InstanceRef:
        """How its provider finds it. Only for one whose provider_id is known."""
        if self.provider_id is None:
            raise ValueError(f"instance {self.id} has no provider id yet")
        return InstanceRef(self.region, self.zone, self.provider_id, self.operation, self.capacity_type)
