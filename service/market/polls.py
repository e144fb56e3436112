"""Places that are read again and again: who reads them, when, and how it went."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import update
from sqlmodel import Session, col, select

from providers.vocabulary import OfferKey
from service.context import Context
from service.db import claim_due, held, release
from service.market.model import Poll

READING_LASTS = timedelta(minutes=5)
FIRST_RETRY = timedelta(seconds=15)
JITTER = 0.1
KINDS = ("offers", "instances", "quotas", "quota_requests", "reservations", "signals")
"""What is read of each place; how often each is, is `times.poll_KIND`."""


def plan_polls(ctx: Context) -> None:
    """One row per kind and place that the settings name; rows of places that are gone are dropped."""
    wanted = {
        f"{kind}/{provider}/{account}/{region}": (kind, provider, account, region)
        for (provider, account), adapter in ctx.providers.items()
        for region in adapter.regions
        for kind in KINDS
    }

    def plan(session: Session) -> None:
        there = {poll.id: poll for poll in session.exec(select(Poll)).all()}
        for poll_id, poll in there.items():
            if poll_id not in wanted:
                session.delete(poll)
        for poll_id, (kind, provider, account, region) in wanted.items():
            if poll_id not in there:
                session.add(
                    Poll(
                        id=poll_id,
                        kind=kind,
                        provider=provider,
                        account=account,
                        region=region,
                        wake_at=ctx.now(),
                    )
                )

    ctx.database.write(plan)


def claim_polls(ctx: Context, kind: str) -> Sequence[tuple[Poll, str]]:
    """The places of a kind that are due, claimed."""

    def claim(session: Session) -> list[tuple[Poll, str]]:
        claims = claim_due(
            session,
            Poll,
            col(Poll.kind) == kind,
            owner=ctx.owner,
            now=ctx.now(),
            chance=ctx.chance,
            limit=200,
            lasts=READING_LASTS,
        )
        return [(session.get_one(Poll, poll_id), token) for poll_id, token in claims]

    return ctx.database.write(claim)


def note_poll(ctx: Context, poll_id: str, token: str, *, error: str | None) -> None:
    """Give a place back: due again after its interval, sooner after a failure."""
    times = ctx.settings.times

    def write(session: Session) -> None:
        poll = held(session, Poll, poll_id, token)
        if poll is None:
            return
        now = ctx.now()
        usual: float = getattr(times, f"poll_{poll.kind}")
        poll.failures = 0 if error is None else poll.failures + 1
        wait = usual
        if error is not None:
            wait = min(usual, FIRST_RETRY.total_seconds() * 2 ** min(poll.failures - 1, 10))
        else:
            poll.succeeded_at = now
        poll.tried_at, poll.error = now, error[:500] if error else None
        release(poll, now + timedelta(seconds=wait * (1 + JITTER * ctx.chance.random())))
        session.add(poll)

    ctx.database.write(write)


def read_again(session: Session, kind: str, key: OfferKey, now: datetime) -> None:
    """Have the place of an offer read now: what we last read of it was just proved wrong."""
    session.connection().execute(
        update(Poll)
        .where(col(Poll.id) == f"{kind}/{key.provider}/{key.account}/{key.region}", col(Poll.wake_at) > now)
        .values(wake_at=now)
    )
