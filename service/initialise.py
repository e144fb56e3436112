"""Making a deployment ready to serve: folder, key, tables, its own row, a project, an admin token."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from random import Random, SystemRandom

from sqlalchemy import or_
from sqlmodel import Session, col, select

from clock import Clock, ScaledClock
from service.configuration import SECRET_KEY
from service.db import Database
from service.events.record import record
from service.identifiers import new_id
from service.keys import key_file, load_keys, make_key_file
from service.projects.model import Deployment, Project, Role, Token
from service.projects.tokens import new_token
from service.settings import Settings
from service.upgrade import RETIRED, SchemaError, database_url, upgrade

DEFAULT_PROJECT = "default"
_SQLITE = "sqlite:///"


def initialise(
    settings: Settings, *, clock: Clock | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Make everything that is missing; the text of the first admin token, None if there is one already.

    Safe to repeat, also beside a running service. UnusableKeyError or SchemaError say what is in the way.
    """
    clock = clock or ScaledClock.parse(settings.clock)
    prepare_folder(settings)
    if not environment.get(SECRET_KEY) and not key_file(settings).exists():
        make_key_file(settings)
    load_keys(settings, environment)
    database = Database(database_url(settings))
    try:
        upgrade(database.engine, clock.now())
        return database.write(lambda session: _first_rows(session, settings, clock.now(), SystemRandom()))
    finally:
        database.close()


def prepare_folder(settings: Settings) -> None:
    """The data folder, ours alone: it holds the database, the key and the store."""
    Path(settings.data_dir).mkdir(parents=True, exist_ok=True, mode=0o700)
    address = database_url(settings)
    _refuse_retired(address)
    if address.startswith(_SQLITE):  # in a folder that others made, others may look
        with contextlib.suppress(OSError):  # it is there, or its folder is not: whoever opens it says so
            os.close(os.open(address.removeprefix(_SQLITE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _refuse_retired(address: str) -> None:
    """SchemaError where the database was moved away: an empty one in its place would know of no instance."""
    path = Path(address.removeprefix(_SQLITE))
    if address.startswith(_SQLITE) and not path.exists() and path.with_name(path.name + RETIRED).exists():
        raise SchemaError(f"{path} was moved to PostgreSQL: set database_url to where it went")


def ensure_deployment(session: Session, settings: Settings, now: datetime) -> Deployment:
    """The deployment's row. Its id is the settings' where they give one: if that is not the database's, the
    sweep of orphans is off until an admin confirms, since what bears either tag may be someone else's.
    """
    row = session.exec(select(Deployment)).first()
    if row is None:
        row = Deployment(id=settings.deployment_id or f"corral-{secrets.token_hex(5)}", created_at=now)
        session.add(row)
    elif settings.deployment_id and settings.deployment_id != row.id:
        message = f"the settings say deployment {settings.deployment_id}, the database said {row.id}"
        record(session, "deployment_changed", "deployment", settings.deployment_id, message, at=now)
        session.delete(row)
        session.flush()
        row = Deployment(id=settings.deployment_id, created_at=now, sweep_confirmed=False)
        session.add(row)
    session.flush()
    return row


def _first_rows(session: Session, settings: Settings, now: datetime, chance: Random) -> str | None:
    ensure_deployment(session, settings, now)
    if session.exec(select(Project)).first() is None:
        session.add(Project(id=new_id("prj", now, chance), name=DEFAULT_PROJECT, created_at=now))
    admin = session.exec(
        select(Token).where(
            col(Token.role) == Role.ADMIN,
            col(Token.project_id).is_(None),
            col(Token.revoked_at).is_(None),
            or_(col(Token.expires_at).is_(None), col(Token.expires_at) > now),
        )
    ).first()
    if admin is not None:
        return None
    row, text = new_token(
        session, name="first admin", role=Role.ADMIN, project_id=None, now=now, chance=chance
    )
    record(session, "token_created", "token", row.id, "the first admin token was made", at=now)
    return text
