"""The quota loop: reads the limits of each place; what cannot be read keeps its last reading and its age."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from sqlmodel import Session, col, select

from providers.quotas import QuotaListing
from service.context import Context
from service.db import after_commit
from service.db.due import next_due
from service.events.record import record
from service.market.blocks import lift_for_quota, wake_waiting
from service.market.model import Poll
from service.market.places import read_due
from service.quota_desk.effect import note_limit, pending_effects
from service.quotas.history import forget_history, keep_history
from service.quotas.model import QuotaRow
from service.quotas.rows import to_quota, to_row

KIND = "quotas"


def step(ctx: Context) -> datetime | None:
    """Submit a reading for each place that is due; when the next one is."""
    due = ctx.database.read(_next_due)
    if due is None or due > ctx.now():
        return due
    read_due(ctx, KIND, lambda provider, region: provider.quotas(region), _store)
    return ctx.database.read(_next_due)


def _next_due(session: Session) -> datetime | None:
    return next_due(session, Poll, col(Poll.kind) == KIND)


def _store(session: Session, ctx: Context, poll: Poll, listing: QuotaListing) -> None:
    """Keep the readings; those of the region that are gone are dropped, unless part of it was not read.

    A limit that has risen lifts the blocks that it caused, and tells how requests for it came out.
    """
    rows = [to_row(poll.provider, poll.account, quota) for quota in listing.quotas]
    pending = pending_effects(session, poll.provider, poll.account)
    for row in rows:
        before = session.get(QuotaRow, row.id)
        keep_history(session, before, row)
        if before is not None:
            _tell_move(session, ctx, before, row)
            if _has_risen(before, row):
                lift_for_quota(session, to_quota(row), poll.provider, poll.account)
        note_limit(session, pending, row, now=ctx.now())
        session.merge(row)
    forget_history(session, ctx.now())
    if pending:
        after_commit(session, partial(ctx.wake, "quota_desk"))
    if not listing.incomplete:
        seen = {row.id for row in rows}
        of_region = select(QuotaRow).where(
            QuotaRow.provider == poll.provider,
            QuotaRow.account == poll.account,
            QuotaRow.region == poll.region,
        )
        for row in session.exec(of_region).all():
            if row.id not in seen:
                session.delete(row)
    wake_waiting(session, ctx.now())


def _has_risen(before: QuotaRow, now: QuotaRow) -> bool:
    return before.limit is not None and now.limit is not None and now.limit > before.limit


def _tell_move(session: Session, ctx: Context, before: QuotaRow, now: QuotaRow) -> None:
    """A limit that moved is news."""
    if before.limit == now.limit or before.limit is None or now.limit is None:
        return
    where = f"{now.provider}/{now.region or now.account}"
    message = f"{where}: {now.name} went from {before.limit:g} to {now.limit:g} {now.unit}"
    record(session, "quota_moved", "quota", now.id[:64], message, at=ctx.now(), key=now.key)
