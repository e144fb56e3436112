"""Tables: projects, API tokens, secrets, and the one row about this deployment."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from sqlmodel import Field, SQLModel, UniqueConstraint

from service.db import choice


class Role(StrEnum):
    """What a token may do: viewer reads, member also submits and cancels, admin also manages."""

    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class Deployment(SQLModel, table=True):
    """The one row that says whose database this is. `id` is the tag on everything made in a cloud."""

    id: str = Field(primary_key=True, max_length=40)
    created_at: datetime
    sweep_confirmed: bool = True


class Project(SQLModel, table=True):
    """Whose jobs, secrets and costs are kept together."""

    id: str = Field(primary_key=True, max_length=40)
    name: str = Field(max_length=40, unique=True)
    created_at: datetime


class Token(SQLModel, table=True):
    """An API token. Only a hash is kept. `project_id` None: valid for every project."""

    id: str = Field(primary_key=True, max_length=40)
    name: str = Field(max_length=64)
    project_id: str | None = Field(default=None, foreign_key="project.id", index=True)
    role: Role = Field(sa_type=choice(Role))
    hash: str = Field(max_length=64, unique=True)
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class Secret(SQLModel, table=True):
    """A secret of a project, encrypted; `key_id` tells which key, so that keys can be rotated."""

    __table_args__ = (UniqueConstraint("project_id", "name"),)

    id: str = Field(primary_key=True, max_length=40)
    project_id: str = Field(foreign_key="project.id", index=True)
    name: str = Field(max_length=64)
    ciphertext: bytes
    key_id: str = Field(max_length=16)
    updated_at: datetime
