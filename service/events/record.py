"""Writing events. In the transaction of whatever they tell of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlmodel import Session

from service.events.model import Event
from service.metrics import count_event
from service.notifications.outbox import put_out


def record(
    session: Session,
    kind: str,
    subject: str,
    subject_id: str,
    message: str,
    /,
    *,
    at: datetime,
    job_id: str | None = None,
    project_id: str | None = None,
    **data: Any,
) -> None:
    """Add one event. `message` is a sentence for people; `data` holds the same as JSON values.

    What people may want to be told of goes into the outbox with it.
    """
    count_event(session, kind)
    event = Event(
        at=at,
        kind=kind,
        subject=subject,
        subject_id=subject_id,
        job_id=job_id,
        project_id=project_id,
        message=message,
        data=data,
    )
    session.add(event)
    put_out(session, event)
