"""`corral db`: the schema and copies of the database, on the service's own machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.arguments import ConfigFile, Json
from service.cli.failure import CommandError, UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.settings import Settings


def upgrade(config: ConfigFile = None) -> None:
    """Bring the schema to this version's. A SQLite file is copied before it is changed."""
    from clock import ScaledClock
    from service.cli.show import line, note, waiting
    from service.initialise import prepare_folder
    from service.upgrade import HEAD
    from service.upgrade import upgrade as bring_up

    settings = _settings(config)
    prepare_folder(settings)
    with _engine(settings) as engine, waiting("upgrading the database"):
        copy = bring_up(engine, ScaledClock.parse(settings.clock).now())
    if copy is not None:
        note(f"copied before the change: {copy}")
    line(f"the database has schema {HEAD}")


def check(config: ConfigFile = None, json: Json = False) -> None:
    """Say whether the database has this version's schema. Exit code 1 if not."""
    from service.cli.show import as_json, line
    from service.upgrade import HEAD, check_revision, current_revision, drift

    with _engine(_settings(config)) as engine:
        current = current_revision(engine)
        differences = [str(item) for item in drift(engine)] if check_revision(engine) else []
    if json:
        as_json({"schema": current, "wanted": HEAD, "differences": differences})
    if current != HEAD:
        raise CommandError(
            f"db: schema {current or 'none'}, this version has {HEAD}; run `corral db upgrade`"
        )
    if differences:
        raise CommandError(f"db: {len(differences)} differences from the code: {differences[0]}")
    if not json:
        line(f"the database has schema {HEAD}, as this version wants it")


def backup(
    target: Annotated[Path, typer.Argument(help="Where the copy goes.", metavar="FILE")],
    config: ConfigFile = None,
) -> None:
    """Copy a SQLite database while the service runs. Keep the secret key with it, but not beside it."""
    from service.cli.show import line, waiting
    from service.upgrade import copy_to

    with _engine(_settings(config)) as engine, waiting("copying"):
        made = copy_to(engine, target)
    line(f"{made}: {made.stat().st_size} bytes")


def copy(
    target: Annotated[
        str,
        typer.Argument(
            help="An empty PostgreSQL database: postgresql://…, or env:NAME of a variable that holds it.",
            metavar="URL",
        ),
    ],
    config: ConfigFile = None,
    json: Json = False,
) -> None:
    """Move everything from SQLite to PostgreSQL, and retire the SQLite file.

    Stop the service first; afterwards set database_url and start it again.
    """
    from service.cli.show import as_json, line, waiting
    from service.references import UnresolvedError, resolved
    from service.relocation import move
    from service.sole_process import sole_process
    from service.upgrade import RETIRED, database_url

    try:
        url = resolved({"target": target}, os.environ)["target"]
    except UnresolvedError as error:
        raise UsageError(str(error)) from error
    if not url.startswith("postgresql"):
        raise UsageError("the target must be a PostgreSQL database: postgresql://…")
    source = database_url(_settings(config))
    with _opened(source) as old, _opened(url) as new, waiting("copying"):
        try:
            with sole_process(source):
                counts = move(old, new)
        except OSError as error:
            raise CommandError(f"db: {error.strerror}; stop it first") from error
    if json:
        as_json(counts)
        return
    line(f"{sum(counts.values())} rows of {len(counts)} tables copied and compared")
    line(f"kept: {source.removeprefix('sqlite:///')}{RETIRED}; now set database_url and start the service")


def _settings(config: Path | None) -> Settings:
    from service.cli.settings_file import load_settings

    return load_settings(config)


@contextmanager
def _engine(settings: Settings) -> Iterator[Engine]:
    """The engine of the settings' database."""
    from service.upgrade import database_url

    with _opened(database_url(settings)) as engine:
        yield engine


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    """A database's engine; what goes wrong with it is one line."""
    from sqlalchemy.exc import OperationalError

    from service.db import Database
    from service.upgrade import SchemaError

    database = Database(url)
    try:
        yield database.engine
    except SchemaError as error:
        raise CommandError(f"db: {error}") from error
    except OperationalError as error:
        raise CommandError(f"db: {str(error.orig).splitlines()[0]}") from error
    finally:
        database.close()
