"""Whether an account takes our credentials: told once when they fail, once when they work again."""

from __future__ import annotations

from sqlmodel import Session, col, select

from providers.errors import ErrorKind, ProviderError
from service.context import Context
from service.events.model import Event
from service.events.record import record
from service.market.model import Poll

FAILING, WORKING = "credentials_failing", "credentials_working"
ACCOUNT = "account"


def note_credentials(ctx: Context, poll: Poll, error: ProviderError | None) -> None:
    """Compare a reading's end with what was last told of its account. A first refusal may be a token that
    was just renewed; the second in a row is told.
    """
    if poll.failures == 0:
        return
    if error is None:
        ctx.database.write(lambda session: _tell(session, ctx, poll, WORKING, "credentials are taken again"))
    elif error.kind is ErrorKind.AUTH:
        ctx.database.write(lambda session: _tell(session, ctx, poll, FAILING, str(error)))


def _tell(session: Session, ctx: Context, poll: Poll, kind: str, why: str) -> None:
    account = f"{poll.provider}/{poll.account}"
    last = session.exec(
        select(Event.kind)
        .where(Event.subject == ACCOUNT, Event.subject_id == account, col(Event.kind).in_((FAILING, WORKING)))
        .order_by(col(Event.id).desc())
        .limit(1)
    ).first()
    if kind == (last or WORKING):
        return
    message = f"{account}, {poll.region}: {why[:300]}"
    record(session, kind, ACCOUNT, account, message, at=ctx.now(), region=poll.region)
