"""Projects and tokens over HTTP."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlmodel import Session, col, select
from starlette.responses import Response

from service.api.authentication import CurrentCaller, global_only
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import Problem, invalid, not_found
from service.api.state import CurrentApi
from service.blobs.model import Blob
from service.events.record import record
from service.identifiers import new_id
from service.jobs.model import Job
from service.jobs.quantities import duration_seconds
from service.projects.model import Project, Role, Secret, Token
from service.projects.repository import chosen, named, names_by_id, scope_of
from service.projects.tokens import Caller, new_token

router = APIRouter()

ProjectName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", max_length=40)]
MAX_TOKEN_SECONDS = 10 * 365 * 86400


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewProject(_Body):
    """A name of lower-case letters, digits and dashes."""

    name: ProjectName


class NewToken(_Body):
    """`project` left out: good for all projects, which only an admin of all may grant. `expires_in`: a
    duration such as `90d`, or seconds; left out: until it is revoked.
    """

    name: str = Field(min_length=1, max_length=64, pattern=r"^[^\n\r\x00]+$")
    role: Role = Role.MEMBER
    project: ProjectName | None = None
    expires_in: str | int | None = None


@router.get("/whoami", tags=["tokens"], summary="Whose token this is")
async def whoami(api: CurrentApi, caller: CurrentCaller) -> Response:
    """The token's name, role and project."""
    names = await api.read(names_by_id)
    return json_response(
        {
            "token": caller.token_id,
            "name": caller.name,
            "role": caller.role,
            "project": names.get(caller.project_id) if caller.project_id else None,
            "expires_at": caller.expires_at,
        }
    )


@router.post("/projects", tags=["projects"], status_code=201, summary="Create a project")
async def create_project(api: CurrentApi, caller: CurrentCaller, body: NewProject) -> Response:
    """Needs an admin of all projects."""
    global_only(caller, Role.ADMIN)
    now = api.ctx.now()

    def create(session: Session) -> dict[str, Any]:
        if session.exec(select(Project).where(Project.name == body.name)).first():
            raise Problem(409, f"there is a project {body.name} already")
        row = Project(id=new_id("prj", now, api.ctx.chance), name=body.name, created_at=now)
        session.add(row)
        message = f"project {body.name} was created"
        record(
            session,
            "project_created",
            "project",
            row.id,
            message,
            at=now,
            project_id=row.id,
            by=caller.token_id,
        )
        return _project(row)

    return json_response(await api.write(create), 201)


