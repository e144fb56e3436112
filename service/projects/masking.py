"""Which values are masked in what people are shown of a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlmodel import Session, col, select

from service.keys import SecretKeys
from service.projects.model import Secret
from service.projects.redaction import Redactor
from service.projects.secrets import reveal_all

NOTHING = Redactor(())


def redactor_of(session: Session, keys: SecretKeys | None, project_id: str) -> Redactor:
    """What masks one project's secrets."""
    return redactors_of(session, keys, [project_id]).get(project_id, NOTHING)


def redactors_of(
    session: Session, keys: SecretKeys | None, project_ids: Iterable[str | None]
) -> Mapping[str, Redactor]:
    """What masks each project's secrets; projects without any are left out."""
    wanted = {project_id for project_id in project_ids if project_id is not None}
    if keys is None or not wanted:
        return {}
    having = session.exec(
        select(Secret.project_id).where(col(Secret.project_id).in_(wanted)).distinct()
    ).all()
    return {project_id: Redactor(reveal_all(session, keys, project_id).values()) for project_id in having}
