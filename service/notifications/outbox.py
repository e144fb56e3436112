"""Into the outbox: in the transaction of the event itself, so that neither is there without the other."""

from __future__ import annotations

from sqlmodel import Session

from service.db import wake_after_commit
from service.events.model import Event
from service.notifications.model import Outbox
from service.notifications.topics import about

LOOP = "notifications"


def put_out(session: Session, event: Event) -> None:
    """Have the routes asked about an event, if it is about something that people may want to hear of."""
    if about(event.kind, event.subject, event.subject_id, event.job_id, event.data) is None:
        return
    session.flush()
    if event.id is None:
        raise RuntimeError("an event has no id after it was written")
    session.add(Outbox(event_id=event.id))
    wake_after_commit(session, LOOP)
