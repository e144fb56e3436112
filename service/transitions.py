"""Moving a row from state to state: the only code that sets one. Checks the table, writes the event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Session

from service.attempts.model import Attempt
from service.events.record import record
from service.instances.model import Instance
from service.jobs.model import Job
from service.notifications.model import Message
from service.quota_desk.model import QuotaRequest
from service.states import (
    ATTEMPT,
    INSTANCE,
    JOB,
    JOB_OVER,
    MESSAGE,
    QUOTA_REQUEST,
    REQUEST_AT_CLOUD,
    REQUEST_DECIDED,
    AttemptState,
    InstanceState,
    JobState,
    MessageState,
    QuotaRequestState,
    allowed,
)


class ForbiddenTransitionError(Exception):
    """A row was asked to become what its table does not allow: a fault of ours, never of a user."""


def move_job(
    session: Session,
    job: Job,
    to: JobState,
    message: str,
    *,
    now: datetime,
    reason: str | None = None,
    **data: Any,
) -> None:
    """Move a job; `reason` is kept on it and shown to people."""
    if not allowed(JOB, job.state, to):
        raise ForbiddenTransitionError(f"job {job.id}: {job.state} -> {to}")
    data = {"from": job.state, "to": to, "reason": reason, **data}
    job.state = to
    job.reason = reason
    job.detail = message
    if to is JobState.RUNNING and job.started_at is None:
        job.started_at = now
    if to in (JobState.QUEUED, JobState.STARTING) and job.waiting_since is None:
        job.waiting_since = now
    if to is JobState.RUNNING:
        job.waiting_since = None
    if to in JOB_OVER:
        job.ended_at = now
        job.waiting_since = job.wake_at = None
    session.add(job)
    record(
        session, f"job_{to}", "job", job.id, message, at=now, job_id=job.id, project_id=job.project_id, **data
    )


def move_attempt(
    session: Session,
    attempt: Attempt,
    to: AttemptState,
    message: str,
    *,
    now: datetime,
    project_id: str,
    reason: str | None = None,
    **data: Any,
) -> None:
    """Move an attempt; `reason` says why it drains or ended."""
    if not allowed(ATTEMPT, attempt.state, to):
        raise ForbiddenTransitionError(f"attempt {attempt.id}: {attempt.state} -> {to}")
    data = {"from": attempt.state, "to": to, "reason": reason, "offer": str(attempt.offer_key), **data}
    attempt.state = to
    if to is AttemptState.RUNNING:
        attempt.running_at = now
    elif to is AttemptState.DRAINING:
        attempt.draining_at, attempt.drain_reason = now, reason
    elif to is AttemptState.ENDED:
        attempt.ended_at, attempt.reason, attempt.detail, attempt.wake_at = now, reason, message, None
    session.add(attempt)
    record(
        session,
        f"attempt_{to}",
        "attempt",
        attempt.id,
        message,
        at=now,
        job_id=attempt.job_id,
        project_id=project_id,
        **data,
    )


def move_instance(
    session: Session,
    instance: Instance,
    to: InstanceState,
    message: str,
    *,
    now: datetime,
    job_id: str | None = None,
    reason: str | None = None,
    **data: Any,
) -> None:
    """Move an instance; nothing happens if it is there already."""
    if instance.state is to:
        return
    if not allowed(INSTANCE, instance.state, to):
        raise ForbiddenTransitionError(f"instance {instance.id}: {instance.state} -> {to}")
    data = {"from": instance.state, "to": to, "provider_id": instance.provider_id, "reason": reason, **data}
    instance.state = to
    if reason is not None:
        instance.reason = reason
    if to is InstanceState.REQUESTED:
        instance.requested_at = now
    elif to is InstanceState.RUNNING:
        instance.running_at = now
    elif to is InstanceState.TERMINATING:
        instance.terminating_at = instance.wake_at = now
        instance.session_hash, instance.reachable = None, False
    elif to is InstanceState.TERMINATED:
        instance.terminated_at, instance.wake_at = now, None
        instance.session_hash, instance.reachable = None, False
    session.add(instance)
    record(session, f"instance_{to}", "instance", instance.id, message, at=now, job_id=job_id, **data)


def move_quota_request(
    session: Session,
    request: QuotaRequest,
    to: QuotaRequestState,
    message: str,
    *,
    now: datetime,
    reason: str | None = None,
    **data: Any,
) -> None:
    """Move a request for more quota; nothing happens if it is there already. Times that the cloud told are
    on the row before this; where it told none, `now` is taken.
    """
    if request.state is to:
        return
    if not allowed(QUOTA_REQUEST, request.state, to):
        raise ForbiddenTransitionError(f"quota request {request.id}: {request.state} -> {to}")
    data = {"from": request.state, "to": to, "reason": reason, **request.told(), **data}
    request.state, request.reason, request.detail = to, reason, message
    if to in REQUEST_AT_CLOUD | REQUEST_DECIDED:
        request.filed_at = request.filed_at or now
        request.error = None
    if to in REQUEST_DECIDED:
        request.decided_at = request.decided_at or now
    session.add(request)
    record(
        session,
        f"quota_request_{to}",
        "quota_request",
        request.id,
        message,
        at=now,
        job_id=request.job_id,
        project_id=request.project_id,
        **data,
    )


def move_message(
    session: Session, message: Message, to: MessageState, *, now: datetime, error: str | None = None
) -> None:
    """Move a message. No event tells of it but that of a dead letter: news of news would never end."""
    if not allowed(MESSAGE, message.state, to):
        raise ForbiddenTransitionError(f"message {message.id}: {message.state} -> {to}")
    message.state = to
    message.error = error
    if to is MessageState.SENT:
        message.sent_at = now
    session.add(message)
    if to is MessageState.DEAD:
        text = f"a message of {message.size} to channel {message.channel} is given up: {error}"
        record(session, "message_dead", "message", message.id, text, at=now, channel=message.channel)
