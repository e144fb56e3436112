"""Projects by name, and which of them a caller may name."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select as core_select
from sqlmodel import Session, col, select

from service.api.problems import invalid, not_found
from service.initialise import DEFAULT_PROJECT
from service.projects.model import Project
from service.projects.tokens import Caller

_NAMES = core_select(col(Project.id), col(Project.name))


def named(session: Session, caller: Caller, name: str) -> Project:
    """The project, if the caller may see it. Problem 404, the same whether it exists or not."""
    project = session.exec(select(Project).where(Project.name == name)).first()
    if project is None or caller.project_id not in (None, project.id):
        raise not_found(f"project {name[:64]}")
    return project


def chosen(session: Session, caller: Caller, name: str | None, field: str = "project") -> Project:
    """The project that a request is about: the one it names, else the token's, else `default`.

    Problem 404 if it names one that the caller may not see, 422 if none can be told.
    """
    if name is not None:
        return named(session, caller, name)
    if caller.project_id is not None:
        return session.get_one(Project, caller.project_id)
    project = session.exec(select(Project).where(Project.name == DEFAULT_PROJECT)).first()
    if project is None:
        raise invalid(field, "is required: the token is good for several projects")
    return project


def scope_of(session: Session, caller: Caller, name: str | None) -> str | None:
    """The id of the one project that a list is limited to; None for all."""
    if name is not None:
        return named(session, caller, name).id
    return caller.project_id


def names_by_id(session: Session) -> dict[str, str]:
    """All names, for lists that show them."""
    rows: Any = session.connection().execute(_NAMES).all()
    return dict(rows)
