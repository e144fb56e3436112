"""What was spent between two times, added up by project, job, cloud and the like, from the charges booked."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import or_, select
from sqlmodel import Session, col

from service.attempts.cost import Span, cost_micros
from service.attempts.model import Attempt, Charge
from service.jobs.model import Job
from service.projects.model import Project


class GroupBy(StrEnum):
    """What costs are added up by."""

    PROJECT = "project"
    JOB = "job"
    CLASS = "class"
    PROVIDER = "provider"
    ACCOUNT = "account"
    REGION = "region"
    INSTANCE_TYPE = "instance_type"
    CAPACITY_TYPE = "capacity_type"


_COLUMN: dict[GroupBy, Any] = {
    GroupBy.PROJECT: col(Project.name),
    GroupBy.JOB: col(Job.id),
    GroupBy.CLASS: col(Job.run_class),
    GroupBy.PROVIDER: col(Attempt.provider),
    GroupBy.ACCOUNT: col(Attempt.account),
    GroupBy.REGION: col(Attempt.region),
    GroupBy.INSTANCE_TYPE: col(Attempt.instance_type),
    GroupBy.CAPACITY_TYPE: col(Attempt.capacity_type),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """One line: millionths of a USD, and seconds that instances were charged for."""

    group: str
    cost_micros: int
    instance_seconds: float


def costs(
    session: Session, by: GroupBy, since: datetime, until: datetime, now: datetime, project_id: str | None
) -> list[Cost]:
    """The dearest first. What is still on is counted up to `now`, nothing outside [since, until)."""
    until = min(until, now)
    spans: dict[str, list[Span]] = defaultdict(list)
    statement = (
        select(_COLUMN[by], col(Charge.starts), col(Charge.ends), col(Charge.price_micros))
        .join(Attempt, col(Attempt.id) == col(Charge.attempt_id))
        .join(Job, col(Job.id) == col(Charge.job_id))
        .join(Project, col(Project.id) == col(Charge.project_id))
        .where(col(Charge.starts) < until, or_(col(Charge.ends).is_(None), col(Charge.ends) > since))
    )
    if project_id is not None:
        statement = statement.where(col(Charge.project_id) == project_id)
    for group, starts, ends, price in session.connection().execute(statement):
        spans[str(group)].append(Span(max(starts, since), min(ends or until, until), price))
    found = [Cost(group, cost_micros(parts, until), _seconds(parts)) for group, parts in spans.items()]
    return sorted(found, key=lambda cost: (-cost.cost_micros, cost.group))


def _seconds(spans: list[Span]) -> float:
    return sum(max(0.0, ((span.ends or span.starts) - span.starts).total_seconds()) for span in spans)
