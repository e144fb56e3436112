"""The quota desk's loop: rules ask, drafts are filed, requests followed, asked for anew, or given up."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session, col, select

from service.context import Context
from service.db.due import next_due
from service.market.model import Poll
from service.market.places import read_due
from service.quota_desk.filing import file_due
from service.quota_desk.follow import store
from service.quota_desk.model import QuotaRequest
from service.quota_desk.refiling import refile_due
from service.quota_desk.rules import Rules
from service.quota_desk.sentences import asked_for
from service.states import QuotaRequestState
from service.transitions import move_quota_request

KIND = "quota_requests"
UNDECIDED = "undecided"


class Desk:
    """Its rules remember which jobs they have looked at."""

    def __init__(self) -> None:
        self._rules = Rules()

    def step(self, ctx: Context) -> datetime | None:
        """Do what is due; when the next thing is."""
        self._rules.apply(ctx)
        due = ctx.database.read(_next_due)
        if due is not None and due <= ctx.now():
            expire_due(ctx)
            refile_due(ctx)
            file_due(ctx)
            read_due(ctx, KIND, lambda provider, region: provider.quota_requests(region), store)
        dues = (ctx.database.read(_next_due), self._rules.due(ctx))
        return min((due for due in dues if due is not None), default=None)


def expire_due(ctx: Context) -> None:
    """A proposal that nobody decided is given up."""
    now = ctx.now()

    def expire(session: Session) -> None:
        waiting = col(QuotaRequest.state) == QuotaRequestState.PROPOSED
        rows = session.exec(
            select(QuotaRequest).where(waiting, col(QuotaRequest.wake_at) <= now).with_for_update()
        ).all()
        for row in rows:
            row.decided_at, row.wake_at = now, None
            message = f"{asked_for(row)} was proposed and nobody decided in time"
            move_quota_request(session, row, QuotaRequestState.EXPIRED, message, now=now, reason=UNDECIDED)

    ctx.database.write(expire)


def _next_due(session: Session) -> datetime | None:
    dues = [
        next_due(session, Poll, col(Poll.kind) == KIND),
        next_due(session, QuotaRequest),
    ]
    return min((due for due in dues if due is not None), default=None)
