"""The notifications loop: routes what is in the outbox, sends what is due, and writes down how that went.

A job never waits for any of this. At most one message is on its way to a channel; what a receiver said is
written down before another is sent, and kept in memory as long as the database does not take it.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlmodel import Session, col, select

from service.context import Context
from service.db.due import next_due
from service.notifications.batches import Form
from service.notifications.channel_rows import clear_old, keep_channels
from service.notifications.channels.build import sender
from service.notifications.channels.protocol import Parcel, Refused, Sent
from service.notifications.content import compose
from service.notifications.items import items_of
from service.notifications.model import Channel, Message, Notice, Thread
from service.notifications.outcome import note_outcome, thread_id
from service.notifications.queue import Claim, claim_messages
from service.notifications.router import route
from service.notifications.waits import LongWaits
from service.references import UnresolvedError

log = structlog.get_logger(__name__)

CLEAR_EVERY = timedelta(hours=1)
SAVE_AGAIN = timedelta(seconds=1)
POOL = "notifications"


class Notifier:
    """Remembers what is on its way from this process, whatever the clock and the claims say of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._unsaved: dict[str, tuple[Claim, Sent | Refused]] = {}
        self._waits = LongWaits()
        self._cleared_at: datetime | None = None

    def step(self, ctx: Context) -> datetime | None:
        """Route, and submit a message for each channel that is due; when the next one is."""
        keep_channels(ctx)
        look = self._waits.tell(ctx)
        route(ctx)
        self._save(ctx)
        self._clear(ctx)
        now, busy = ctx.now(), self._busy()
        due = ctx.database.read(lambda session: _next_due(session, busy))
        if due is not None and due <= now and not ctx.stopping():
            for claim in ctx.database.write(lambda session: claim_messages(session, ctx, busy)):
                with self._lock:
                    self._under_way.add(claim[0])
                ctx.submit((POOL, claim[0], ""), partial(self._send, ctx, claim))
        if self._unsaved:
            return ctx.now() + SAVE_AGAIN
        busy = self._busy()
        due = ctx.database.read(lambda session: _next_due(session, busy))
        return look if due is None else min(due, look)

    def _busy(self) -> set[str]:
        with self._lock:
            return set(self._under_way)

    def _send(self, ctx: Context, claim: Claim) -> None:
        """Runs in the channel's pool."""
        try:
            outcome = deliver(ctx, claim)
        except Exception:
            log.exception("message_failed", channel=claim[0], message=claim[2])
            outcome = Refused("a fault of ours; the log says which", uncertain=True)
        with self._lock:
            self._unsaved[claim[0]] = (claim, outcome)
        self._save(ctx)
        ctx.wake(POOL)

    def _save(self, ctx: Context) -> None:
        """Write down every outcome that is not yet; one that cannot be is kept, and its channel with it."""
        with self._lock:
            unsaved = dict(self._unsaved)
        for name, (claim, outcome) in unsaved.items():
            try:
                ctx.database.write(partial(_note, ctx, claim, outcome))
            except Exception:
                log.exception("outcome_not_saved", channel=name, message=claim[2])
                continue
            with self._lock:
                self._unsaved.pop(name, None)
                self._under_way.discard(name)

    def _clear(self, ctx: Context) -> None:
        now = ctx.now()
        if self._cleared_at is not None and timedelta(0) <= now - self._cleared_at < CLEAR_EVERY:
            return
        self._cleared_at = now
        keep = timedelta(seconds=ctx.settings.notifications.keep)
        ctx.database.write(lambda session: clear_old(session, now, keep))


def _note(ctx: Context, claim: Claim, outcome: Sent | Refused, session: Session) -> None:
    note_outcome(session, ctx, claim, outcome)


def _next_due(session: Session, busy: set[str]) -> datetime | None:
    return next_due(session, Channel, col(Channel.id).not_in(busy))


def deliver(ctx: Context, claim: Claim) -> Sent | Refused:
    """Take a claimed message to its channel."""
    name, _, message_id, uncertain = claim
    config = ctx.settings.notifications.channel(name)
    if config is None:
        return Refused("the channel is no longer in the settings")
    parcel = ctx.database.read(lambda session: _parcel(session, ctx, message_id, uncertain=uncertain))
    if parcel is None:
        return Refused("its events are no longer kept", final=True)
    try:
        way = sender(config, ctx.settings.notifications, ctx.environment, ctx.clock)
    except UnresolvedError as error:
        return Refused(str(error))
    return way.send(parcel)


def _parcel(session: Session, ctx: Context, message_id: str, *, uncertain: bool) -> Parcel | None:
    message = session.get_one(Message, message_id)
    notices = session.exec(
        select(Notice).where(Notice.message_id == message_id).order_by(col(Notice.id))
    ).all()
    items = items_of(session, ctx, notices)
    if not items:
        return None
    thread = None
    if message.subject is not None:
        thread = session.get(Thread, thread_id(message.channel, message.subject))
    return Parcel(
        content=compose(message.id, Form(message.form), items, message.created_at),
        deployment=ctx.deployment_id,
        uncertain=uncertain,
        receipt=message.receipt,
        thread=thread.receipt if thread is not None else None,
    )
