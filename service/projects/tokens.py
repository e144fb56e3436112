"""API tokens: `corral_` and 32 random bytes. The text is shown once; a hash is kept.

The bytes are the system's randomness, so a plain SHA-256 is as hard to turn back as the token is to guess.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from sqlalchemy import select, update
from sqlmodel import Session, col

from service.identifiers import new_id
from service.projects.model import Role, Token

PREFIX = "corral_"
_SHAPE = re.compile(r"^corral_[A-Za-z0-9_-]{43}$")
_RANKS = {Role.VIEWER: 0, Role.MEMBER: 1, Role.ADMIN: 2}
NOTE_USE_EVERY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request. `project_id` None: valid for every project."""

    token_id: str
    name: str
    role: Role
    project_id: str | None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None

    def may(self, role: Role) -> bool:
        """True if the caller holds the role or a higher one."""
        return _RANKS[self.role] >= _RANKS[role]

    @property
    def is_global(self) -> bool:
        return self.project_id is None


def new_token(
    session: Session,
    *,
    name: str,
    role: Role,
    project_id: str | None,
    now: datetime,
    chance: Random,
    expires_at: datetime | None = None,
) -> tuple[Token, str]:
    """A new token: its row and its text, which is known only now."""
    text = PREFIX + secrets.token_urlsafe(32)
    row = Token(
        id=new_id("tok", now, chance),
        name=name,
        project_id=project_id,
        role=role,
        hash=token_hash(text),
        created_at=now,
        expires_at=expires_at,
    )
    session.add(row)
    return row, text


def token_hash(text: str) -> str:
    """The hash under which a token is kept."""
    return hashlib.sha256(text.encode()).hexdigest()


def caller_of(session: Session, text: str, now: datetime) -> Caller | None:
    """Whose token this is; None if it is unknown, revoked or expired."""
    if not _SHAPE.match(text):
        return None
    table = Token.__table__  # type: ignore[attr-defined]
    row = session.connection().execute(select(table).where(table.c.hash == token_hash(text))).first()
    if row is None or row.revoked_at is not None:
        return None
    if row.expires_at is not None and row.expires_at <= now:
        return None
    return Caller(row.id, row.name, row.role, row.project_id, row.expires_at, row.last_used_at)


def note_use(session: Session, token_id: str, now: datetime) -> None:
    """Remember that a token was used, to within NOTE_USE_EVERY."""
    session.connection().execute(update(Token).where(col(Token.id) == token_id).values(last_used_at=now))
