"""Filing: the intent is committed before the call, and a lost answer is looked for before anything is sent.

A draft that was sent once is never sent blindly again: the cloud's own list is asked first, complete, and
what it shows is adopted. Every adapter adopts an open request on top of that, so that no kill files twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from sqlmodel import Session, col, select

from providers.errors import ErrorKind, ProviderError
from providers.interface import Provider
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease
from service.context import Context
from service.db import claim_due, held, release
from service.quota_desk.heed import heed, read_limits_again
from service.quota_desk.matching import is_long_over, is_what_was_sent
from service.quota_desk.model import QuotaRequest
from service.quota_desk.sentences import asked_for
from service.states import QuotaRequestState
from service.transitions import move_quota_request

BATCH = 50
FILING_LASTS = timedelta(minutes=5)
ACCOUNT_GONE = timedelta(minutes=10)
NOT_TAKEN = "not_taken"

# Seconds until it is tried again, doubled with each failure, and the longest; the others are not tried again.
_RETRIES: dict[ErrorKind, tuple[float, float]] = {
    ErrorKind.THROTTLED: (60, 3600),
    ErrorKind.TRANSIENT: (30, 3600),
    ErrorKind.UNKNOWN: (300, 6 * 3600),
    ErrorKind.CONFLICT: (60, 3600),
    ErrorKind.QUOTA: (3600, 24 * 3600),  # too many requests are open: EC2 allows 2 a region
    ErrorKind.AUTH: (300, 3600),
    ErrorKind.CLOCK_SKEW: (60, 600),
    ErrorKind.ACCOUNT_BLOCKED: (1800, 6 * 3600),
    ErrorKind.NOT_FOUND: (600, 6 * 3600),
}


@dataclass(frozen=True, slots=True)
class _Filing:
    """A claimed draft. `resumed`: it may have been sent before. `others`: of the same quota."""

    request_id: str
    token: str
    increase: QuotaIncrease
    row: QuotaRequest
    resumed: bool
    others: tuple[QuotaRequest, ...]


def file_due(ctx: Context) -> None:
    """Claim the drafts that are due and submit the filing of each to its place's pool."""
    if ctx.stopping():
        return
    for filing in ctx.database.write(lambda session: _claim(session, ctx)):
        row = filing.row
        ctx.submit((row.provider, row.account, row.place_region), partial(_file, ctx, filing))


def _claim(session: Session, ctx: Context) -> list[_Filing]:
    """The intent: from this commit on a draft counts as sent."""
    now = ctx.now()
    draft = col(QuotaRequest.state) == QuotaRequestState.DRAFT
    claims = claim_due(
        session,
        QuotaRequest,
        draft,
        owner=ctx.owner,
        now=now,
        chance=ctx.chance,
        limit=BATCH,
        lasts=FILING_LASTS,
    )
    found = []
    for row_id, token in claims:
        row = session.get_one(QuotaRequest, row_id)
        if row.requested is None:
            continue
        resumed = row.sent_at is not None
        row.sent_at = row.sent_at or now
        session.add(row)
        increase = QuotaIncrease(row.key, row.region, row.requested, row.justification, row.contact)
        others = session.exec(select(QuotaRequest).where(QuotaRequest.quota_id == row.quota_id)).all()
        found.append(_Filing(row_id, token, increase, row, resumed, tuple(others)))
    return found


def _file(ctx: Context, filing: _Filing) -> None:
    provider = ctx.provider(filing.row.provider, filing.row.account)
    if provider is None:
        ctx.database.write(lambda session: _put_off(session, ctx, filing, ACCOUNT_GONE))
    else:
        _send(ctx, filing, provider)
    ctx.wake("quota_desk")


def _send(ctx: Context, filing: _Filing, provider: Provider) -> None:
    try:
        shown = _look(provider, filing) if filing.resumed else None
        if shown is None:
            shown = provider.request_quota(filing.increase)
    except ProviderError as error:
        failure = error
        ctx.database.write(lambda session: _failed(session, ctx, filing, failure))
        return
    answer = shown
    ctx.database.write(lambda session: _answered(session, ctx, filing, answer))
    ctx.wake("quotas")


def _look(provider: Provider, filing: _Filing) -> CloudQuotaRequest | None:
    """What an earlier filing of the draft made. ProviderError (transient) where the list has holes."""
    listing = provider.quota_requests(filing.row.place_region)
    fresh = [shown for shown in listing.requests if not is_long_over(shown, filing.others)]
    found = next((shown for shown in fresh if is_what_was_sent(filing.row, shown)), None)
    if found is None and listing.incomplete:
        holes = ", ".join(listing.incomplete)
        raise ProviderError(
            ErrorKind.TRANSIENT, f"whether it is filed cannot be told: {holes} not read", ambiguous=True
        )
    return found


def _put_off(session: Session, ctx: Context, filing: _Filing, wait: timedelta) -> None:
    row = held(session, QuotaRequest, filing.request_id, filing.token)
    if row is not None:
        row.error = "the account is not in the settings"
        release(row, ctx.now() + wait)
        session.add(row)


def _answered(session: Session, ctx: Context, filing: _Filing, shown: CloudQuotaRequest) -> None:
    row = held(session, QuotaRequest, filing.request_id, filing.token)
    if row is None or row.state is not QuotaRequestState.DRAFT:
        return
    release(row, None)
    heed(session, row, shown, now=ctx.now())


def _failed(session: Session, ctx: Context, filing: _Filing, error: ProviderError) -> None:
    """Not now, or not at all. Where it is unclear whether it was filed, that is looked up soon."""
    row = held(session, QuotaRequest, filing.request_id, filing.token)
    if row is None or row.state is not QuotaRequestState.DRAFT:
        return
    now = ctx.now()
    kind = ErrorKind.TRANSIENT if error.ambiguous else error.kind
    row.error, row.failures = str(error)[:500], row.failures + 1
    if kind in _RETRIES:
        release(row, now + timedelta(seconds=_wait(kind, row.failures, error.retry_after)))
        session.add(row)
        return
    release(row, None)
    row.decided_at = now
    message = f"{asked_for(row)} is not taken by the cloud: {error}"
    move_quota_request(session, row, QuotaRequestState.WITHDRAWN, message, now=now, reason=NOT_TAKEN)
    read_limits_again(session, row, now)


def _wait(kind: ErrorKind, failures: int, retry_after: float | None) -> float:
    first, longest = _RETRIES[kind]
    return max(retry_after or 0.0, min(longest, first * 2.0 ** min(failures - 1, 20)))
