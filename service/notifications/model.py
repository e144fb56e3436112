"""Tables: the outbox, and what became of it.

An event that may concern someone is in `outbox` from the moment it is true. Routes make it into one notice a
channel; notices are put together into messages; a message is sent until its receiver has it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import BigInteger, Field, Index, Integer, SQLModel

from service.db import Claimable, choice, document
from service.notifications.topics import Severity
from service.states import MessageState

_COUNTER = BigInteger().with_variant(Integer, "sqlite")


class Outbox(SQLModel, table=True):
    """An event that no route was asked about yet. Written with the event; gone once it is routed."""

    id: int | None = Field(default=None, primary_key=True, sa_type=_COUNTER)
    event_id: int = Field(sa_type=BigInteger)


class Notice(SQLModel, table=True):
    """One event for one channel. `held`: it waits for `due_at` to go out with others, as a digest.
    `message_id` is set once it is part of a message, and stays.
    """

    __table_args__ = (Index("notice_by_channel", "channel", "message_id", "due_at"),)

    id: int | None = Field(default=None, primary_key=True, sa_type=_COUNTER)
    event_id: int = Field(sa_type=BigInteger)
    channel: str = Field(max_length=40)
    topic: str = Field(max_length=48)
    severity: Severity = Field(sa_type=choice(Severity))
    subject: str = Field(max_length=96)
    due_at: datetime
    held: bool = False
    message_id: str | None = Field(default=None, max_length=40, index=True)


class Message(SQLModel, table=True):
    """What a receiver gets. Its id never changes, so a receiver can tell a second copy.

    `form` says how its notices are put together (`service.notifications.batches.Form`). `uncertain`: it was
    sent and no answer is known, so it may have arrived. `tries` counts refusals, waits that the receiver
    asked for apart. `receipt` is what the receiver told of it: Slack's channel and ts.
    """

    __table_args__ = (Index("message_by_channel", "channel", "state", "id"),)

    id: str = Field(primary_key=True, max_length=40)
    channel: str = Field(max_length=40)
    form: str = Field(max_length=16)
    subject: str | None = Field(default=None, max_length=96)
    topic: str | None = Field(default=None, max_length=48)
    severity: Severity = Field(sa_type=choice(Severity))
    size: int
    state: MessageState = Field(default=MessageState.WAITING, sa_type=choice(MessageState))
    uncertain: bool = False
    tries: int = 0
    error: str | None = Field(default=None, max_length=500)
    receipt: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    created_at: datetime = Field(index=True)
    sent_at: datetime | None = None


class Channel(Claimable, table=True):
    """One way out, as the settings name it. Claimed while something is sent, so that one message at a time is
    under way. `closed_until`: nothing is sent before, for the receiver asked us to wait, or had a message
    just now.
    """

    id: str = Field(primary_key=True, max_length=40)
    closed_until: datetime | None = None
    failures: int = 0
    error: str | None = Field(default=None, max_length=500)
    sent_at: datetime | None = None


class Thread(SQLModel, table=True):
    """The conversation about one job or request on one channel: `receipt` is that of its first message."""

    id: str = Field(primary_key=True, max_length=160)
    channel: str = Field(max_length=40)
    subject: str = Field(max_length=96)
    receipt: dict[str, Any] = Field(default_factory=dict, sa_type=document())
    updated_at: datetime = Field(index=True)
