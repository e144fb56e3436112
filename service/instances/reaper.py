"""The reaper: ends what is no longer wanted, and goes on until the cloud says that it is gone.

There is no last try. An instance whose id was never learnt is first looked for by its launch's token.
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
from service.attempts.model import Attempt
from service.attempts.request import sendable
from service.attempts.rows import attempt_of_instance
from service.context import Context, Place
from service.db import claim_due, held, release
from service.db.due import next_due
from service.events.record import record
from service.instances.facts import note
from service.instances.model import Instance
from service.instances.sweep import ORPHAN, QUARANTINED, WATCHED_FOR
from service.states import InstanceState
from service.transitions import move_instance

FIRST_LOOK = timedelta(seconds=2)
LONGEST_WAIT = timedelta(seconds=60)
RESEND_EVERY = timedelta(seconds=30)
TELL_AFTER_TRIES = 20
BATCH = 200
CALLS = 50

Claims = list[tuple[Instance, str]]


def step(ctx: Context) -> datetime | None:
    """Claim what is due to end, submit a call per place; when more is due."""
    if ctx.database.read(lambda session: _ripe_orphans(session, ctx.now())):
        ctx.database.write(partial(_condemn_orphans, ctx))
    due = ctx.database.read(_next_due)
    if due is None or due > ctx.now():
        return due
    for place, claims in ctx.database.write(partial(_claim, ctx)).items():
        for start in range(0, len(claims), CALLS):
            ctx.submit(place, partial(reap, ctx, place, claims[start : start + CALLS]))
    return ctx.database.read(_next_due)


def _next_due(session: Session) -> datetime | None:
    return next_due(session, Instance, col(Instance.state) == InstanceState.TERMINATING)


def _ripe_orphans(session: Session, now: datetime) -> Sequence[Instance]:
    return session.exec(
        select(Instance).where(
            Instance.purpose == ORPHAN,
            Instance.reason == ORPHAN,
            Instance.state == InstanceState.RUNNING,
            col(Instance.planned_at) <= now - WATCHED_FOR,
        )
    ).all()


def _condemn_orphans(ctx: Context, session: Session) -> None:
    """Orphans whose time of watching is over: silent ones are ended, speaking ones quarantined."""
    now = ctx.now()
    for orphan in _ripe_orphans(session, now):
        if orphan.agent_seen_at is None:
            message = "an orphan, and no agent of it speaks to us"
            move_instance(session, orphan, InstanceState.TERMINATING, message, now=now, reason=ORPHAN)
        else:
            orphan.reason = QUARANTINED
            session.add(orphan)
            message = (
                f"{orphan.provider_id} is unknown but its agent speaks: corral instance adopt|end {orphan.id}"
            )
            record(session, "orphan_quarantined", "instance", orphan.id, message, at=now)


def _claim(ctx: Context, session: Session) -> dict[Place, Claims]:
    by_place: dict[Place, Claims] = defaultdict(list)
    for instance_id, token in claim_due(
        session,
        Instance,
        col(Instance.state) == InstanceState.TERMINATING,
        owner=ctx.owner,
        now=ctx.now(),
        chance=ctx.chance,
        limit=BATCH,
    ):
        instance = session.get_one(Instance, instance_id)
        by_place[instance.provider, instance.account, instance.region].append((instance, token))
    return by_place


def reap(ctx: Context, place: Place, claims: Claims) -> None:
    """End some instances of one place: runs in its pool."""
    provider = ctx.provider(*place[:2])
    if provider is None:
        for instance, token in claims:
            _put_back(ctx, instance.id, token)
    else:
        _end(ctx, provider, claims)
    # The reaper too: until now it knew the rows to be due again only when the claims ran out.
    for loop in ("lifecycle", "scheduler", "reaper"):
        ctx.wake(loop)


def _end(ctx: Context, provider: Provider, claims: Claims) -> None:
    named = [(instance, token) for instance, token in claims if instance.provider_id is not None]
    for instance, token in claims:
        if instance.provider_id is None:
            _look_for(ctx, provider, instance, token)
    if not named:
        return
    told = _terminate(ctx, provider, [instance for instance, _ in named])
    at = ctx.now()
    facts = _describe(provider, [instance for instance, _ in named])
    for (instance, token), fact in zip(named, facts, strict=True):
        sent = at if instance.id in told else None
        _put_back(ctx, instance.id, token, sent=sent, provider=provider, fact=fact)


def _terminate(ctx: Context, provider: Provider, instances: list[Instance]) -> frozenset[str]:
    """Send the end to those that were not told lately; the ids of those whose end the cloud has accepted."""
    now = ctx.now()
    untold = [
        instance
        for instance in instances
        if instance.terminate_sent_at is None or now - instance.terminate_sent_at >= RESEND_EVERY
    ]
    if not untold:
        return frozenset()
    try:
        provider.terminate([instance.ref for instance in untold])
    except ProviderError:
        return frozenset()
    return frozenset(instance.id for instance in untold)


def _describe(provider: Provider, instances: list[Instance]) -> list[CloudInstance | None]:
    try:
        return list(provider.describe([instance.ref for instance in instances]))
    except ProviderError:
        return [None] * len(instances)


def _put_back(
    ctx: Context,
    instance_id: str,
    token: str,
    *,
    sent: datetime | None = None,
    provider: Provider | None = None,
    fact: CloudInstance | None = None,
) -> None:
    def write(session: Session) -> None:
        row = held(session, Instance, instance_id, token)
        if row is None:
            return
        now = ctx.now()
        row.terminate_tries += 1
        if sent is not None:
            row.terminate_sent_at = sent
            row.ending_at = row.ending_at or sent
        wait = min(FIRST_LOOK * 2 ** min((row.terminate_tries - 1) // 3, 10), LONGEST_WAIT)
        release(row, now + wait)
        session.add(row)
        if fact is not None and provider is not None:
            note(session, ctx, row, fact, provider.consistency_window)
        if row.state is InstanceState.TERMINATING and row.terminate_tries == TELL_AFTER_TRIES:
            message = f"{row.provider}/{row.zone}: {row.provider_id} does not end; still trying"
            record(session, "instance_will_not_end", "instance", row.id, message, at=now)

    ctx.database.write(write)


def _look_for(ctx: Context, provider: Provider, instance: Instance, token: str) -> None:
    """Its id is not known: find what its token made. While a launch call may still be out, only wait."""
    attempt = ctx.database.read(lambda session: attempt_of_instance(session, instance.id))
    if attempt is None or (attempt.claim_until is not None and attempt.claim_until > ctx.now()):
        _put_back(ctx, instance.id, token)
        return
    try:
        listing = provider.find(sendable(attempt.request, ctx.deployment_key, attempt.id))
    except ProviderError:
        _put_back(ctx, instance.id, token)
        return
    ctx.database.write(
        lambda session: _note_found(session, ctx, provider, instance.id, token, attempt, listing)
    )


def _note_found(
    session: Session,
    ctx: Context,
    provider: Provider,
    instance_id: str,
    token: str,
    attempt: Attempt,
    listing: Listing,
) -> None:
    row = held(session, Instance, instance_id, token)
    if row is None:
        return
    now = ctx.now()
    found = [fact for fact in listing.instances if fact.state is not CloudState.ABSENT]
    mine = _of_node(found, row.node)
    if mine is not None:
        row.provider_id, row.operation = mine.provider_id, attempt.operation
        release(row, now)
        session.add(row)
        return
    if listing.complete:
        row.unknown_since = row.unknown_since or now
    else:
        row.unknown_since = None
    release(row, now + FIRST_LOOK)
    session.add(row)
    if row.unknown_since is not None and now - row.unknown_since >= provider.consistency_window:
        message = "complete look-ups have shown nothing of it"
        move_instance(session, row, InstanceState.TERMINATED, message, now=now, job_id=attempt.job_id)


def _of_node(found: list[CloudInstance], node: int) -> CloudInstance | None:
    """The instance of a node: by the number in its name, else by place in a stable order."""
    for fact in found:
        if fact.node == node:
            return fact
    unnumbered = sorted((fact for fact in found if fact.node is None), key=lambda fact: fact.provider_id)
    return unnumbered[node] if node < len(unnumbered) else None
