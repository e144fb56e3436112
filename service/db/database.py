"""Connections and transactions. The only place that knows which database it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import orjson
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session

T = TypeVar("T")

_POSTGRES_OPTIONS = "-c timezone=UTC -c lock_timeout=3000 -c statement_timeout=15000"
_SQLITE_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000", "foreign_keys=ON")


_AFTER = "after_commit"
_WAKES = "wakes"


TRIES = 4
_LOST_A_RACE = frozenset({"40P01", "40001", "55P03"})
"""SQLSTATE: deadlock_detected, serialization_failure, lock_not_available (PostgreSQL, appendix A)."""


class Database:
    """One database, by URL: `sqlite:///file` or `postgresql://…`.

    `write` runs a function in a transaction and commits. On SQLite writers take turns on one lock, since a
    second writer would only spin in the busy handler. `read` never holds a transaction open. `wake` is told
    the loops that a committed transaction concerns (`wake_after_commit`).
    """

    def __init__(self, url: str, *, pool: int = 4) -> None:
        self.url = url
        self._writes = _engine(url, pool)
        self._reads = _engine(url, pool, autocommit=True)
        self.is_sqlite = self._writes.dialect.name == "sqlite"
        self._turn = threading.RLock() if self.is_sqlite else None
        self.wake: Callable[[str], None] = lambda loop: None

    @property
    def engine(self) -> Engine:
        """For migrations."""
        return self._writes

    def write(self, work: Callable[[Session], T]) -> T:
        """Run `work` in one transaction and commit it, then what it left for `after_commit`. Whatever `work`
        raises rolls it back. Where PostgreSQL picks the transaction as the loser of a deadlock, or a lock is
        held for too long, `work` is run again from the start: it must have no effect but on its rows.
        """
        for _ in range(TRIES - 1):
            try:
                return self._write(work)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) not in _LOST_A_RACE:
                    raise
        return self._write(work)

    def _write(self, work: Callable[[Session], T]) -> T:
        with self._exclusive(), Session(self._writes, expire_on_commit=False) as session:
            if self.is_sqlite:
                session.connection().exec_driver_sql("BEGIN IMMEDIATE")
            result = work(session)
            session.commit()
            calls: list[Callable[[], None]] = session.info.pop(_AFTER, [])
            wakes: set[str] = session.info.pop(_WAKES, set())
        for call in calls:
            call()
        for loop in sorted(wakes):
            self.wake(loop)
        return result

    def read(self, work: Callable[[Session], T]) -> T:
        """Run `work`, which must not change anything, and return what it made of the rows."""
        with Session(self._reads, expire_on_commit=False) as session:
            return work(session)

    def close(self) -> None:
        self._writes.dispose()
        self._reads.dispose()

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        with self._turn:
            yield


def after_commit(session: Session, call: Callable[[], None]) -> None:
    """Have something done once the transaction under way is committed, and not at all if it is not. A loop
    that is woken before would look too early and find nothing.
    """
    session.info.setdefault(_AFTER, []).append(call)


def wake_after_commit(session: Session, loop: str) -> None:
    """Have a loop run once the transaction under way is committed; for code that is given no context."""
    session.info.setdefault(_WAKES, set()).add(loop)


def _engine(url: str, pool: int, *, autocommit: bool = False) -> Engine:
    options: dict[str, Any] = {
        "pool_size": pool,
        "max_overflow": pool * 4,
        "pool_use_lifo": True,
        "json_serializer": lambda value: orjson.dumps(value).decode(),
        "json_deserializer": orjson.loads,
    }
    if autocommit:
        options |= {"isolation_level": "AUTOCOMMIT", "pool_reset_on_return": None}
    if url.startswith("postgresql"):
        options["connect_args"] = {"options": _POSTGRES_OPTIONS}
    engine = create_engine(url, **options)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite if autocommit else _prepare_sqlite_writer)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _prepare_sqlite_writer(connection: Any, record: Any) -> None:
    _prepare_sqlite(connection, record)
    connection.isolation_level = None  # BEGIN IMMEDIATE is ours to say, not the driver's
