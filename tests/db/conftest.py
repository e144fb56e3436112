"""Both databases, for tests that must hold on each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.db import Database
from service.upgrade import migrate
from tests.postgres import PostgresServer, postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'corral.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        yield url


@pytest.fixture
def database(empty_url: str) -> Iterator[Database]:
    """A database at this version's schema, made by its migrations."""
    made = Database(empty_url)
    migrate(made.engine, "head")
    yield made
    made.close()
