"""The history of offers: what became of launches and instances, kept for a while and summed up per offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlmodel import Session, col, select

from policies.estimates import observe
from policies.model import Evidence
from providers.errors import ErrorKind
from providers.vocabulary import OfferKey
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.market.model import EvidenceRow, Observation, OfferRow, Outcome
from service.market.offers import offer_id
from service.states import AttemptState


def note_granted(session: Session, attempt: Attempt, waiting_since: datetime | None, now: datetime) -> None:
    """A launch got capacity, after so long a wait."""
    _note(session, attempt, Outcome.GRANTED, waiting_since or attempt.planned_at, now)
    _learn(session, attempt.offer_key, (True,), now)


def note_ended(session: Session, attempt: Attempt, ended: Ended, now: datetime) -> None:
    """An attempt is over: refused for want of capacity, lost to a preemption, or left."""
    if attempt.proved_at is None:
        if attempt.error_kind == ErrorKind.CAPACITY:
            _note(session, attempt, Outcome.REFUSED, attempt.planned_at, now)
            _learn(session, attempt.offer_key, (False,), now)
        return
    lost = ended is Ended.PREEMPTED
    _note(session, attempt, Outcome.LOST if lost else Outcome.LEFT, attempt.proved_at, now)
    if ended is Ended.REFUSED:  # the cloud took it back while it was being made
        _learn(session, attempt.offer_key, (False,), now)
    else:
        _learn(session, attempt.offer_key, (True, False) if lost else (True,), now)


def forget_history(session: Session, keep: timedelta, now: datetime) -> None:
    """Drop what is older than the settings keep."""
    session.connection().execute(delete(Observation).where(col(Observation.at) < now - keep))
    session.connection().execute(delete(EvidenceRow).where(col(EvidenceRow.seen) < now - keep))


def with_held(
    session: Session, known: Mapping[OfferKey, Evidence], now: datetime
) -> dict[OfferKey, Evidence]:
    """What was seen of each offer, up to now where something of ours runs there."""
    found = dict(known)
    for key in _held(session):
        before = found.get(key)
        if before is None or before.seen < now:
            found[key] = observe(before, True, now)
    return found


def _held(session: Session) -> Iterable[OfferKey]:
    live = session.exec(
        select(Attempt).where(
            col(Attempt.state).in_((AttemptState.BOOTING, AttemptState.RUNNING)),
            col(Attempt.proved_at).is_not(None),
        )
    ).all()
    return {_plain(attempt.offer_key) for attempt in live}


def _note(session: Session, attempt: Attempt, outcome: Outcome, since: datetime, now: datetime) -> None:
    row = session.get(OfferRow, offer_id(attempt.offer_key))
    accelerator = row.type.get("accelerator") if row is not None else None
    session.add(
        Observation(
            at=now,
            outcome=outcome,
            provider=attempt.provider,
            account=attempt.account,
            region=attempt.region,
            zone=attempt.zone,
            instance_type=attempt.instance_type,
            capacity_type=attempt.capacity_type,
            gpu=accelerator["name"] if accelerator else None,
            gpus_per_node=attempt.gpus_per_node,
            nodes=attempt.nodes,
            seconds=max(0.0, (now - since).total_seconds()),
            attempt_id=attempt.id,
        )
    )


def _learn(session: Session, key: OfferKey, seen: tuple[bool, ...], now: datetime) -> None:
    key = _plain(key)
    row_id = offer_id(key)
    row = session.get(EvidenceRow, row_id, with_for_update=True)
    evidence = None if row is None else evidence_of(row)
    for available in seen:
        if evidence is None or evidence.seen <= now:  # a clock that was set back teaches nothing
            evidence = observe(evidence, available, now)
    if evidence is None:
        return
    if row is None:
        row = EvidenceRow(
            id=row_id,
            provider=key.provider,
            account=key.account,
            region=key.region,
            zone=key.zone,
            instance_type=key.instance_type,
            capacity_type=key.capacity_type,
            available=evidence.available,
            since=evidence.since,
            seen=evidence.seen,
        )
    row.sqlmodel_update(asdict(evidence))
    session.add(row)


def _plain(key: OfferKey) -> OfferKey:
    """The offer without its reservation: what was paid for ahead says nothing about the market."""
    return OfferKey(key.provider, key.account, key.region, key.zone, key.instance_type, key.capacity_type)


def key_of(row: EvidenceRow) -> OfferKey:
    """The offer that a row speaks of."""
    return OfferKey(row.provider, row.account, row.region, row.zone, row.instance_type, row.capacity_type)


def evidence_of(row: EvidenceRow) -> Evidence:
    """A row as the policies see it."""
    return Evidence(
        row.available, row.since, row.seen, row.up_seconds, row.losses, row.down_seconds, row.gains
    )
