"""From the outbox to notices: which channels an event goes to. In one transaction, in the order of events."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete
from sqlmodel import Session, col, select

from service.context import Context
from service.events.model import Event
from service.jobs.model import Job
from service.notifications.model import Channel, Notice, Outbox
from service.notifications.routing import Handling, handle
from service.notifications.topics import TOPICS, About, Severity, about
from service.projects.repository import names_by_id

BATCH = 500


def route(ctx: Context) -> None:
    """Empty the outbox. Whoever comes second waits for the first, so that the order stays that of events."""
    while ctx.database.read(_is_waiting):
        ctx.database.write(lambda session: _route(session, ctx))


def _is_waiting(session: Session) -> bool:
    return session.exec(select(Outbox.id).limit(1)).first() is not None


def _route(session: Session, ctx: Context) -> None:
    rows = session.exec(select(Outbox).order_by(col(Outbox.id)).limit(BATCH).with_for_update()).all()
    ids = [row.event_id for row in rows]
    events = session.exec(select(Event).where(col(Event.id).in_(ids)).order_by(col(Event.id))).all()
    projects = _projects(session, events)
    for event in events:
        found = about(event.kind, event.subject, event.subject_id, event.job_id, event.data)
        if found is not None and event.id is not None:
            _note(session, ctx, event, found, projects.get(event.id))
    session.connection().execute(delete(Outbox).where(col(Outbox.id).in_([row.id for row in rows])))


def _projects(session: Session, events: Sequence[Event]) -> dict[int | None, str]:
    """The name of each event's project: its own, or its job's."""
    jobs = {event.job_id for event in events if event.project_id is None and event.job_id is not None}
    owners = {job.id: job.project_id for job in session.exec(select(Job).where(col(Job.id).in_(jobs))).all()}
    names = names_by_id(session)
    return {
        event.id: names[owner]
        for event in events
        if (owner := event.project_id or owners.get(event.job_id or "", "")) in names
    }


def _note(session: Session, ctx: Context, event: Event, found: About, project: str | None) -> None:
    settings, now = ctx.settings.notifications, ctx.now()
    severity = TOPICS[found.topic]
    handlings = handle(settings.routes, found.topic, severity, project, now)
    if found.topic == "channel_test":  # to the channel that it is a test of, whatever the routes say
        handlings = [Handling(event.subject_id, severity, now, held=False)]
    for one in handlings:
        session.add(
            Notice(
                event_id=event.id or 0,
                channel=one.channel,
                topic=found.topic,
                severity=one.severity,
                subject=found.subject,
                due_at=one.due_at,
                held=one.held,
            )
        )
        wake_channel(session, one.channel, one.due_at, page=one.severity is Severity.PAGE)


def wake_channel(session: Session, name: str, due_at: datetime, *, page: bool = False) -> None:
    """Have a channel looked at when something is due. A page does not wait for a back-off of ours, only for
    the time that the receiver asked for.
    """
    channel = session.exec(select(Channel).where(Channel.id == name).with_for_update()).first()
    if channel is None:
        return
    at = max(due_at, channel.closed_until or due_at)
    if channel.failures and channel.wake_at is not None and not page:
        return  # what failed is tried again in its own time, and this after it
    if channel.wake_at is None or at < channel.wake_at:
        channel.wake_at = at
        session.add(channel)
