"""The watcher: asks the clouds about our instances, one by one while they start, by listing ever after.

A listing also shows what we do not know: see `service.instances.sweep`. A place that could not be read says
nothing about what is in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from sqlmodel import Session, col, select

from providers.errors import ProviderError
from providers.interface import Provider
from providers.vocabulary import CloudInstance, Listing
from providers.vocabulary import InstanceState as CloudState
from service.context import Context, Place
from service.db import claim_due, held, release
from service.db.due import next_due
from service.instances.facts import note
from service.instances.model import Instance
from service.instances.sweep import sweep
from service.market.model import Poll
from service.market.polls import claim_polls, note_poll
from service.states import InstanceState

WATCHED = (InstanceState.PENDING, InstanceState.RUNNING)
STARTING_EVERY = timedelta(seconds=3)
RUNNING_EVERY = timedelta(seconds=30)
SILENT_EVERY = timedelta(seconds=10)
BATCH = 500
CALLS = 100

Claims = list[tuple[Instance, str]]


def step(ctx: Context) -> datetime | None:
    """Claim what is due, submit a call per place; when more is due."""
    now = ctx.now()
    starting, listing = ctx.database.read(_next_dues)
    if starting is not None and starting <= now:
        for place, claims in ctx.database.write(partial(_claim, ctx)).items():
            for start in range(0, len(claims), CALLS):
                ctx.submit(place, partial(describe, ctx, place, claims[start : start + CALLS]))
    if listing is not None and listing <= now:
        for poll, token in claim_polls(ctx, "instances"):
            ctx.submit((poll.provider, poll.account, poll.region), partial(list_place, ctx, poll, token))
    return min((due for due in ctx.database.read(_next_dues) if due is not None), default=None)


def _next_dues(session: Session) -> tuple[datetime | None, datetime | None]:
    watched = (col(Instance.state).in_(WATCHED), col(Instance.provider_id).is_not(None))
    return next_due(session, Instance, *watched), next_due(session, Poll, col(Poll.kind) == "instances")


def _claim(ctx: Context, session: Session) -> dict[Place, Claims]:
    by_place: dict[Place, Claims] = defaultdict(list)
    for instance_id, token in claim_due(
        session,
        Instance,
        col(Instance.state).in_(WATCHED),
        col(Instance.provider_id).is_not(None),
        owner=ctx.owner,
        now=ctx.now(),
        chance=ctx.chance,
        limit=BATCH,
    ):
        instance = session.get_one(Instance, instance_id)
        by_place[instance.provider, instance.account, instance.region].append((instance, token))
    return by_place


def describe(ctx: Context, place: Place, claims: Claims) -> None:
    """Ask about some instances of one place: runs in its pool."""
    provider = ctx.provider(*place[:2])
    facts: Sequence[CloudInstance | None] = [None] * len(claims)
    if provider is not None:
        try:
            facts = provider.describe([instance.ref for instance, _ in claims])
        except ProviderError:
            facts = [None] * len(claims)

    def write(session: Session) -> None:
        for (instance, token), fact in zip(claims, facts, strict=True):
            row = held(session, Instance, instance.id, token)
            if row is None:
                continue
            release(row, ctx.now() + _interval(ctx, row))
            session.add(row)
            if fact is not None and provider is not None:
                note(session, ctx, row, fact, provider.consistency_window)

    ctx.database.write(write)
    _wake(ctx)


def _interval(ctx: Context, instance: Instance) -> timedelta:
    if instance.state is not InstanceState.RUNNING:
        return STARTING_EVERY
    silent = timedelta(seconds=ctx.settings.times.silent_after)
    seen = instance.agent_seen_at
    return SILENT_EVERY if seen is not None and ctx.now() - seen > silent else RUNNING_EVERY


def list_place(ctx: Context, poll: Poll, token: str) -> None:
    """List one place whole: runs in its pool."""
    provider = ctx.provider(poll.provider, poll.account)
    if provider is None:
        return
    try:
        listing = provider.list_instances(poll.region, ctx.deployment_id)
    except ProviderError as error:
        note_poll(ctx, poll.id, token, error=str(error))
        return
    ctx.database.write(lambda session: _note_listing(session, ctx, provider, poll.region, listing))
    sweep(ctx, provider, poll.region, listing)
    problem = f"not read: {', '.join(listing.incomplete)}" if listing.incomplete else None
    note_poll(ctx, poll.id, token, error=problem)
    _wake(ctx)


def _note_listing(session: Session, ctx: Context, provider: Provider, region: str, listing: Listing) -> None:
    """Facts about what is listed; and in a complete listing, about what is not."""
    shown = {fact.provider_id: fact for fact in listing.instances}
    rows = session.exec(
        select(Instance)
        .where(
            Instance.provider == provider.provider,
            Instance.account == provider.account,
            Instance.region == region,
            col(Instance.state).in_((*WATCHED, InstanceState.TERMINATING)),
            col(Instance.provider_id).is_not(None),
        )
        .order_by(col(Instance.id))
        .with_for_update()
    ).all()
    for row in rows:
        fact = shown.get(row.provider_id or "")
        if fact is not None:
            note(session, ctx, row, fact, provider.consistency_window)
        elif listing.complete and row.cloud_state not in (None, CloudState.PENDING):
            # Not proof by itself: lists lag. Have it asked for by name at once.
            row.wake_at = ctx.now()
            session.add(row)


def _wake(ctx: Context) -> None:
    # The watcher too: until now it knew the rows to be due again only when the claims ran out.
    for loop in ("lifecycle", "scheduler", "reaper", "market", "quotas", "watcher"):
        ctx.wake(loop)
