"""Which of our rows a request is that a cloud lists. Pure.

Ids do not settle it alone: a filing whose answer was lost has none yet, and GCE has one preference a quota,
whose id stays when it is asked for anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from providers.quota_requests import CloudQuotaRequest, ReviewState
from service.quota_desk.model import QuotaRequest
from service.states import REQUEST_AT_CLOUD, REQUEST_DECIDED, QuotaRequestState

CLOCKS_DIFFER = timedelta(minutes=5)
"""How far a vendor's clock may be from ours."""
OPEN_THERE = frozenset({ReviewState.FILED, ReviewState.IN_REVIEW})


def match(shown: CloudQuotaRequest, rows: Iterable[QuotaRequest]) -> QuotaRequest | None:
    """The row of a listed request; None if it was filed by hand and is new to us. `rows`: those of its
    account.
    """
    of_quota = sorted(
        (row for row in rows if (row.key, row.region) == (shown.key, shown.region)),
        key=lambda row: (row.created_at, row.id),
        reverse=True,
    )
    named = [row for row in of_quota if row.provider_id == shown.provider_id]
    under_way = next((row for row in named if row.state in REQUEST_AT_CLOUD), None)
    if under_way is not None:
        return under_way
    sent = [row for row in of_quota if is_what_was_sent(row, shown)]
    draft = sent[0] if sent and not is_long_over(shown, named) else None
    if draft is not None:
        return draft
    over = next((row for row in named if row.state in REQUEST_DECIDED | {QuotaRequestState.EXPIRED}), None)
    return None if over is not None and shown.state in OPEN_THERE else over


def is_long_over(shown: CloudQuotaRequest, rows: Iterable[QuotaRequest]) -> bool:
    """True if a row has this very end of the request already: what is sent later is another one."""
    newest = _newest(shown)
    return shown.state not in OPEN_THERE and any(
        row.provider_id == shown.provider_id
        and row.state in REQUEST_DECIDED
        and row.decided_at is not None
        and (newest is None or newest <= row.decided_at)
        for row in rows
    )


def is_what_was_sent(row: QuotaRequest, shown: CloudQuotaRequest) -> bool:
    """True if a listed request is what a draft asks for: an open one always is, since it is adopted whatever
    it asks for; one that is over only if it was filed, or decided, after the draft was sent.
    """
    if row.state is not QuotaRequestState.DRAFT or (row.key, row.region) != (shown.key, shown.region):
        return False
    if shown.state in OPEN_THERE:
        return True
    if row.sent_at is None or shown.requested != row.requested:
        return False
    newest = _newest(shown)
    return newest is not None and newest >= row.sent_at - CLOCKS_DIFFER


def _newest(shown: CloudQuotaRequest) -> datetime | None:
    return max((at for at in (shown.filed_at, shown.changed_at) if at is not None), default=None)
