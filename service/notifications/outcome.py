"""What a receiver's answer means for the message and its channel."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from sqlmodel import Session

from service.context import Context
from service.db import held, release
from service.notifications.channels.protocol import Refused, Sent
from service.notifications.model import Channel, Message, Thread
from service.notifications.queue import Claim, is_waiting
from service.states import MessageState
from service.transitions import move_message

log = structlog.get_logger(__name__)

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(minutes=10)
JITTER = 0.1


def thread_id(channel: str, subject: str) -> str:
    """The row of a conversation."""
    return f"{channel}/{subject}"


def note_outcome(session: Session, ctx: Context, claim: Claim, outcome: Sent | Refused) -> None:
    """Write an answer down and give the channel back; nothing if someone else has it by now."""
    name, token, message_id, _ = claim
    channel = held(session, Channel, name, token)
    message = session.get(Message, message_id)
    if channel is None or message is None:
        return
    now = ctx.now()
    message.receipt = {**message.receipt, **outcome.receipt}
    channel.closed_until = now + _pause(ctx, name)
    wait = timedelta(0)
    if isinstance(outcome, Sent):
        _sent(session, channel, message, outcome, now)
    else:
        wait = _refused(session, ctx, channel, message, outcome, now)
    session.add(message)
    session.flush()
    release(channel, max(now + wait, channel.closed_until) if is_waiting(session, name) else None)
    session.add(channel)


def _pause(ctx: Context, name: str) -> timedelta:
    config = ctx.settings.notifications.channel(name)
    return timedelta(seconds=config.pause if config is not None else 0.0)


def _sent(session: Session, channel: Channel, message: Message, outcome: Sent, now: datetime) -> None:
    message.uncertain = False
    move_message(session, message, MessageState.SENT, now=now)
    if channel.failures:
        log.info("channel_works_again", channel=channel.id, failures=channel.failures)
    channel.failures, channel.error, channel.sent_at = 0, None, now
    if message.subject is not None and outcome.thread is not None:
        session.merge(
            Thread(
                id=thread_id(channel.id, message.subject),
                channel=channel.id,
                subject=message.subject,
                receipt=dict(outcome.thread),
                updated_at=now,
            )
        )


def _refused(
    session: Session, ctx: Context, channel: Channel, message: Message, outcome: Refused, now: datetime
) -> timedelta:
    """How long the channel rests. A wait that the receiver asked for is no failed try of the message."""
    message.uncertain = outcome.uncertain
    channel.error = outcome.reason[:500]
    if outcome.retry_after is not None:
        wait = timedelta(seconds=outcome.retry_after)
        channel.closed_until = max(now + wait, channel.closed_until or now)
        _log_failure(channel)
        move_message(session, message, MessageState.WAITING, now=now, error=channel.error)
        return wait
    message.tries += 1
    if outcome.final:
        move_message(session, message, MessageState.DEAD, now=now, error=channel.error)
        return timedelta(0)
    _log_failure(channel)
    if message.tries >= ctx.settings.notifications.tries:
        move_message(session, message, MessageState.DEAD, now=now, error=channel.error)
    else:
        move_message(session, message, MessageState.WAITING, now=now, error=channel.error)
    seconds = min(FIRST_WAIT * float(2 ** min(channel.failures - 1, 20)), LONGEST_WAIT).total_seconds()
    return timedelta(seconds=seconds * (1 + JITTER * ctx.chance.random()))


def _log_failure(channel: Channel) -> None:
    """At the 1st, 2nd, 4th, 8th … failure in a row: a receiver that is down for days fills no log."""
    channel.failures += 1
    if channel.failures & (channel.failures - 1) == 0:
        log.warning("channel_fails", channel=channel.id, failures=channel.failures, reason=channel.error)
