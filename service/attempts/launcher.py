"""The launcher: sends what was planned, and repairs what a crash or a lost answer left open.

planned → prepare → commit the exact request → send → commit the answer. Whatever is found in `launching`
was sent by someone who did not come back: first look for what its token made.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlmodel import Session, col

from providers.errors import ErrorKind, ProviderError
from providers.interface import Provider
from providers.vocabulary import CloudInstance, Launched, LaunchRequest
from providers.vocabulary import InstanceState as CloudState
from service.attempts.answers import LOOK_AGAIN, accept, mark_unconfirmed, refuse
from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.attempts.request import sendable, stored
from service.attempts.rows import instances_of
from service.context import Context
from service.db import claim_due, held, release
from service.db.due import next_due
from service.jobs.model import Job
from service.states import JOB_OVER, AttemptState, InstanceState, JobState
from service.transitions import move_attempt, move_instance

log = structlog.get_logger(__name__)

OPEN = (AttemptState.PLANNED, AttemptState.LAUNCHING)
BATCH = 64
CALL_LASTS = timedelta(minutes=5)
"""Longer than any launch call, time-outs included: nobody repairs behind the back of one under way."""
NO_ACCOUNT_LOOK = timedelta(minutes=1)
NO_VERDICT = frozenset(
    {ErrorKind.THROTTLED, ErrorKind.TRANSIENT, ErrorKind.AUTH, ErrorKind.CLOCK_SKEW, ErrorKind.UNKNOWN}
)
"""Refusals that say nothing about the request itself: it may be sent again."""
OVER = frozenset({CloudState.TERMINATED, CloudState.STOPPED, CloudState.STOPPING})


def step(ctx: Context) -> datetime | None:
    """Claim what is due and submit a call for each; when more is due."""
    now = ctx.now()
    due = ctx.database.read(_next_due)
    if due is None or due > now:
        return due

    def claim(session: Session) -> list[tuple[Attempt, str]]:
        claims = claim_due(
            session,
            Attempt,
            col(Attempt.state).in_(OPEN),
            owner=ctx.owner,
            now=now,
            chance=ctx.chance,
            limit=BATCH,
            lasts=CALL_LASTS,
        )
        return [(session.get_one(Attempt, attempt_id), token) for attempt_id, token in claims]

    for attempt, token in ctx.database.write(claim):
        place = (attempt.provider, attempt.account, attempt.region)
        ctx.submit(place, partial(launch, ctx, attempt.id, token))
    return ctx.database.read(_next_due)


def _next_due(session: Session) -> datetime | None:
    return next_due(session, Attempt, col(Attempt.state).in_(OPEN))


def launch(ctx: Context, attempt_id: str, token: str) -> None:
    """Take one attempt one step: runs in the pool of its place."""
    attempt = ctx.database.read(lambda session: session.get_one(Attempt, attempt_id))
    provider = ctx.provider(attempt.provider, attempt.account)
    if provider is None:
        _without_account(ctx, attempt, token)
        return
    if attempt.state is AttemptState.PLANNED:
        _send_first(ctx, provider, attempt, token)
    elif attempt.state is AttemptState.LAUNCHING:
        _repair(ctx, provider, attempt, token)


def _without_account(ctx: Context, attempt: Attempt, token: str) -> None:
    """The settings no longer name the account. What was sent stays to be looked for when they do again; the
    job does not wait for that: nothing that was never told to start can write.
    """
    message = f"account {attempt.account} is not in the settings"
    sent = attempt.state is AttemptState.LAUNCHING
    if sent and _may_resend(ctx, attempt):
        _write(ctx, attempt.id, token, partial(_wait, wake_at=ctx.now() + NO_ACCOUNT_LOOK))
        return
    error = ProviderError(ErrorKind.TRANSIENT, message, ended=sent)
    _write(ctx, attempt.id, token, partial(refuse, ctx=ctx, error=error))


def _send_first(ctx: Context, provider: Provider, attempt: Attempt, token: str) -> None:
    try:
        prepared = provider.prepare(sendable(attempt.request, b"", attempt.id))
    except ProviderError as error:
        _write(ctx, attempt.id, token, partial(refuse, ctx=ctx, error=error))
        return
    except Exception as fault:
        _write(ctx, attempt.id, token, partial(refuse, ctx=ctx, error=_unforeseen(attempt.id, fault)))
        return
    request = _commit_request(ctx, attempt, token, prepared)
    if request is not None:
        _send(ctx, provider, attempt.id, token, request)


def _commit_request(
    ctx: Context, attempt: Attempt, token: str, prepared: LaunchRequest
) -> LaunchRequest | None:
    """The intent, exact to the byte, before anything is sent; None if it is no longer wanted."""

    def commit(session: Session) -> LaunchRequest | None:
        row = held(session, Attempt, attempt.id, token)
        if row is None or row.state is not AttemptState.PLANNED:
            return None
        now = ctx.now()
        job = session.get_one(Job, row.job_id)
        if not _wanted(session, row.job_id):
            release(row, None)
            end_attempt(session, row, Ended.CANCELLED, "called off before it was sent", now=now)
            return None
        if ctx.stopping():
            release(row, now)
            session.add(row)
            return None
        row.request = {**stored(prepared), "user_data": row.request["user_data"]}
        row.sent_at, row.sends = now, 1
        row.launch_deadline = now + timedelta(seconds=ctx.settings.times.resend_within)
        move_attempt(
            session, row, AttemptState.LAUNCHING, "sent to the cloud", now=now, project_id=job.project_id
        )
        for instance in instances_of(session, row.id):
            move_instance(session, instance, InstanceState.REQUESTED, "asked for", now=now, job_id=job.id)
        return sendable(row.request, ctx.deployment_key, row.id)

    return ctx.database.write(commit)


def _send(
    ctx: Context,
    provider: Provider,
    attempt_id: str,
    token: str,
    request: LaunchRequest,
    *,
    again: bool = False,
) -> None:
    try:
        launched = provider.launch(request)
    except ProviderError as error:
        answer = _after_error(ctx, error, again=again)
        _write(ctx, attempt_id, token, answer)
        return
    except Exception as fault:
        # It may have happened all the same; to send it again would only meet the same fault.
        unforeseen = _unforeseen(attempt_id, fault)
        _write(ctx, attempt_id, token, partial(mark_unconfirmed, ctx=ctx, error=unforeseen, final=True))
        return
    _write(ctx, attempt_id, token, partial(accept, ctx=ctx, launched=launched))


def _unforeseen(attempt_id: str, fault: Exception) -> ProviderError:
    """A fault of ours, or an answer that an adapter has no word for: about this offer, and no job's end."""
    log.error("launch_failed", attempt=attempt_id, exc_info=fault)
    return ProviderError(ErrorKind.UNKNOWN, str(fault), code=type(fault).__name__)


