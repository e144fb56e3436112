"""The schema comes from migrations, on both databases, and is what the code says."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

import service
from service.db import Database
from service.schema import metadata
from service.upgrade import (
    HEAD,
    REVISIONS,
    SchemaError,
    check_revision,
    current_revision,
    drift,
    migrate,
    upgrade,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_migrations_make_exactly_the_tables_of_the_code(database: Database) -> None:
    assert drift(database.engine) == []
    assert set(metadata.tables) <= set(inspect(database.engine).get_table_names())


def test_going_down_removes_everything_and_up_again_works(database: Database) -> None:
    migrate(database.engine, "base")
    assert set(inspect(database.engine).get_table_names()) <= {"alembic_version"}
    migrate(database.engine, "head")
    assert current_revision(database.engine) == HEAD
    assert drift(database.engine) == []


def test_the_revision_that_a_start_expects_is_the_newest_one() -> None:
    scripts = ScriptDirectory.from_config(Config(str(Path(service.__file__).parent.parent / "alembic.ini")))
    assert scripts.get_current_head() == HEAD
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)


def test_an_empty_database_is_brought_up_without_a_copy(empty_url: str) -> None:
    database = Database(empty_url)
    assert upgrade(database.engine, NOW) is None
    assert check_revision(database.engine)
    assert upgrade(database.engine, NOW) is None
    database.close()


def test_a_database_of_a_newer_version_is_refused_with_what_to_do(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaError, match=r"schema 9999.*newer Corral.*restore a backup"):
        upgrade(database.engine, NOW)


def test_a_database_that_is_not_ours_is_refused(empty_url: str) -> None:
    database = Database(empty_url)
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE job (id INTEGER)"))
    with pytest.raises(SchemaError, match="not made by Corral"):
        upgrade(database.engine, NOW)
    database.close()


def test_a_sqlite_file_is_copied_before_it_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(f"sqlite:///{tmp_path / 'corral.db'}")
    migrate(database.engine, "head")
    with database.engine.begin() as connection:
        connection.execute(text("INSERT INTO deployment VALUES ('d-1', '2026-01-01 00:00:00.000000', 1)"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    monkeypatch.setattr("service.upgrade.REVISIONS", ("0000", HEAD))
    with pytest.raises(Exception, match="0000"):  # alembic knows no such revision: the change itself fails
        upgrade(database.engine, NOW)
    database.close()
    (copy,) = tmp_path.glob("corral.db.before-*")
    assert copy.stat().st_mode & 0o077 == 0
    with sqlite3.connect(copy) as kept:
        assert kept.execute("SELECT id FROM deployment").fetchall() == [("d-1",)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command

    def half(config: Config, revision: str) -> None:
        config.attributes["connection"].execute(text("CREATE TABLE half (id INTEGER)"))
        raise RuntimeError("power failure")

    monkeypatch.setattr(command, "upgrade", half)
    with pytest.raises(RuntimeError):
        migrate(database.engine, "head")
    assert "half" not in inspect(database.engine).get_table_names()
    assert current_revision(database.engine) == HEAD
