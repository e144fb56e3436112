"""Reading logs: by byte offset, from the store, in pieces of bounded size, with secrets masked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from sqlmodel import Session, col, select

from service.api.problems import Problem
from service.attempts.model import Attempt
from service.context import ObjectStore
from service.jobs.model import Job
from service.logs.append import chunk_key
from service.logs.model import LogChunk
from service.projects.redaction import Redactor

PIECE = 256 * 1024
MAX_TAIL_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes [offset, offset + size) of a log."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Log:
    """One rank's log of one attempt, as far as it has come. `over`: nothing more will be added."""

    attempt_id: str
    rank: int
    chunks: tuple[Chunk, ...]
    over: bool

    @property
    def end(self) -> int:
        return self.chunks[-1].end if self.chunks else 0


def find_log(session: Session, attempt_id: str, rank: int, after: int = 0) -> Log:
    """The chunks of a log from the one that holds the byte `after` on. Problem 410 once it has expired."""
    attempt = session.get(Attempt, attempt_id)
    job = session.get(Job, attempt.job_id) if attempt else None
    rows = session.exec(
        select(LogChunk)
        .where(
            col(LogChunk.attempt_id) == attempt_id,
            col(LogChunk.rank) == rank,
            col(LogChunk.offset) + col(LogChunk.bytes) > after,
        )
        .order_by(col(LogChunk.offset))
    ).all()
    if attempt is not None and attempt.logs_expired_at is not None:
        raise expired()
    over = attempt is None or attempt.ended_at is not None or (job is not None and job.ended_at is not None)
    return Log(attempt_id, rank, tuple(Chunk(row.offset, row.bytes) for row in rows), over)


def read_from(store: ObjectStore, log: Log, offset: int, redactor: Redactor, limit: int = PIECE) -> bytes:
    """About `limit` bytes from `offset` on, masked; empty at the end.

    A value that begins before `offset` or goes on after the piece is masked too: what is around the piece is
    read with it, and of a log that goes on an end that may turn out to begin one is held back. Problem 410 if
    the bytes are past their retention.
    """
    reach = max(0, redactor.reach - 1)
    start = max(log.chunks[0].offset if log.chunks else 0, offset - reach)
    data = _bytes(store, log, start, limit + (offset - start) + reach)
    if not data:
        return b""
    known = len(data)
    if not log.over and start + known >= log.end:
        known -= redactor.undecided(data)
    return redactor.mask(data)[offset - start : known][:limit]


def tail_offset(store: ObjectStore, log: Log, lines: int) -> int:
    """Where the last `lines` lines begin, looking back at most MAX_TAIL_BYTES."""
    if lines == 0 or not log.chunks:
        return log.end
    least = max(log.chunks[0].offset, log.end - MAX_TAIL_BYTES)
    wanted, position = lines, log.end
    first = True
    while position > least:
        begin = max(least, position - PIECE)
        data = _bytes(store, log, begin, position - begin)
        at = len(data)
        if first and data.endswith(b"\n"):
            at -= 1  # the newline at the very end closes the last line
        first = False
        while (at := data.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if wanted == 0:
                return begin + at + 1
        position = begin
    return least


def _bytes(store: ObjectStore, log: Log, start: int, length: int) -> bytes:
    """At most `length` bytes from `start`."""
    parts: list[bytes] = []
    starts: Sequence[int] = [chunk.offset for chunk in log.chunks]
    index = max(0, bisect_right(starts, start) - 1)
    for chunk in log.chunks[index:]:
        if length <= 0 or chunk.end <= start:
            if length <= 0:
                break
            continue
        data = _chunk(store, log, chunk)[start - chunk.offset :][:length]
        parts.append(data)
        start += len(data)
        length -= len(data)
    return b"".join(parts)


def _chunk(store: ObjectStore, log: Log, chunk: Chunk) -> bytes:
    try:
        return store.get(chunk_key(log.attempt_id, log.rank, chunk.offset, chunk.size))
    except FileNotFoundError:
        raise expired() from None


def expired() -> Problem:
    """What who asks for a log is told once its time is over."""
    return Problem(410, "the log is past its retention", code="expired")
