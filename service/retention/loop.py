"""The retention loop: once an hour, what is past its time is deleted, bytes first, then the rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog
from sqlmodel import Session

from service.context import Context
from service.retention.rules import (
    BATCH,
    JOBS,
    drop_blobs,
    drop_events,
    drop_instances,
    drop_jobs,
    drop_logs,
    old_logs,
)

log = structlog.get_logger(__name__)

EVERY = timedelta(hours=1)
POOL = ("retention", "", "")


class Drop(Protocol):
    """Deletes a batch of what is older than `before`; how many."""

    def __call__(self, session: Session, before: datetime) -> int: ...


class Retention:
    """Remembers when it last looked. Several processes may look at once: each row is deleted by one."""

    def __init__(self) -> None:
        self._next: datetime | None = None

    def step(self, ctx: Context) -> datetime | None:
        """Submit the work, in a thread of its own; when it is due again."""
        now = ctx.now()
        if self._next is None or not now < self._next <= now + EVERY:
            self._next = now + EVERY
            if not ctx.stopping():
                ctx.submit(POOL, partial(clear, ctx))
        return self._next


def clear(ctx: Context) -> None:
    """Delete all that is past its time. A kill in between leaves the rest for the next time."""
    now, kept = ctx.now(), ctx.settings.retention
    logs, blobs = now - timedelta(seconds=kept.logs), now - timedelta(seconds=kept.blobs)
    events, jobs = now - timedelta(seconds=kept.events), now - timedelta(seconds=kept.jobs)
    _alone("logs", lambda: _logs(ctx, logs))
    _alone("blobs", lambda: _blobs(ctx, blobs))
    _alone("events", lambda: _rows(ctx, "events", drop_events, events, BATCH))
    _alone("jobs", lambda: _rows(ctx, "jobs", drop_jobs, jobs, JOBS))
    _alone("instances", lambda: _rows(ctx, "instances", drop_instances, jobs, BATCH))


def _alone(what: str, work: Callable[[], None]) -> None:
    """What of one kind cannot be deleted, such as bytes in a store that refuses, keeps no other kind."""
    try:
        work()
    except Exception:
        log.exception("retention_failed", what=what)


def _logs(ctx: Context, before: datetime) -> None:
    while not ctx.stopping():
        old = ctx.database.read(partial(old_logs, before=before))
        for one in old:
            for key in one.keys:
                ctx.store.delete(key)
        if old:
            gone = [one.attempt_id for one in old]
            ctx.database.write(partial(drop_logs, attempts=gone, now=ctx.now()))
            log.info("retention", what="logs", deleted=len(gone))
        if len(old) < JOBS:
            return


def _blobs(ctx: Context, before: datetime) -> None:
    """The row goes first: a job that is submitted meanwhile is told that the upload is gone. A kill before
    the bytes are deleted leaves them in the store.
    """
    keys = ctx.database.write(partial(drop_blobs, before=before, now=ctx.now()))
    for key in keys:
        ctx.store.delete(key)
    if keys:
        log.info("retention", what="blobs", deleted=len(keys))


def _rows(ctx: Context, what: str, drop: Drop, before: datetime, batch: int) -> None:
    while not ctx.stopping():
        deleted = ctx.database.write(partial(drop, before=before))
        if deleted:
            log.info("retention", what=what, deleted=deleted)
        if deleted < batch:
            return