def _after_error(ctx: Context, error: ProviderError, *, again: bool) -> Callable[[Session, Attempt], None]:
    """A refusal is the end of a request that was sent once. Of one that was sent `again` it says nothing
    about the first time, which may have made something that is not shown yet.
    """
    if again or error.ambiguous or error.kind is ErrorKind.IDEMPOTENCY:
        final = again and not error.ambiguous and error.kind not in NO_VERDICT
        return partial(mark_unconfirmed, ctx=ctx, error=error, final=final)
    return partial(refuse, ctx=ctx, error=error)


def _repair(ctx: Context, provider: Provider, attempt: Attempt, token: str) -> None:
    """Look for what the token made; adopt it, send again, or wait until its absence is proved."""
    request = sendable(attempt.request, ctx.deployment_key, attempt.id)
    try:
        listing = provider.find(request)
    except ProviderError:
        _write(ctx, attempt.id, token, partial(_wait, wake_at=ctx.now() + LOOK_AGAIN))
        return
    found = [instance for instance in listing.instances if instance.state is not CloudState.ABSENT]
    if len(found) >= request.nodes and all(instance.state not in OVER for instance in found):
        launched = Launched(tuple(sorted(found, key=_node)), attempt.operation)
        _write(ctx, attempt.id, token, partial(accept, ctx=ctx, launched=launched))
    elif any(instance.state in OVER for instance in found) or (
        found and not _is_young(ctx, provider, attempt)
    ):
        _write(ctx, attempt.id, token, partial(_close_over, ctx=ctx, found=tuple(found)))
    elif found:
        _write(ctx, attempt.id, token, partial(_wait, wake_at=ctx.now() + LOOK_AGAIN))
    elif _may_resend(ctx, attempt):
        if _count_resend(ctx, attempt.id, token):
            _send(ctx, provider, attempt.id, token, request, again=True)
    else:
        window = provider.consistency_window
        _write(
            ctx,
            attempt.id,
            token,
            partial(_close_unseen, ctx=ctx, complete=listing.complete, window=window),
        )


