"""Table: jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Field, Index, UniqueConstraint

from policies.model import RunClass
from service.db import Claimable, choice, document
from service.states import JobState


class Job(Claimable, table=True):
    """What a user asked for. `spec` is the canonical spec; the columns beside it are what is looked up.

    `epoch` is the attempt that may write; a replacement that boots ahead has a higher one and waits.
    `waiting_since` is set while it wants capacity. `decision` is the scheduler's last answer, for people.
    `deadline_at_risk`: on-demand could no longer finish in time and within `max_cost`.
    """

    __table_args__ = (
        UniqueConstraint("project_id", "idempotency_key"),
        Index("job_by_project", "project_id", "submitted_at", "id"),
        Index("job_by_time", "submitted_at", "id"),
        Index("job_by_state", "state", "priority", "submitted_at"),
    )

    id: str = Field(primary_key=True, max_length=40)
    project_id: str = Field(foreign_key="project.id")
    name: str = Field(max_length=64)
    run_class: RunClass = Field(sa_type=choice(RunClass))
    priority: int = 0
    state: JobState = Field(default=JobState.QUEUED, sa_type=choice(JobState))
    reason: str | None = Field(default=None, max_length=64)
    detail: str | None = None
    spec: dict[str, Any] = Field(sa_type=document())
    idempotency_key: str | None = Field(default=None, max_length=128)
    body_hash: str = Field(max_length=64)
    submitted_by: str = Field(max_length=40)
    submitted_at: datetime
    waiting_since: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    deadline: datetime | None = None
    deadline_at_risk: bool = False
    epoch: int = 0
    attempts: int = 0
    checkpoint: str | None = Field(default=None, max_length=255)
    checkpoint_at: datetime | None = None
    decision: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    retries_used: dict[str, int] = Field(default_factory=dict, sa_type=document())
