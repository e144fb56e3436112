"""Where uploads are kept: by project and content, so that no project can name what another uploaded."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import update
from sqlmodel import Session, col, select

from service.blobs.model import Blob
from service.jobs.spec import JobSpec


def blob_key(project_id: str, sha256: str) -> str:
    """The key in the object store."""
    return f"blobs/{project_id}/{sha256}"


def missing_blobs(session: Session, project_id: str, hashes: Iterable[str]) -> set[str]:
    """Those of the hashes that the project has not uploaded."""
    wanted = set(hashes)
    if not wanted:
        return set()
    statement = select(Blob.sha256).where(col(Blob.project_id) == project_id, col(Blob.sha256).in_(wanted))
    return wanted - set(session.exec(statement).all())


def keep_blob(session: Session, project_id: str, sha256: str, size: int, now: datetime) -> bool:
    """Write down that the project has the content; True if that is new."""
    row = session.get(Blob, (project_id, sha256))
    if row is not None:
        row.used_at = now
        session.add(row)
        return False
    session.add(Blob(project_id=project_id, sha256=sha256, bytes=size, created_at=now, used_at=now))
    return True


def named_blobs(spec: JobSpec) -> frozenset[str]:
    """The uploads that a job needs."""
    return frozenset([file.sha256 for file in spec.files] + ([spec.workdir] if spec.workdir else []))


def note_use(session: Session, project_id: str, hashes: Iterable[str], now: datetime) -> None:
    """A job names these uploads: they are kept for as long again."""
    named = sorted(hashes)
    if named:
        session.connection().execute(
            update(Blob)
            .where(col(Blob.project_id) == project_id, col(Blob.sha256).in_(named))
            .values(used_at=now)
        )