def _is_young(ctx: Context, provider: Provider, attempt: Attempt) -> bool:
    """True while some of a gang may merely not be shown yet."""
    sent = attempt.sent_at or attempt.planned_at
    last = max(sent, attempt.launch_deadline or sent) if attempt.sends > 1 else sent
    return ctx.now() - last < provider.consistency_window


def _may_resend(ctx: Context, attempt: Attempt) -> bool:
    wanted = ctx.database.read(lambda session: _wanted(session, attempt.job_id))
    in_time = attempt.launch_deadline is not None and ctx.now() < attempt.launch_deadline
    return wanted and not ctx.stopping() and in_time


def _wanted(session: Session, job_id: str) -> bool:
    job = session.get_one(Job, job_id)
    return job.state not in JOB_OVER and job.state is not JobState.STOPPING


def _count_resend(ctx: Context, attempt_id: str, token: str) -> bool:
    def count(session: Session) -> bool:
        row = held(session, Attempt, attempt_id, token)
        if row is None:
            return False
        row.sends += 1
        row.unseen_since = None  # what comes of this one is not to be seen yet
        session.add(row)
        return True

    return ctx.database.write(count)


def _close_over(
    session: Session, attempt: Attempt, *, ctx: Context, found: tuple[CloudInstance, ...]
) -> None:
    """The token made something that is over, or less than all: end it, whatever is left of it included."""
    accept(session, attempt, ctx=ctx, launched=Launched(tuple(sorted(found, key=_node)), attempt.operation))
    error = ProviderError(ErrorKind.CAPACITY, "what the launch made is over already", ended=True)
    refuse(session, attempt, ctx=ctx, error=error)


def _close_unseen(
    session: Session, attempt: Attempt, *, ctx: Context, complete: bool, window: timedelta
) -> None:
    """Nothing was found: closed only when complete look-ups have shown nothing for the whole window."""
    now = ctx.now()
    if not complete:
        attempt.unseen_since = None
    elif attempt.unseen_since is None:
        attempt.unseen_since = now
    elif now - attempt.unseen_since >= window:
        why = f" ({attempt.error_kind}: {attempt.error_code})" if attempt.error_code else ""
        message = f"the answer was lost and nothing came of the launch{why}"
        error = ProviderError(ErrorKind.TRANSIENT, message)
        refuse(session, attempt, ctx=ctx, error=error)
        return
    _wait(session, attempt, wake_at=now + LOOK_AGAIN)


def _wait(session: Session, attempt: Attempt, *, wake_at: datetime) -> None:
    release(attempt, wake_at)
    session.add(attempt)


def _write(ctx: Context, attempt_id: str, token: str, change: Callable[[Session, Attempt], None]) -> None:
    """Write back under the claim; a worker that lost it writes nothing: the new holder finds by token."""

    def write(session: Session) -> None:
        attempt = held(session, Attempt, attempt_id, token)
        if attempt is not None:
            change(session, attempt)

    ctx.database.write(write)
    # The launcher too: until now it knew the row to be due again only when the claim ran out.
    for loop in ("launcher", "scheduler", "lifecycle", "watcher", "reaper", "market", "quotas"):
        ctx.wake(loop)


def _node(instance: CloudInstance) -> tuple[int, str]:
    return (instance.node if instance.node is not None else 0, instance.provider_id)
