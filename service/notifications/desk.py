"""What a person does with notifications: look, send a dead letter again, try a channel."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from service.api.problems import Problem, not_found
from service.context import Context
from service.events.record import record
from service.notifications.batches import Form
from service.notifications.content import compose
from service.notifications.items import items_of
from service.notifications.model import Channel, Message, Notice
from service.notifications.router import wake_channel
from service.states import MessageState
from service.transitions import move_message

TEST = "channel_test"


def shown(message: Message) -> dict[str, Any]:
    """A message as lists have it."""
    names = ("id", "channel", "state", "form", "severity", "topic", "subject", "size", "tries", "error")
    return {
        **{name: getattr(message, name) for name in names},
        "created_at": message.created_at,
        "sent_at": message.sent_at,
    }


def in_full(session: Session, ctx: Context, message_id: str) -> dict[str, Any]:
    """A message with what it says. Problem 404 if there is none."""
    message = _found(session, message_id)
    notices = session.exec(
        select(Notice).where(Notice.message_id == message.id).order_by(col(Notice.id))
    ).all()
    items = items_of(session, ctx, notices)
    said: dict[str, Any] = {"title": None, "lines": [], "listed": [], "command": None, "link": None}
    if items:
        content = compose(message.id, Form(message.form), items, message.created_at)
        said = {
            "title": content.title,
            "lines": content.lines,
            "listed": content.listed,
            "command": content.command,
            "link": content.link,
        }
    return {**shown(message), **said, "event_ids": [notice.event_id for notice in notices]}


def resend(session: Session, message_id: str, *, now: datetime) -> Message:
    """Have a dead letter sent again, under its old id. Problem 404, or 409 if it is not one."""
    session.exec(select(Message.id).where(Message.id == message_id).with_for_update()).first()
    message = _found(session, message_id)
    if message.state is not MessageState.DEAD:
        raise Problem(409, f"the message is {message.state}; only a dead one is sent again", code="not_dead")
    if session.get(Channel, message.channel) is None:
        raise Problem(409, f"the settings have no channel {message.channel} any more", code="no_channel")
    message.tries = 0
    move_message(session, message, MessageState.WAITING, now=now)
    wake_channel(session, message.channel, now)
    return message


def try_channel(session: Session, name: str, *, by: str, now: datetime) -> str:
    """Have a message sent to a channel that says that it is a test; its subject. Problem 404."""
    if session.get(Channel, name) is None:
        raise not_found(f"channel {name}")
    record(session, TEST, "channel", name, f"channel {name} works: this message arrived", at=now, by=by)
    return f"channel/{name}"


def channels(session: Session, ctx: Context) -> list[dict[str, Any]]:
    """Every channel of the settings, how it does and what waits for it."""
    rows = {row.id: row for row in session.exec(select(Channel)).all()}
    waiting = dict(
        session.exec(
            select(Notice.channel, func.count())
            .where(col(Notice.message_id).is_(None))
            .group_by(col(Notice.channel))
        ).all()
    )
    dead = dict(
        session.exec(
            select(Message.channel, func.count())
            .where(Message.state == MessageState.DEAD)
            .group_by(col(Message.channel))
        ).all()
    )
    found = []
    for config in ctx.settings.notifications.channels:
        row = rows.get(config.name) or Channel(id=config.name)
        found.append(
            {
                "name": config.name,
                "type": config.type,
                "failures": row.failures,
                "error": row.error,
                "closed_until": row.closed_until,
                "sent_at": row.sent_at,
                "events_waiting": waiting.get(config.name, 0),
                "dead": dead.get(config.name, 0),
            }
        )
    return found


def _found(session: Session, message_id: str) -> Message:
    message = session.get(Message, message_id)
    if message is None:
        raise not_found(f"notification {message_id}")
    return message
