"""Effect: the limit itself tells whether what was granted holds, and what a silent vendor decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from service.events.record import record
from service.quota_desk.model import QuotaRequest
from service.quota_desk.sentences import amount, asked_for
from service.quotas.model import QuotaRow
from service.states import REQUEST_AT_CLOUD, REQUEST_DECIDED, REQUEST_OPEN, QuotaRequestState
from service.transitions import move_quota_request

SETTLED = timedelta(days=1)
"""How long after a decision, or a silent end, a limit that has not moved is taken at its word."""
NOT_NEEDED = "not_needed"

_OVER = (QuotaRequestState.EXPIRED, QuotaRequestState.WITHDRAWN)

Pending = Mapping[str, Sequence[QuotaRequest]]


def pending_effects(session: Session, provider: str, account: str) -> Pending:
    """The requests of an account that a limit may still say something about, by quota."""
    rows = session.exec(
        select(QuotaRequest).where(
            QuotaRequest.provider == provider,
            QuotaRequest.account == account,
            col(QuotaRequest.effective_at).is_(None),
            col(QuotaRequest.state).not_in(_OVER),
        )
    ).all()
    found: dict[str, list[QuotaRequest]] = defaultdict(list)
    for row in rows:
        found[row.quota_id].append(row)
    return found


def note_limit(session: Session, pending: Pending, quota: QuotaRow, *, now: datetime) -> None:
    """A limit was read: what it says of the requests for it. An unknown limit says nothing."""
    if quota.limit is None:
        return
    for row in pending.get(quota.id, ()):
        if row.unit is None:
            row.unit, row.name = quota.unit, quota.name
            session.add(row)
        _note(session, row, quota.limit, now)


def _note(session: Session, row: QuotaRequest, limit: float, now: datetime) -> None:
    if row.requested is None:
        return
    if row.state in REQUEST_OPEN and row.limit_before is None and row.closed_at is None:
        row.limit_before = limit
        session.add(row)
    if row.state in REQUEST_AT_CLOUD:
        _note_open(session, row, limit, now)
    elif row.state in REQUEST_OPEN:
        _note_unsent(session, row, limit, now)
    elif _limit_tells_better(row, limit, now):
        _decide_by_limit(session, row, limit, now)
    if row.state is QuotaRequestState.PARTLY_GRANTED and row.granted is None and _rose(row, limit):
        row.granted = min(limit, row.requested)
    granted = row.granted if row.granted is not None else row.requested
    if row.state in REQUEST_DECIDED - {QuotaRequestState.DENIED} and limit >= granted:
        _in_effect(session, row, now)


def _note_unsent(session: Session, row: QuotaRequest, limit: float, now: datetime) -> None:
    """Nothing is filed for a limit that is high enough by now."""
    if row.sent_at is None and row.requested is not None and limit >= row.requested:
        row.wake_at = None
        message = f"{asked_for(row)} is not needed: the limit is {amount(limit, row.unit)} by now"
        move_quota_request(session, row, QuotaRequestState.WITHDRAWN, message, now=now, reason=NOT_NEEDED)


def _limit_tells_better(row: QuotaRequest, limit: float, now: datetime) -> bool:
    """A silent end was taken as a denial and yet the limit rose, or an approval turned out to be of less."""
    if row.state is QuotaRequestState.DENIED:
        return row.closed_at is not None and _rose(row, limit)
    return row.state is QuotaRequestState.APPROVED and _stayed_below(row, limit, now)


def _note_open(session: Session, row: QuotaRequest, limit: float, now: datetime) -> None:
    """Undecided as far as the vendor says. The limit overtakes it when it is all of what was asked for, or
    when the vendor has closed the request without a word.
    """
    assert row.requested is not None  # noqa: S101 - the caller looked
    if limit >= row.requested or (row.closed_at is not None and _rose(row, limit)):
        _decide_by_limit(session, row, limit, now)
    elif row.closed_at is not None and now - row.closed_at > SETTLED:
        message = f"{asked_for(row)} was closed without a word and the limit did not move: taken as denied"
        row.decided_at, row.wake_at = row.closed_at, now
        move_quota_request(session, row, QuotaRequestState.DENIED, message, now=now)


def _rose(row: QuotaRequest, limit: float) -> bool:
    return row.limit_before is not None and limit > row.limit_before


def _stayed_below(row: QuotaRequest, limit: float, now: datetime) -> bool:
    """Approved, and yet the limit has risen to less for a day."""
    granted = row.granted if row.granted is not None else row.requested
    settled = row.decided_at is not None and now - row.decided_at > SETTLED
    return settled and granted is not None and _rose(row, limit) and limit < granted


def _decide_by_limit(session: Session, row: QuotaRequest, limit: float, now: datetime) -> None:
    assert row.requested is not None  # noqa: S101 - the caller looked
    whole = limit >= row.requested
    to = QuotaRequestState.APPROVED if whole else QuotaRequestState.PARTLY_GRANTED
    row.granted = min(limit, row.requested)
    row.decided_at = row.decided_at or row.closed_at or now
    row.wake_at = now
    said = "is approved" if whole else "is granted in part"
    message = f"{asked_for(row)} {said}: the limit is {amount(limit, row.unit)}"
    move_quota_request(session, row, to, message, now=now)


def _in_effect(session: Session, row: QuotaRequest, now: datetime) -> None:
    row.effective_at = now
    session.add(row)
    if row.found_decided:
        return
    record(
        session,
        "quota_request_effective",
        "quota_request",
        row.id,
        f"{asked_for(row)} is in effect: {amount(row.granted, row.unit)}",
        at=now,
        job_id=row.job_id,
        project_id=row.project_id,
        state=str(row.state),
        **row.told(),
    )
