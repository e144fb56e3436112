"""What has been kept for long enough, found and deleted a batch at a time: each batch is a transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, or_
from sqlmodel import Session, col, select

from service.attempts.model import Attempt, AttemptInstance, Charge
from service.blobs.model import Blob
from service.blobs.store import blob_key, named_blobs
from service.events.model import Event
from service.instances.model import Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.logs.append import chunk_key
from service.logs.model import LogChunk
from service.states import JOB_OVER, InstanceState

BATCH = 500
JOBS = 50
SHA256 = re.compile(r"[0-9a-f]{64}")


def drop_events(session: Session, before: datetime) -> int:
    """Events of old, but for those of jobs that are not over; how many."""
    live = select(Job.id).where(col(Job.state).not_in(JOB_OVER))
    old = (
        select(Event.id)
        .where(col(Event.at) < before, or_(col(Event.job_id).is_(None), col(Event.job_id).not_in(live)))
        .limit(BATCH)
    )
    ids = session.exec(old).all()
    _delete(session, Event, col(Event.id).in_(ids))
    return len(ids)


@dataclass(frozen=True, slots=True)
class OldLog:
    """The log of one attempt, and the keys of its bytes."""

    attempt_id: str
    keys: tuple[str, ...]


def old_logs(session: Session, before: datetime) -> list[OldLog]:
    """Logs of attempts that ended before."""
    attempts = session.exec(
        select(Attempt.id)
        .where(col(Attempt.ended_at) < before, col(Attempt.logs_expired_at).is_(None))
        .limit(JOBS)
    ).all()
    chunks = session.exec(select(LogChunk).where(col(LogChunk.attempt_id).in_(attempts))).all()
    keys: dict[str, list[str]] = {attempt_id: [] for attempt_id in attempts}
    for chunk in chunks:
        keys[chunk.attempt_id].append(chunk_key(chunk.attempt_id, chunk.rank, chunk.offset, chunk.bytes))
    return [OldLog(attempt_id, tuple(named)) for attempt_id, named in keys.items()]


def drop_logs(session: Session, attempts: Sequence[str], now: datetime) -> None:
    """Forget logs whose bytes are gone; who asks for them is told so."""
    _delete(session, LogChunk, col(LogChunk.attempt_id).in_(attempts))
    for attempt in session.exec(select(Attempt).where(col(Attempt.id).in_(attempts))).all():
        attempt.logs_expired_at = now
        session.add(attempt)


def drop_blobs(session: Session, before: datetime, now: datetime) -> list[str]:
    """Forget uploads that no job has named since, and none that is not over names; the keys of their bytes.

    A job that names one in the meantime has made it young again, under the lock of its row.
    """
    rows = session.exec(
        select(Blob).where(col(Blob.used_at) < before).limit(BATCH).with_for_update(skip_locked=True)
    ).all()
    needed = _named_by_live_jobs(session, {row.project_id for row in rows})
    unused = [row for row in rows if (row.project_id, row.sha256) not in needed]
    for row in rows:
        if row in unused:
            session.delete(row)
        else:
            row.used_at = now
            session.add(row)
    return [blob_key(row.project_id, row.sha256) for row in unused]


def _named_by_live_jobs(session: Session, projects: set[str]) -> set[tuple[str, str]]:
    jobs = session.exec(
        select(Job).where(col(Job.project_id).in_(projects), col(Job.state).not_in(JOB_OVER))
    ).all()
    return {(job.project_id, sha256) for job in jobs for sha256 in _named_by(job)}


def _named_by(job: Job) -> Iterator[str]:
    """What a job's spec names; of a spec that cannot be read any more, whatever looks like an upload."""
    try:
        yield from named_blobs(JobSpec.model_validate(job.spec))
    except ValueError:
        yield from SHA256.findall(json.dumps(job.spec))


def drop_jobs(session: Session, before: datetime) -> int:
    """Jobs that ended before, with all that is known of them; how many. One whose log still has bytes, or of
    which an instance is not proved gone, stays.
    """
    unfinished = (
        select(Attempt.job_id)
        .join(AttemptInstance, col(AttemptInstance.attempt_id) == col(Attempt.id))
        .join(Instance, col(Instance.id) == col(AttemptInstance.instance_id))
        .where(
            or_(
                col(Attempt.logs_expired_at).is_(None),
                (col(Instance.state) != InstanceState.TERMINATED) & (Instance.purpose == "attempt"),
            )
        )
    )
    jobs = session.exec(
        select(Job.id)
        .where(col(Job.state).in_(JOB_OVER), col(Job.ended_at) < before, col(Job.id).not_in(unfinished))
        .limit(JOBS)
    ).all()
    if not jobs:
        return 0
    attempts = session.exec(select(Attempt.id).where(col(Attempt.job_id).in_(jobs))).all()
    instances = session.exec(
        select(Instance.id)
        .join(AttemptInstance, col(AttemptInstance.instance_id) == col(Instance.id))
        .where(col(AttemptInstance.attempt_id).in_(attempts), Instance.purpose == "attempt")
    ).all()
    _delete(session, Event, col(Event.job_id).in_(jobs))
    _delete(session, Charge, col(Charge.job_id).in_(jobs))
    _delete(session, AttemptInstance, col(AttemptInstance.attempt_id).in_(attempts))
    _delete(session, Attempt, col(Attempt.id).in_(attempts))
    _delete(session, Instance, col(Instance.id).in_(instances))
    _delete(session, Job, col(Job.id).in_(jobs))
    return len(jobs)


def drop_instances(session: Session, before: datetime) -> int:
    """Orphans and the like that were ended before and that no attempt names; how many."""
    named = select(AttemptInstance.instance_id)
    ids = session.exec(
        select(Instance.id)
        .where(
            Instance.state == InstanceState.TERMINATED,
            col(Instance.terminated_at) < before,
            col(Instance.id).not_in(named),
        )
        .limit(BATCH)
    ).all()
    _delete(session, Instance, col(Instance.id).in_(ids))
    return len(ids)


def _delete(session: Session, model: Any, condition: Any) -> None:
    session.connection().execute(delete(model).where(condition))
