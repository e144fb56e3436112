"""Tables: attempts, which instances each used, and what each cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Field, Index, SQLModel, UniqueConstraint

from providers.vocabulary import CapacityType, OfferKey
from service.db import Claimable, choice, document
from service.states import AttemptState


class Attempt(Claimable, table=True):
    """One try to run a job on one offer; a gang is one offer, so one zone and one size.

    `request` is the exact LaunchRequest, committed before it is sent. Deadlines are absolute: they survive a
    restart. `proved_at`: when the cloud was seen to have the capacity. `may_start_at`: when all nodes were
    ready and nobody else might write. Prices are in millionths of a USD per instance-hour.
    """

    __table_args__ = (
        UniqueConstraint("job_id", "number"),
        UniqueConstraint("token"),
        Index("attempt_by_state", "state", "wake_at"),
    )

    id: str = Field(primary_key=True, max_length=40)
    job_id: str = Field(foreign_key="job.id", index=True)
    number: int
    epoch: int
    state: AttemptState = Field(default=AttemptState.PLANNED, sa_type=choice(AttemptState))
    reason: str | None = Field(default=None, max_length=64)
    detail: str | None = None
    provider: str = Field(max_length=16)
    account: str = Field(max_length=40)
    region: str = Field(max_length=64)
    zone: str = Field(max_length=64)
    instance_type: str = Field(max_length=64)
    capacity_type: CapacityType = Field(sa_type=choice(CapacityType))
    reservation: str | None = Field(default=None, max_length=255)
    nodes: int
    gpus_per_node: int = 0
    price_micros: int
    token: str = Field(max_length=32)
    request: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    operation: str | None = Field(default=None, max_length=4096)
    replaces: str | None = Field(default=None, max_length=40)
    master_port: int | None = None
    planned_at: datetime
    sent_at: datetime | None = None
    sends: int = 0
    unseen_since: datetime | None = None
    accepted_at: datetime | None = None
    proved_at: datetime | None = None
    launch_deadline: datetime | None = None
    boot_deadline: datetime | None = None
    may_start_at: datetime | None = None
    running_at: datetime | None = None
    run_deadline: datetime | None = None
    drain_reason: str | None = Field(default=None, max_length=64)
    draining_at: datetime | None = None
    drain_deadline: datetime | None = None
    ended_at: datetime | None = None
    error_kind: str | None = Field(default=None, max_length=24)
    error_code: str | None = Field(default=None, max_length=128)
    checkpoint: str | None = Field(default=None, max_length=255)
    checkpoint_at: datetime | None = None
    logs_expired_at: datetime | None = None

    @property
    def offer_key(self) -> OfferKey:
        """What was asked for."""
        return OfferKey(
            self.provider,
            self.account,
            self.region,
            self.zone,
            self.instance_type,
            self.capacity_type,
            self.reservation,
        )


class AttemptInstance(SQLModel, table=True):
    """Which instance served which rank of an attempt. Its own table: a standing node serves many attempts."""

    __tablename__ = "attempt_instance"

    attempt_id: str = Field(primary_key=True, foreign_key="attempt.id", max_length=40)
    rank: int = Field(primary_key=True)
    instance_id: str = Field(foreign_key="instance.id", index=True, max_length=40)


class Charge(SQLModel, table=True):
    """What an attempt's instance cost: `price_micros` (millionths of a USD an hour) from `starts` to `ends`.

    Booked once per attempt and instance; `ends` is None while it is still billed.
    """

    attempt_id: str = Field(primary_key=True, foreign_key="attempt.id", max_length=40)
    instance_id: str = Field(primary_key=True, foreign_key="instance.id", max_length=40)
    starts: datetime = Field(primary_key=True)
    job_id: str = Field(foreign_key="job.id", index=True)
    project_id: str = Field(foreign_key="project.id", index=True)
    ends: datetime | None = None
    price_micros: int
