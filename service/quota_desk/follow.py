"""Following: one listing a place tells of all its requests, ours and those filed by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlmodel import Session, col, or_, select

from providers.quota_requests import CloudQuotaRequest, QuotaRequestListing, ReviewState
from service.context import Context
from service.db import after_commit
from service.events.record import record
from service.market.model import OfferRow, Poll
from service.market.offers import to_offer
from service.quota_desk.heed import heed
from service.quota_desk.matching import OPEN_THERE, match
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.sentences import asked_for
from service.quotas.increases import in_gpus
from service.quotas.model import QuotaRow
from service.quotas.rows import to_quota
from service.states import REQUEST_AT_CLOUD, REQUEST_OPEN, QuotaRequestState
from service.transitions import move_quota_request

FORGOTTEN = timedelta(days=2)
"""How long complete listings must have missed a request before it counts as gone."""
LOOKS_BACK = timedelta(days=120)
ADOPTED = "adopted"
NO_LONGER_SHOWN = "no_longer_shown"

_FOUND: dict[ReviewState, QuotaRequestState] = {
    ReviewState.FILED: QuotaRequestState.FILED,
    ReviewState.IN_REVIEW: QuotaRequestState.IN_REVIEW,
    ReviewState.APPROVED: QuotaRequestState.APPROVED,
    ReviewState.PARTLY_GRANTED: QuotaRequestState.PARTLY_GRANTED,
    ReviewState.DENIED: QuotaRequestState.DENIED,
}


def store(session: Session, ctx: Context, poll: Poll, listing: QuotaRequestListing) -> None:
    """Write what a place lists; a request that nobody knew was filed by hand, and is followed from now on."""
    now = ctx.now()
    rows = list(session.exec(_of_place(poll, now)).all())
    seen: set[str] = set()
    after_commit(session, partial(ctx.wake, "quotas"))
    for shown in sorted(listing.requests, key=lambda one: (one.state not in OPEN_THERE, one.provider_id)):
        row = match(shown, [row for row in rows if row.id not in seen])
        if row is None and shown.state in _FOUND:
            row = _found(session, poll, shown, rows, now=now)
            rows.append(row)
        elif row is not None:
            heed(session, row, shown, now=now)
        if row is not None:
            seen.add(row.id)
    if not listing.incomplete:
        for row in rows:
            if row.id not in seen and row.place_region == poll.region:
                _missed(session, row, now)


def _of_place(poll: Poll, now: datetime) -> Any:
    return select(QuotaRequest).where(
        QuotaRequest.provider == poll.provider,
        QuotaRequest.account == poll.account,
        or_(col(QuotaRequest.region) == poll.region, col(QuotaRequest.region).is_(None)),
        or_(col(QuotaRequest.state).in_(REQUEST_OPEN), col(QuotaRequest.created_at) > now - LOOKS_BACK),
    )


def _found(
    session: Session, poll: Poll, shown: CloudQuotaRequest, rows: Sequence[QuotaRequest], *, now: datetime
) -> QuotaRequest:
    """A request that was filed by hand. Its id follows from the vendor's, so that two listings that show it
    make one row.
    """
    mark = f"{poll.provider}/{poll.account}/{shown.provider_id}/{shown.filed_at}"
    row_id = f"qr-{hashlib.sha256(mark.encode()).hexdigest()[:16]}"
    there = session.get(QuotaRequest, row_id)
    if there is not None:
        return there
    quota_id = f"{poll.provider}/{poll.account}/{shown.region or '*'}/{shown.key}"[:255]
    quota = session.get(QuotaRow, quota_id)
    is_open = shown.state in OPEN_THERE
    gpu, gpus = _in_gpus(session, quota, shown) if is_open or shown.requested else (None, None)
    granted = shown.granted
    if granted is None and shown.state is ReviewState.APPROVED:
        granted = shown.requested
    row = QuotaRequest(
        id=row_id,
        ask_id=row_id,
        provider=poll.provider,
        account=poll.account,
        region=shown.region,
        place_region=poll.region,
        quota_id=quota_id,
        key=shown.key,
        name=quota.name if quota else shown.key,
        unit=quota.unit if quota else None,
        state=_FOUND[shown.state],
        detail=shown.detail,
        limit_before=quota.limit if quota and is_open else None,
        requested=shown.requested,
        granted=granted,
        target=shown.requested,
        gpu=gpu,
        gpus=gpus,
        origin=Origin.CONSOLE,
        provider_id=shown.provider_id,
        created_at=now,
        filed_at=shown.filed_at,
        decided_at=None if is_open else shown.changed_at,
        seen_at=now,
        found_decided=not is_open,
    )
    session.add(row)
    if is_open:
        _tell_found(session, row, rows, now)
    return row


def _tell_found(session: Session, row: QuotaRequest, rows: Sequence[QuotaRequest], now: datetime) -> None:
    message = f"{asked_for(row)} was filed by hand; it is followed from now on"
    record(session, "quota_request_found", "quota_request", row.id, message, at=now, **row.told())
    for other in rows:
        if other.quota_id == row.quota_id and other.state is QuotaRequestState.PROPOSED:
            other.wake_at = None
            said = f"{asked_for(other)} is not needed: a request that was filed by hand is open"
            move_quota_request(
                session, other, QuotaRequestState.WITHDRAWN, said, now=now, reason=ADOPTED, by=row.id
            )


def _in_gpus(
    session: Session, row: QuotaRow | None, shown: CloudQuotaRequest
) -> tuple[str | None, int | None]:
    """The card and how many, where the quota gates one card only and its limit is known."""
    if row is None:
        return None, None
    quota = to_quota(row)
    gated = [
        offer
        for one in session.exec(
            select(OfferRow).where(OfferRow.provider == row.provider, OfferRow.account == row.account)
        ).all()
        if quota.covers(offer := to_offer(one)) and offer.type.accelerator is not None
    ]
    cards = {offer.type.accelerator.name for offer in gated if offer.type.accelerator}
    if len(cards) != 1:
        return None, None
    if shown.requested is None or quota.limit is None or shown.requested <= quota.limit:
        return cards.pop(), None
    more = shown.requested - quota.limit
    return cards.pop(), max(in_gpus(quota, more, offer.type) for offer in gated) or None


def _missed(session: Session, row: QuotaRequest, now: datetime) -> None:
    """A complete listing does not show it: given up once that has been so for long."""
    last = row.seen_at or row.filed_at
    gone = last is not None and now - last > FORGOTTEN
    if gone and row.closed_at is None and row.state in REQUEST_AT_CLOUD:
        message = f"{asked_for(row)} is no longer shown by the cloud, and the limit did not move"
        move_quota_request(session, row, QuotaRequestState.EXPIRED, message, now=now, reason=NO_LONGER_SHOWN)
