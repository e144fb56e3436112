"""How alembic reaches the database: on the service's connection, or by the settings' address."""

from __future__ import annotations

import os
from pathlib import Path

from alembic import context
from sqlalchemy import Connection, create_engine

from service.configuration import CONFIG, load
from service.schema import metadata
from service.upgrade import database_url


def run(connection: Connection) -> None:
    """Migrate on an open connection. SQLite cannot alter a table in place, so batches rebuild it."""
    context.configure(
        connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True
    )
    with context.begin_transaction():
        context.run_migrations()


def from_settings() -> None:
    """For `alembic` on a developer's command line."""
    path = os.environ.get(CONFIG)
    engine = create_engine(database_url(load(Path(path) if path else None, os.environ)))
    with engine.connect() as connection:
        run(connection)
        connection.commit()
    engine.dispose()


if context.is_offline_mode():
    raise SystemExit("migrations run on a database only; SQL scripts are not written")
given = context.config.attributes.get("connection")
if given is None:
    from_settings()
else:
    run(given)
