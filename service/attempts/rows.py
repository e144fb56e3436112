"""Reading what belongs to an attempt."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session, col, select

from service.attempts.model import Attempt, AttemptInstance
from service.instances.model import Instance
from service.jobs.model import Job


def instances_of(session: Session, attempt_id: str) -> Sequence[Instance]:
    """An attempt's instances, in rank order."""
    return session.exec(
        select(Instance)
        .join(AttemptInstance, col(AttemptInstance.instance_id) == col(Instance.id))
        .where(AttemptInstance.attempt_id == attempt_id)
        .order_by(col(AttemptInstance.rank))
    ).all()


def attempt_of_instance(session: Session, instance_id: str) -> Attempt | None:
    """The attempt that an instance serves or served last."""
    return session.exec(
        select(Attempt)
        .join(AttemptInstance, col(AttemptInstance.attempt_id) == col(Attempt.id))
        .where(AttemptInstance.instance_id == instance_id)
        .order_by(col(Attempt.planned_at).desc())
    ).first()


def image_of(session: Session, attempt: Attempt) -> str | None:
    """The image that the attempt's job asked for by name; None for the prebuilt one."""
    image: str | None = session.get_one(Job, attempt.job_id).spec.get("image")
    return image
