"""What a person decides about an orphan that was quarantined: leave it alone for good, or end it."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session, select

from service.api.problems import Problem, not_found
from service.events.record import record
from service.instances.model import Instance
from service.instances.sweep import ADOPTED, ORPHAN
from service.projects.model import Deployment
from service.states import InstanceState
from service.transitions import move_instance


def end_orphan(session: Session, instance_id: str, *, by: str, now: datetime) -> Instance:
    """Have an orphan ended. Problem 404 if there is none, 409 if it serves or served a job of ours."""
    instance = _orphan(session, instance_id)
    if instance.state is InstanceState.RUNNING:
        move_instance(
            session, instance, InstanceState.TERMINATING, "ended by a person", now=now, reason="ended", by=by
        )
    return instance


def adopt_orphan(session: Session, instance_id: str, *, by: str, now: datetime) -> Instance:
    """Leave an orphan alone from now on: it is watched, never ended by us. Problems as `end_orphan`."""
    instance = _orphan(session, instance_id)
    if instance.state is not InstanceState.RUNNING:
        raise Problem(409, f"the instance is {instance.state} already", code="instance_over")
    instance.reason = ADOPTED
    session.add(instance)
    message = f"{instance.provider_id} is left alone from now on"
    record(session, "orphan_adopted", "instance", instance.id, message, at=now, by=by)
    return instance


def confirm_sweep(session: Session, deployment_id: str, *, by: str, now: datetime) -> bool:
    """Turn the orphan sweep on again, after a restored backup or a changed deployment id; False if it is."""
    row = session.exec(select(Deployment).where(Deployment.id == deployment_id).with_for_update()).one()
    if row.sweep_confirmed:
        return False
    row.sweep_confirmed = True
    session.add(row)
    message = "the orphan sweep is on: what bears this deployment's tag and is in no row will be ended"
    record(session, "sweep_confirmed", "deployment", row.id, message, at=now, by=by)
    return True


def _orphan(session: Session, instance_id: str) -> Instance:
    instance = session.exec(select(Instance).where(Instance.id == instance_id).with_for_update()).first()
    if instance is None:
        raise not_found(f"instance {instance_id}")
    if instance.purpose != ORPHAN:
        raise Problem(409, "the instance serves a job; cancel the job instead", code="instance_in_use")
    return instance
