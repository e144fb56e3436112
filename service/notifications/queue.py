"""What a channel sends next, committed before it is sent: a process that dies leaves a message that is known
to have been on its way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import case, func
from sqlmodel import Session, col, select

from service.context import Context
from service.db import claim_due, release
from service.identifiers import new_id
from service.notifications.batches import Batch, Form, Pending, next_batch
from service.notifications.model import Channel, Message, Notice
from service.notifications.topics import Severity
from service.states import MessageState
from service.transitions import move_message

OPEN = (MessageState.WAITING, MessageState.SENDING)
STORM_LASTS = timedelta(seconds=60)
LOOKED_AT = 2000
SENDING_LASTS = timedelta(minutes=5)
"""Longer than a channel needs for a message, all its calls together."""

LONGEST_CLOSED = timedelta(hours=1)
"""What a receiver may ask us to wait; one that is closed for longer is so by a clock that was set."""

Claim = tuple[str, str, str, bool]
"""Channel, the claim's token, the message's id, and whether it may have arrived before."""


def claim_messages(session: Session, ctx: Context, busy: Collection[str]) -> list[Claim]:
    """Claim every channel that is due and not `busy` here, with the message that it sends now."""
    claims: list[Claim] = []
    names = [channel.name for channel in ctx.settings.notifications.channels if channel.name not in busy]
    for name, token in claim_due(
        session,
        Channel,
        col(Channel.id).in_(names),
        owner=ctx.owner,
        now=ctx.now(),
        chance=ctx.chance,
        limit=100,
        lasts=SENDING_LASTS,
    ):
        channel = session.get_one(Channel, name, populate_existing=True)
        message = _next_message(session, ctx, channel)
        if message is None:
            continue
        claims.append((name, token, message.id, message.uncertain))
        message.uncertain = True
        if message.state is MessageState.WAITING:
            move_message(session, message, MessageState.SENDING, now=ctx.now())
        session.add(message)
    return claims


def _next_message(session: Session, ctx: Context, channel: Channel) -> Message | None:
    """The message to send now; None gives the channel back until there may be one."""
    now, settings = ctx.now(), ctx.settings.notifications
    if channel.closed_until is not None and now < channel.closed_until <= now + LONGEST_CLOSED:
        release(channel, channel.closed_until)
        session.add(channel)
        return None
    opened = _open(session, channel.id)
    pending = _pending(session, channel.id)
    stormy = _stormy(session, channel.id, settings.storm, now)
    batch = next_batch(
        pending,
        now,
        busy=_subjects(session, opened),
        stormy=stormy,
        storm=settings.storm,
        pages_only=bool(opened),
    )
    if opened and (batch is None or opened[0].severity is Severity.PAGE):
        return opened[0]
    if batch is not None:
        return _make(session, ctx, channel.id, batch)
    release(channel, _next_look(pending, stormy, now))
    session.add(channel)
    return None


def is_waiting(session: Session, channel: str) -> bool:
    """True if the channel has anything to send, now or later."""
    unsent = select(Notice.id).where(Notice.channel == channel, col(Notice.message_id).is_(None))
    return session.exec(unsent.limit(1)).first() is not None or bool(_open(session, channel))


def _open(session: Session, channel: str) -> Sequence[Message]:
    """Messages that are not through; pages first, then by age."""
    page_first = case((col(Message.severity) == Severity.PAGE, 0), else_=1)
    statement = select(Message).where(Message.channel == channel, col(Message.state).in_(OPEN))
    return session.exec(statement.order_by(page_first, col(Message.id))).all()


def _subjects(session: Session, messages: Sequence[Message]) -> set[str]:
    if not messages:
        return set()
    ids = [message.id for message in messages]
    return set(session.exec(select(Notice.subject).where(col(Notice.message_id).in_(ids)).distinct()).all())


def _pending(session: Session, channel: str) -> list[Pending]:
    page_first = case((col(Notice.severity) == Severity.PAGE, 0), else_=1)
    statement = (
        select(Notice)
        .where(Notice.channel == channel, col(Notice.message_id).is_(None))
        .order_by(page_first, col(Notice.id))
        .limit(LOOKED_AT)
    )
    rows = sorted(session.exec(statement).all(), key=lambda row: row.id or 0)
    return [Pending(row.id or 0, row.topic, row.severity, row.subject, row.due_at, row.held) for row in rows]


def _stormy(session: Session, channel: str, storm: int, now: datetime) -> Mapping[str, datetime]:
    """Topics that had their share within a minute: so many messages, or one of a storm. More is collected."""
    since = now - STORM_LASTS
    rows = session.connection().execute(
        select(
            col(Message.topic),
            func.count(),
            func.min(col(Message.created_at)),
            func.sum(case((col(Message.form) == Form.STORM, 1), else_=0)),
        )
        .where(Message.channel == channel, col(Message.created_at) > since, col(Message.created_at) <= now)
        .where(col(Message.topic).is_not(None))
        .group_by(col(Message.topic))
    )
    return {topic: first + STORM_LASTS for topic, count, first, storms in rows if storms or count >= storm}


def _next_look(pending: Sequence[Pending], stormy: Mapping[str, datetime], now: datetime) -> datetime | None:
    """When something may be due that is not now; None if nothing waits."""
    moments = [
        one.due_at if one.due_at > now else stormy.get(one.topic, now + STORM_LASTS) for one in pending
    ]
    return min(moments, default=None)


def _make(session: Session, ctx: Context, channel: str, batch: Batch) -> Message:
    now = ctx.now()
    message = Message(
        id=new_id("m", now, ctx.chance),
        channel=channel,
        form=batch.form,
        subject=batch.subject,
        topic=batch.topic,
        severity=batch.severity,
        size=len(batch.notices),
        created_at=now,
    )
    session.add(message)
    for notice in session.exec(select(Notice).where(col(Notice.id).in_(batch.notices))).all():
        notice.message_id = message.id
        session.add(notice)
    session.flush()
    return message
