"""From the rows to what a message says of them: names, links, words; what is a project's secret is masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from service.context import Context
from service.events.model import Event
from service.jobs.model import Job
from service.notifications.content import Item, words
from service.notifications.model import Notice
from service.projects.masking import NOTHING, redactors_of
from service.projects.repository import names_by_id

PAGES = {"job": "/v1/jobs/", "quota_request": "/v1/quota-requests/"}
"""Where a subject is shown, below `public_url`."""


def items_of(session: Session, ctx: Context, notices: Sequence[Notice]) -> list[Item]:
    """What each notice says, in their order; one whose event is no longer kept is left out."""
    ids = [notice.event_id for notice in notices]
    events = {event.id: event for event in session.exec(select(Event).where(col(Event.id).in_(ids))).all()}
    job_ids = {event.job_id for event in events.values() if event.job_id is not None}
    jobs = {job.id: job for job in session.exec(select(Job).where(col(Job.id).in_(job_ids))).all()}
    owners = {id_: _owner(event, jobs) for id_, event in events.items()}
    redactors = redactors_of(session, ctx.secret_keys, owners.values())
    names = names_by_id(session)
    items = []
    for notice in notices:
        event = events.get(notice.event_id)
        if event is None:
            continue
        owner = owners[notice.event_id] or ""
        values = _values(event, jobs.get(event.job_id or ""), names.get(owner))
        redactor = redactors.get(owner, NOTHING)
        title, did, can, command = words(notice.topic, values, ctx.settings.notifications.templates)
        items.append(
            Item(
                event_id=notice.event_id,
                at=event.at,
                kind=event.kind,
                topic=notice.topic,
                severity=notice.severity,
                subject=notice.subject,
                project=names.get(owner),
                what=redactor.redact(event.message),
                title=redactor.redact(title),
                did=redactor.redact(did),
                can=redactor.redact(can),
                command=command,
                link=link(ctx.settings.public_url, notice.subject),
                data=redactor.redact_all(event.data),
            )
        )
    return items


def link(public_url: str | None, subject: str) -> str | None:
    """Where a subject (`job/j-…`) can be looked at; None if nowhere."""
    kind, _, name = subject.partition("/")
    if public_url is None or kind not in PAGES:
        return None
    return f"{public_url.rstrip('/')}{PAGES[kind]}{name}"


def _owner(event: Event, jobs: dict[str, Job]) -> str | None:
    job = jobs.get(event.job_id or "")
    return event.project_id or (job.project_id if job else None)


def _values(event: Event, job: Job | None, project: str | None) -> dict[str, Any]:
    shown = None
    if job is not None:
        shown = {
            "id": job.id,
            "name": job.name,
            "state": str(job.state),
            "priority": job.priority,
            "project": project,
        }
    return {
        "event": {**event.data, "message": event.message, "kind": event.kind},
        "job": shown,
        "subject_id": event.subject_id,
        "project": project,
    }
