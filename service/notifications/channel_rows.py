"""One row per channel that the settings name, and what is cleared away after its time."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from sqlalchemy import delete, exists
from sqlmodel import Session, col, select

from service.context import Context
from service.notifications.model import Channel, Message, Notice, Thread
from service.states import MessageState
from service.transitions import move_message

GONE = "its channel is no longer in the settings"


def keep_channels(ctx: Context) -> None:
    """Bring the rows to what the settings say. What waits for a channel that is gone is a dead letter."""
    wanted = {channel.name for channel in ctx.settings.notifications.channels}
    there = set(ctx.database.read(lambda session: session.exec(select(Channel.id)).all()))
    if wanted != there:
        ctx.database.write(lambda session: _bring(session, ctx, wanted))


def _bring(session: Session, ctx: Context, wanted: Collection[str]) -> None:
    now = ctx.now()
    there = {row.id: row for row in session.exec(select(Channel)).all()}
    for name in wanted:
        if name not in there:
            session.add(Channel(id=name, wake_at=now))
    for name, row in there.items():
        if name in wanted or (row.claim_until is not None and row.claim_until > now):
            continue
        for message in session.exec(
            select(Message).where(
                Message.channel == name, col(Message.state).in_((MessageState.WAITING, MessageState.SENDING))
            )
        ).all():
            move_message(session, message, MessageState.DEAD, now=now, error=GONE)
        session.delete(row)


def clear_old(session: Session, now: datetime, keep: timedelta) -> None:
    """Drop what was sent, or given up, longer ago than it is kept; and conversations that are long over."""
    before = now - keep
    over = col(Message.state).in_((MessageState.SENT, MessageState.DEAD))
    connection = session.connection()
    connection.execute(delete(Message).where(over, col(Message.created_at) < before))
    of_nothing = ~exists().where(col(Message.id) == col(Notice.message_id))
    connection.execute(delete(Notice).where(col(Notice.message_id).is_not(None), of_nothing))
    connection.execute(delete(Notice).where(col(Notice.message_id).is_(None), col(Notice.due_at) < before))
    connection.execute(delete(Thread).where(col(Thread.updated_at) < before))
