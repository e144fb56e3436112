"""Booking what attempts cost: one charge per attempt and instance, opened and closed with its life."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session, col, select

from providers.vocabulary import OfferKey
from service.attempts.model import Attempt, AttemptInstance, Charge
from service.instances.model import Instance
from service.jobs.model import Job


def open_charge(session: Session, instance: Instance, now: datetime) -> None:
    """The cloud began to bill an instance: book its attempt's price from now on, once."""
    attempt = session.exec(
        select(Attempt)
        .join(AttemptInstance, col(AttemptInstance.attempt_id) == col(Attempt.id))
        .where(AttemptInstance.instance_id == instance.id)
        .order_by(col(Attempt.planned_at).desc())
    ).first()
    if attempt is None or _charges(session, instance.id):
        return
    job = session.get_one(Job, attempt.job_id)
    session.add(
        Charge(
            attempt_id=attempt.id,
            instance_id=instance.id,
            starts=now,
            job_id=job.id,
            project_id=job.project_id,
            price_micros=attempt.price_micros,
        )
    )


def close_charge(session: Session, instance: Instance, now: datetime, ended: datetime | None) -> None:
    """An instance is gone: its cloud stopped billing it when it began to end (`ended`; None: only now)."""
    for charge in _charges(session, instance.id):
        if charge.ends is None:
            charge.ends = max(charge.starts, min(ended or now, now))
            session.add(charge)


def reprice(session: Session, key: OfferKey, price_micros: int, now: datetime) -> int:
    """The price of an offer has changed: what runs on it is charged the new one from now on. How many."""
    open_charges = session.exec(
        select(Charge)
        .join(Attempt, col(Attempt.id) == col(Charge.attempt_id))
        .where(
            col(Charge.ends).is_(None),
            Charge.price_micros != price_micros,
            Attempt.provider == key.provider,
            Attempt.account == key.account,
            Attempt.zone == key.zone,
            Attempt.instance_type == key.instance_type,
            Attempt.capacity_type == key.capacity_type,
        )
    ).all()
    for charge in open_charges:
        if charge.starts >= now:  # it has only just begun: there is nothing to pay at the old price
            charge.price_micros = price_micros
        else:
            charge.ends = now
            session.add(
                Charge(**{**charge.model_dump(), "starts": now, "ends": None, "price_micros": price_micros})
            )
        session.add(charge)
    return len(open_charges)


def _charges(session: Session, instance_id: str) -> list[Charge]:
    return list(session.exec(select(Charge).where(Charge.instance_id == instance_id)).all())
