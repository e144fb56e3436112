"""Blocks: what is avoided, until when, and how one job finds out for all that it is over.

A failure blocks its scope for a time that grows with repeats. When the time is over the row is remembered:
the next attempt there is a trial, alone. Its success removes every block that covers the offer, its failure
blocks again for longer. So at most one create is sent per scope and lifetime, however many jobs wait.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from random import Random

import orjson
from sqlalchemy import delete, update
from sqlmodel import Session, col, select

from providers.errors import KIND_RULES, ErrorKind, KindRule, ProviderError
from providers.quotas import Quota
from providers.vocabulary import Offer, OfferKey, Scope, scope_from
from service.jobs.model import Job
from service.market.model import BlockRow
from service.market.polls import read_again
from service.market.stock import tell_stock_back

PREEMPTED = "preempted"
UNBOOTED = "boot_failed"
PREBUILT = "prebuilt"
AVOID_UNBOOTED = timedelta(minutes=15)
JITTER = 0.1
REMEMBERED = timedelta(hours=1)

# Which reading of a place a refusal proves to be out of date.
_PROVES_STALE = {ErrorKind.QUOTA: "quotas", ErrorKind.PRICE_TOO_LOW: "offers"}

# A launch that succeeds proves these wrong for its offer. A preemption and a person's business stand on.
_PROVED_WRONG = frozenset(ErrorKind) - {ErrorKind.ACCOUNT_BLOCKED}


def scope_of(row: BlockRow) -> Scope:
    """The scope that a row avoids."""
    return scope_from(row.scope)


def block_failure(
    session: Session,
    error: ProviderError,
    key: OfferKey,
    *,
    image: str | None,
    now: datetime,
    chance: Random,
) -> BlockRow | None:
    """Avoid what an error speaks of; None where its kind says nothing about other launches.

    An error about an image speaks of the one that the job asked for, by the job's own word for it (`image`;
    None is the prebuilt one), so that a misspelt image keeps nobody else waiting.
    """
    if error.kind in _PROVES_STALE:
        read_again(session, _PROVES_STALE[error.kind], key, now)
    if error.scope.reservation is not None:
        read_again(session, "reservations", key, now)
    rule = KIND_RULES[error.kind]
    first = error.avoid_for if error.avoid_for is not None else rule.first
    if error.retry_after is not None:
        first = max(first, timedelta(seconds=error.retry_after))
    if not first:
        return None
    rule = KindRule(first, rule.factor, max(rule.ceiling, first))
    for said in error.available:
        heed_signal(session, _narrowed(said, key), now=now)
    scope = _narrowed(error.scope, key)
    if scope.image is not None:
        scope = replace(scope, image=image or PREBUILT)
    return _block(session, str(error.kind), scope, rule, error.code, error.message, now, chance)


def block_preempted(
    session: Session, key: OfferKey, lasts: timedelta, *, now: datetime, chance: Random
) -> BlockRow | None:
    """Leave a place that took a spot instance back: the same size, as spot, in its zone. Reserved capacity is
    ours until its end, whatever became of one instance.
    """
    if not lasts or key.reservation is not None:
        return None
    scope = Scope(
        provider=key.provider,
        account=key.account,
        region=key.region,
        zone=key.zone,
        instance_type=key.instance_type,
        capacity_type=key.capacity_type,
    )
    message = "an instance was taken back here"
    return _block(session, PREEMPTED, scope, KindRule(lasts, 1, lasts), "", message, now, chance)


def block_unbooted(
    session: Session, key: OfferKey, image: str | None, *, again: bool, now: datetime, chance: Random
) -> BlockRow:
    """Leave a place whose machine ran and never got ready, with this image alone: nobody else's may be at
    fault. `again`: it happened here to the same job just before, so the whole account is left.
    """
    scope = Scope(provider=key.provider, account=key.account, image=image or PREBUILT)
    if not again:
        scope = replace(scope, region=key.region, zone=key.zone, instance_type=key.instance_type)
    message = "a machine did not get ready in time here"
    return _block(
        session, UNBOOTED, scope, KindRule(AVOID_UNBOOTED, 1, AVOID_UNBOOTED), "", message, now, chance
    )


def lift_proved_wrong(session: Session, offer: Offer, image: str | None, *, now: datetime) -> int:
    """A launch got capacity: remove what said that it could not, and let those who waited to see that look
    again. How many blocks it were.
    """
    rows = session.exec(select(BlockRow).where(col(BlockRow.kind).in_(sorted(_PROVED_WRONG)))).all()
    lifted = covering(rows, offer, image)
    tell_stock_back(session, offer, lifted, now=now)
    wrong = [row.id for row in lifted]
    if wrong:
        session.connection().execute(delete(BlockRow).where(col(BlockRow.id).in_(wrong)))
    wake_waiting(session, now)
    return len(wrong)


def lift_for_quota(session: Session, quota: Quota, provider: str, account: str) -> int:
    """A limit has risen: remove the refusals for quota that it may have caused. How many blocks it were."""
    rows = session.exec(select(BlockRow).where(BlockRow.kind == ErrorKind.QUOTA)).all()
    gates = [replace(gate, provider=provider, account=account) for gate in quota.gates]
    caused = [row.id for row in rows if any(_may_meet(scope_of(row), gate) for gate in gates)]
    if caused:
        session.connection().execute(delete(BlockRow).where(col(BlockRow.id).in_(caused)))
    return len(caused)


def _may_meet(one: Scope, other: Scope) -> bool:
    """True unless the two scopes differ in a field that both give."""
    mine, theirs = one.given(), other.given()
    return all(theirs[name] == value for name, value in mine.items() if name in theirs)


def heed_signal(session: Session, said: Scope, *, now: datetime) -> None:
    """The vendor says that a scope has capacity: what was found out of stock there once may be tried now.
    Where it was found so again and again the vendor's word is not taken, else two zones that name each
    other would be asked in turn without end.
    """
    rows = session.exec(
        select(BlockRow).where(
            BlockRow.kind == ErrorKind.CAPACITY, BlockRow.repeats == 1, col(BlockRow.until) > now
        )
    ).all()
    for row in rows:
        scope = scope_of(row)
        if scope.zone == said.zone and scope.account == said.account and _same_pool(scope, said):
            row.until = now
            session.add(row)
    wake_waiting(session, now)


def _same_pool(blocked: Scope, said: Scope) -> bool:
    return blocked.instance_type in (None, said.instance_type) and blocked.capacity_type in (
        None,
        said.capacity_type,
    )


def forget_old(session: Session, now: datetime) -> None:
    """Drop blocks that nobody has tried since they ended long ago."""
    session.connection().execute(delete(BlockRow).where(col(BlockRow.until) < now - REMEMBERED))


def wake_waiting(session: Session, now: datetime) -> None:
    """Have the scheduler look at every job that waits: something changed that may let it start."""
    session.connection().execute(
        update(Job).where(col(Job.waiting_since).is_not(None), col(Job.wake_at) > now).values(wake_at=now)
    )


def covers(scope: Scope, offer: Offer, image: str | None) -> bool:
    """True if a blocked scope speaks of an offer with the image a job asks for (None: the prebuilt one)."""
    return speaks_of_image(scope, image) and scope.covers(offer)


def speaks_of_image(scope: Scope, image: str | None) -> bool:
    """True unless a blocked scope speaks of another image than the one a job asks for (None: the prebuilt
    one).
    """
    return scope.image in (None, image or PREBUILT)


def covering(rows: Iterable[BlockRow], offer: Offer, image: str | None) -> list[BlockRow]:
    """The rows that keep an offer from being tried with an image, or did."""
    return [row for row in rows if covers(scope_of(row), offer, image)]


def _narrowed(scope: Scope, key: OfferKey) -> Scope:
    """An error never speaks of another account; one that names nothing speaks of the very offer."""
    if scope == Scope():
        scope = Scope(
            region=key.region,
            zone=key.zone,
            instance_type=key.instance_type,
            capacity_type=key.capacity_type,
            reservation=key.reservation,
        )
    return replace(scope, provider=key.provider, account=key.account)


def _block(
    session: Session,
    kind: str,
    scope: Scope,
    rule: KindRule,
    code: str,
    message: str,
    now: datetime,
    chance: Random,
) -> BlockRow:
    row_id = _digest(kind, scope)
    row = session.get(BlockRow, row_id)
    if row is None:
        row = BlockRow(id=row_id, kind=kind, scope=scope.given(), since=now, until=now, repeats=0)
    row.repeats += 1
    lasts = min(rule.first * rule.factor ** (row.repeats - 1), rule.ceiling)
    row.until = now + lasts * (1 + JITTER * chance.random())
    row.code, row.message, row.trial_attempt = code[:128], message[:500], None
    session.add(row)
    wake_waiting(session, now)
    return row


def _digest(kind: str, scope: Scope) -> str:
    return hashlib.sha256(orjson.dumps([kind, asdict(scope)])).hexdigest()
