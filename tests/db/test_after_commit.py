"""What is left for after the commit sees what was committed, and happens only then."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlmodel import Session

from service.db import Database, after_commit
from service.projects.model import Project


def _project(session: Session) -> None:
    session.add(Project(id="p-1", name="research", created_at=datetime(2026, 1, 1, tzinfo=UTC)))


def test_it_sees_the_commit(database: Database) -> None:
    seen: list[bool] = []

    def look() -> None:
        seen.append(database.read(lambda session: session.get(Project, "p-1")) is not None)

    def work(session: Session) -> None:
        _project(session)
        after_commit(session, look)

    database.write(work)
    assert seen == [True]


def test_it_does_not_happen_if_the_transaction_fails(database: Database) -> None:
    done: list[None] = []

    def work(session: Session) -> None:
        after_commit(session, lambda: done.append(None))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(work)
    assert done == []
