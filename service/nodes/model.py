"""Table: standing nodes."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlmodel import Field, SQLModel

from service.db import document


class NodeState(StrEnum):
    """What a node can be used for now; follows from its row, see `Node.state`."""

    ENROLLING = "enrolling"
    UNREACHABLE = "unreachable"
    DRAINING = "draining"
    BUSY = "busy"
    IDLE = "idle"


class Node(SQLModel, table=True):
    """One machine that was enrolled, or is to be. Nodes of one `pool` are equal and stand in one place.

    `type` is what was declared, completed by what the machine says of itself. `price_micros`: millionths of a
    USD an hour, its monthly cost spread over 730 hours. `use_id`: the use that it is given to, by the
    attempt's launch `token`; `given_at`: when its agent was told; `release_at`: since when it is to be given
    back.
    """

    __tablename__ = "node"

    id: str = Field(primary_key=True, max_length=40)
    name: str = Field(max_length=40, unique=True)
    pool: str = Field(max_length=40, index=True)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    type: dict[str, Any] = Field(sa_type=document())
    price_micros: int
    draining: bool = False
    created_at: datetime
    created_by: str = Field(max_length=40)
    enrol_hash: str | None = Field(default=None, max_length=64, index=True)
    enrol_until: datetime | None = None
    enrolled_at: datetime | None = None
    session_hash: str | None = Field(default=None, max_length=64, index=True)
    seen_at: datetime | None = None
    reachable: bool = False
    agent_version: str | None = Field(default=None, max_length=32)
    boot_id: str | None = Field(default=None, max_length=64)
    private_ip: str | None = Field(default=None, max_length=45)
    facts: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    use_id: str | None = Field(default=None, max_length=80, index=True)
    token: str | None = Field(default=None, max_length=32, index=True)
    rank: int | None = None
    attempt_id: str | None = Field(default=None, max_length=40)
    job_id: str | None = Field(default=None, max_length=40)
    deployment_id: str | None = Field(default=None, max_length=40)
    assigned_at: datetime | None = None
    given_at: datetime | None = None
    release_at: datetime | None = None

    def is_silent(self, now: datetime, silent_after: float) -> bool:
        """True if its agent has not spoken for `silent_after` seconds."""
        return self.seen_at is None or now - self.seen_at >= timedelta(seconds=silent_after)

    def state(self, now: datetime, silent_after: float) -> NodeState:
        """What it can be used for now."""
        if self.enrolled_at is None:
            return NodeState.ENROLLING
        if self.is_silent(now, silent_after):
            return NodeState.UNREACHABLE
        if self.use_id is not None:
            return NodeState.BUSY
        return NodeState.DRAINING if self.draining else NodeState.IDLE
