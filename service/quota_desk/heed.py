"""What a cloud says of a request, written into its row."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import update
from sqlmodel import Session, col

from providers.quota_requests import CloudQuotaRequest, ReviewState
from service.market.model import Poll
from service.quota_desk.model import QuotaRequest
from service.quota_desk.sentences import amount, asked_for
from service.states import QUOTA_REQUEST, REQUEST_DECIDED, QuotaRequestState, allowed
from service.transitions import move_quota_request

_BECOMES: Mapping[ReviewState, QuotaRequestState] = {
    ReviewState.FILED: QuotaRequestState.FILED,
    ReviewState.IN_REVIEW: QuotaRequestState.IN_REVIEW,
    ReviewState.APPROVED: QuotaRequestState.APPROVED,
    ReviewState.PARTLY_GRANTED: QuotaRequestState.PARTLY_GRANTED,
    ReviewState.DENIED: QuotaRequestState.DENIED,
    # Over without a word, or a word that we do not know: it stays where it is until the limit tells.
    ReviewState.CLOSED: QuotaRequestState.FILED,
    ReviewState.UNKNOWN: QuotaRequestState.FILED,
}


def heed(session: Session, row: QuotaRequest, shown: CloudQuotaRequest, *, now: datetime) -> None:
    """Bring a row to what its cloud says. Once something is decided the limits are read again."""
    to = _BECOMES[shown.state]
    row.provider_id, row.seen_at, row.error, row.failures = shown.provider_id, now, None, 0
    row.filed_at = row.filed_at or shown.filed_at
    session.add(row)
    if row.effective_at is not None:
        return  # the limit has spoken
    if row.state not in REQUEST_DECIDED:
        _take_amounts(row, shown, to)
    if shown.state is ReviewState.CLOSED and row.closed_at is None and row.state not in REQUEST_DECIDED:
        row.closed_at = shown.changed_at or now
        read_limits_again(session, row, now)
    if row.state is to or not allowed(QUOTA_REQUEST, row.state, to):
        return
    if to in REQUEST_DECIDED:
        row.decided_at = shown.changed_at
        row.wake_at = now
        read_limits_again(session, row, now)
    said = f": {shown.detail}" if shown.detail else ""
    move_quota_request(session, row, to, f"{asked_for(row)} {_told(row, to)}{said}", now=now)


def read_limits_again(session: Session, row: QuotaRequest, now: datetime) -> None:
    """Have the limits of the request's place read now."""
    poll_id = f"quotas/{row.provider}/{row.account}/{row.place_region}"
    session.connection().execute(
        update(Poll).where(col(Poll.id) == poll_id, col(Poll.wake_at) > now).values(wake_at=now)
    )


def _take_amounts(row: QuotaRequest, shown: CloudQuotaRequest, to: QuotaRequestState) -> None:
    if shown.requested is not None:
        row.requested = shown.requested
        row.target = max(row.target or shown.requested, shown.requested)
    if to is QuotaRequestState.APPROVED:
        row.granted = shown.granted if shown.granted is not None else row.requested
    elif to is QuotaRequestState.PARTLY_GRANTED:
        row.granted = shown.granted


def _told(row: QuotaRequest, to: QuotaRequestState) -> str:
    return {
        QuotaRequestState.FILED: "is filed",
        QuotaRequestState.IN_REVIEW: "is in review",
        QuotaRequestState.APPROVED: "is approved",
        QuotaRequestState.PARTLY_GRANTED: f"is granted in part: {amount(row.granted, row.unit)}",
        QuotaRequestState.DENIED: "is denied",
    }[to]
