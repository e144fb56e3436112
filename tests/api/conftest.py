"""The API, fresh for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.db import Database
from service.upgrade import migrate
from tests.api.service import Service, copied, start, template
from tests.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema."""
    return template(tmp_path_factory.mktemp("schema"))


@pytest.fixture
def service(schema: Path, tmp_path: Path) -> Iterator[Service]:
    """The API on SQLite."""
    yield from _closed(start(tmp_path, copied(schema, tmp_path)))


@pytest.fixture(params=["sqlite", "postgresql"])
def any_service(request: pytest.FixtureRequest, schema: Path, tmp_path: Path) -> Iterator[Service]:
    """The API on each database."""
    if request.param == "sqlite":
        yield from _closed(start(tmp_path, copied(schema, tmp_path)))
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        database = Database(url)
        migrate(database.engine, "head")
        database.close()
        yield from _closed(start(tmp_path, url))


def _closed(made: Service) -> Iterator[Service]:
    yield made
    made.client.close()
    made.client.app.state.api.close()  # type: ignore[attr-defined]
    made.database.close()
