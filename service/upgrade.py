"""Bringing the database to the schema of this version. alembic is imported only when there is work.

A SQLite file is copied before it is changed. A database of a newer version is refused: going back is done by
restoring the copy.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, inspect, text

from service.settings import Settings

if TYPE_CHECKING:
    from alembic.config import Config

# The revisions in migrations/versions; written here so that a start needs no alembic to know them.
REVISIONS: tuple[str, ...] = (
    "0001",
    "0002_quota_requests",
    "0003_notifications",
    "0004_reservations",
    "0005_nodes",
    "0006_observations",
    "0007_logs_expired",
)
HEAD = REVISIONS[-1]
DATABASE_FILE = "corral.db"
RETIRED = ".moved"
"""What is appended to the name of a SQLite file that was moved to PostgreSQL."""
_LOCK = 7_206_310  # of the migration, among replicas on one PostgreSQL
_SCRIPTS = Path(__file__).resolve().parent.parent / "migrations"


class SchemaError(Exception):
    """The database cannot be used with this version; the message says what to do."""


def database_url(settings: Settings) -> str:
    """The database's address; by default the file `corral.db` in `data_dir`."""
    return settings.database_url or f"sqlite:///{Path(settings.data_dir).resolve() / DATABASE_FILE}"


def current_revision(engine: Engine) -> str | None:
    """The revision that the database has; None if it is empty. SchemaError if it is not ours."""
    with engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        if "alembic_version" not in tables:
            if "job" in tables:
                raise SchemaError("the database has tables but no schema revision; it was not made by Corral")
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def check_revision(engine: Engine) -> bool:
    """True if the schema is this version's, False if it is older or empty; SchemaError if it is newer."""
    revision = current_revision(engine)
    if revision is not None and revision not in REVISIONS:
        raise SchemaError(
            f"the database has schema {revision}, which this version (schema {HEAD}) does not know: "
            "it was used by a newer Corral. Run that version, or restore a backup made before it"
        )
    return revision == HEAD


def upgrade(engine: Engine, now: datetime) -> Path | None:
    """Bring the schema to this version's; the copy that was made of a SQLite file before, if any."""
    if check_revision(engine):
        return None
    copy = None
    if engine.dialect.name == "sqlite" and current_revision(engine) is not None:
        copy = backup(engine, f"before-{HEAD}-{now:%Y%m%dT%H%M%SZ}")
    migrate(engine, HEAD)
    return copy


def migrate(engine: Engine, revision: str) -> None:
    """Run migrations to `revision`, all or none of them. `base` empties the database."""
    from alembic import command

    step = command.downgrade if revision == "base" else command.upgrade
    with engine.connect() as connection:
        _begin(connection)
        try:
            step(_config(connection), revision)
            connection.commit()
        finally:
            connection.rollback()
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA foreign_keys=ON")


def drift(engine: Engine) -> list[Any]:
    """What the tables in the code have that the database has not, and the reverse; empty if nothing."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from service.schema import metadata

    with engine.connect() as connection:
        found: list[Any] = compare_metadata(
            MigrationContext.configure(connection, opts={"compare_type": True}), metadata
        )
        return found


def backup(engine: Engine, label: str) -> Path:
    """Copy a SQLite database beside itself; the copy's path. SchemaError on PostgreSQL."""
    source = Path(engine.url.database or "")
    return copy_to(engine, source.with_name(f"{source.name}.{label}"))


def copy_to(engine: Engine, target: Path) -> Path:
    """Copy a SQLite database while it is in use, readable by us only. SchemaError on PostgreSQL, or if there
    is something at `target`.
    """
    if engine.dialect.name != "sqlite" or not engine.url.database:
        raise SchemaError("a PostgreSQL database is backed up with pg_dump")
    source = Path(engine.url.database)
    if not source.exists():
        raise SchemaError(f"there is no database at {source}; run `corral init`")
    if target.exists():
        raise SchemaError(f"{target} exists already")
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copy:
        target.chmod(0o600)
        live.backup(copy)
    return target


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    return config


def _begin(connection: Connection) -> None:
    """Open the transaction, and wait for another process that is migrating.

    SQLite rebuilds a table to alter it; with foreign keys on, that would delete what refers to it, and they
    can be switched only outside a transaction.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("PRAGMA foreign_keys=OFF")
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.exec_driver_sql("SET lock_timeout = '60s'")
        connection.exec_driver_sql("SET statement_timeout = 0")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")
