"""Taking in what agents send of a job's output.

A log is one run of bytes for each rank of an attempt; the byte offset is the only key, so that order is the
order of printing, and a batch whose acknowledgement was lost is not kept twice.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func
from sqlmodel import Session, col, select

from service.context import ObjectStore
from service.db import Database
from service.logs.model import LogChunk


class WrongOffset(Exception):  # noqa: N818 - an answer to the agent rather than a fault
    """The batch does not begin where the log ends: the agent goes on from `next_offset`."""

    def __init__(self, next_offset: int) -> None:
        super().__init__(f"the log goes on at {next_offset}")
        self.next_offset = next_offset


class LogLimit(Exception):  # noqa: N818 - an answer to the agent rather than a fault
    """The attempt's logs have reached their cap of `limit` bytes; nothing of the batch is kept."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the logs of an attempt may hold {limit} bytes")
        self.limit = limit


def chunk_key(attempt_id: str, rank: int, offset: int, size: int) -> str:
    """Where the bytes are stored. The size is part of it, so that a repeated batch that was cut elsewhere
    cannot overwrite one that is kept.
    """
    return f"logs/{attempt_id}/{rank}/{offset:015d}-{size}"


def end_offset(session: Session, attempt_id: str, rank: int) -> int:
    """How many bytes are kept of a rank's log, which is where the next batch must begin."""
    last = session.exec(
        select(LogChunk)
        .where(col(LogChunk.attempt_id) == attempt_id, col(LogChunk.rank) == rank)
        .order_by(col(LogChunk.offset).desc())
        .limit(1)
    ).first()
    return 0 if last is None else last.offset + last.bytes


def check(session: Session, attempt_id: str, rank: int, offset: int, size: int, limit: int) -> None:
    """Raise WrongOffset or LogLimit unless a batch of `size` bytes may follow at `offset`."""
    end = end_offset(session, attempt_id, rank)
    if offset != end:
        raise WrongOffset(end)
    held = session.exec(
        select(func.coalesce(func.sum(LogChunk.bytes), 0)).where(col(LogChunk.attempt_id) == attempt_id)
    ).one()
    if held + size > limit:
        raise LogLimit(limit)


def deliver(
    database: Database,
    store: ObjectStore,
    attempt_id: str,
    rank: int,
    offset: int,
    data: bytes,
    limit: int,
    now: datetime,
) -> int:
    """Keep a batch and return where the next one begins. Raises WrongOffset or LogLimit.

    The bytes are stored before the row that names them is committed, and no transaction is open meanwhile.
    """
    size = len(data)
    database.read(lambda session: check(session, attempt_id, rank, offset, size, limit))
    if not data:
        return offset
    store.put(chunk_key(attempt_id, rank, offset, size), data)

    def commit(session: Session) -> int:
        check(session, attempt_id, rank, offset, size, limit)
        session.add(LogChunk(attempt_id=attempt_id, rank=rank, offset=offset, bytes=size, received_at=now))
        return offset + size

    return database.write(commit)