@router.get("/projects", tags=["projects"], summary="List projects")
async def list_projects(
    api: CurrentApi, caller: CurrentCaller, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Those that the token is good for, by name."""
    after = decode_cursor(cursor, (str,))[0] if cursor else ""

    def find(session: Session) -> list[Project]:
        statement = select(Project).where(col(Project.name) > after).order_by(col(Project.name))
        if caller.project_id is not None:
            statement = statement.where(col(Project.id) == caller.project_id)
        return list(session.exec(statement.limit(limit + 1)).all())

    rows = await api.read(find)
    more = encode_cursor(rows[limit - 1].name) if len(rows) > limit else None
    return page([_project(row) for row in rows[:limit]], more)


@router.get("/projects/{project}", tags=["projects"], summary="Get a project")
async def get_project(api: CurrentApi, caller: CurrentCaller, project: str) -> Response:
    """By name."""
    return json_response(_project(await api.read(lambda session: named(session, caller, project))))


@router.delete("/projects/{project}", tags=["projects"], status_code=204, summary="Delete a project")
async def delete_project(api: CurrentApi, caller: CurrentCaller, project: str) -> Response:
    """Only one that never had a job: its history is kept otherwise. Its tokens and secrets go with it."""
    global_only(caller, Role.ADMIN)
    now = api.ctx.now()

    def delete(session: Session) -> None:
        row = named(session, caller, project)
        if session.exec(select(Job.id).where(Job.project_id == row.id).limit(1)).first():
            raise Problem(409, f"project {project} has jobs; their history is kept")
        for model in (Secret, Token, Blob):
            for owned in session.exec(select(model).where(col(model.project_id) == row.id)).all():
                session.delete(owned)
        session.flush()
        session.delete(row)
        message = f"project {project} was deleted"
        record(session, "project_deleted", "project", row.id, message, at=now, by=caller.token_id)

    await api.write(delete)
    api.callers.clear()
    return Response(status_code=204)


@router.post("/tokens", tags=["tokens"], status_code=201, summary="Create a token")
async def create_token(api: CurrentApi, caller: CurrentCaller, body: NewToken) -> Response:
    """The token's text is in this reply and nowhere else. Nobody grants more than they hold: an admin of one
    project makes tokens of that project.
    """
    now = api.ctx.now()
    expires_at = _expiry(body.expires_in, now)

    def create(session: Session) -> tuple[Token, str, str | None]:
        project = _grantable(session, caller, body)
        row, text = new_token(
            session,
            name=body.name,
            role=body.role,
            project_id=project.id if project else None,
            now=now,
            chance=api.ctx.chance,
            expires_at=expires_at,
        )
        message = f"token {body.name} with the role {body.role} was created"
        record(
            session,
            "token_created",
            "token",
            row.id,
            message,
            at=now,
            project_id=row.project_id,
            by=caller.token_id,
        )
        return row, text, project.name if project else None

    row, text, project = await api.write(create)
    return json_response({**_token(row, project), "token": text}, 201)


@router.get("/tokens", tags=["tokens"], summary="List tokens")
async def list_tokens(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    project: str | None = None,
    revoked: Annotated[bool, Query(description="Show those that were revoked too.")] = False,
) -> Response:
    """Never their texts, which nobody has."""
    after = decode_cursor(cursor, (str,))[0] if cursor else ""

    def find(session: Session) -> tuple[list[Token], dict[str, str]]:
        statement = select(Token).where(col(Token.id) > after).order_by(col(Token.id))
        project_id = scope_of(session, caller, project)
        if project_id is not None:
            statement = statement.where(col(Token.project_id) == project_id)
        if not revoked:
            statement = statement.where(col(Token.revoked_at).is_(None))
        return list(session.exec(statement.limit(limit + 1)).all()), names_by_id(session)

    rows, names = await api.read(find)
    more = encode_cursor(rows[limit - 1].id) if len(rows) > limit else None
    return page([_token(row, names.get(row.project_id or "")) for row in rows[:limit]], more)


@router.delete("/tokens/{token_id}", tags=["tokens"], status_code=204, summary="Revoke a token")
async def revoke_token(api: CurrentApi, caller: CurrentCaller, token_id: str) -> Response:
    """At once, for every request that comes after the reply."""
    now = api.ctx.now()

    def revoke(session: Session) -> None:
        row = session.get(Token, token_id)
        if row is None or caller.project_id not in (None, row.project_id):
            raise not_found("token")
        if row.revoked_at is None:
            row.revoked_at = now
            session.add(row)
            message = f"token {row.name} was revoked"
            record(
                session,
                "token_revoked",
                "token",
                row.id,
                message,
                at=now,
                project_id=row.project_id,
                by=caller.token_id,
            )

    await api.write(revoke)
    api.callers.clear()
    return Response(status_code=204)


def _grantable(session: Session, caller: Caller, body: NewToken) -> Project | None:
    if not caller.may(body.role):
        raise Problem(403, f"the token has the role {caller.role}, which cannot grant {body.role}")
    if body.project is None:
        return None if caller.is_global else chosen(session, caller, None)
    return named(session, caller, body.project)


def _expiry(given: str | int | None, now: datetime) -> datetime | None:
    if given is None:
        return None
    try:
        seconds = duration_seconds(given)
    except ValueError as error:
        raise invalid("expires_in", str(error)) from None
    if not 60 <= seconds <= MAX_TOKEN_SECONDS:
        raise invalid("expires_in", "is from a minute to ten years")
    return now + timedelta(seconds=seconds)


def _project(row: Project) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "created_at": row.created_at}


def _token(row: Token, project: str | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "role": row.role,
        "project": project,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "revoked_at": row.revoked_at,
        "last_used_at": row.last_used_at,
    }
