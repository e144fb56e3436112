"""Secrets over HTTP: values go in and never come out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, SecretStr
from sqlmodel import Session, col, select
from starlette.responses import Response

from service.api.authentication import CurrentCaller
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import Problem, invalid, not_found
from service.api.state import Api, CurrentApi
from service.api.texts import is_plain
from service.events.record import record
from service.keys import SecretKeys
from service.projects.model import Secret
from service.projects.redaction import MIN_LENGTH
from service.projects.repository import named
from service.projects.secrets import MAX_BYTES, put_secret

router = APIRouter(prefix="/projects/{project}/secrets", tags=["secrets"])

SecretName = Annotated[str, Path(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


class NewSecret(BaseModel):
    """The value, a text of at least 4 characters: shorter ones could not be kept out of logs."""

    model_config = ConfigDict(extra="forbid")

    value: SecretStr


@router.get("", summary="List the names of secrets")
async def list_secrets(
    api: CurrentApi, caller: CurrentCaller, project: str, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Names and when each was set."""
    after = decode_cursor(cursor, (str,))[0] if cursor else ""

    def find(session: Session) -> list[Secret]:
        owner = named(session, caller, project)
        statement = select(Secret).where(col(Secret.project_id) == owner.id, col(Secret.name) > after)
        return list(session.exec(statement.order_by(col(Secret.name)).limit(limit + 1)).all())

    rows = await api.read(find)
    more = encode_cursor(rows[limit - 1].name) if len(rows) > limit else None
    return page([_shown(row) for row in rows[:limit]], more)


@router.get("/{name}", summary="Whether a secret is set")
async def get_secret(api: CurrentApi, caller: CurrentCaller, project: str, name: SecretName) -> Response:
    """When it was set. Its value is never shown."""
    return json_response(_shown(await api.read(lambda session: _find(session, caller, project, name))))


@router.put("/{name}", summary="Set a secret", responses={201: {"description": "it is new"}})
async def put(
    api: CurrentApi, caller: CurrentCaller, project: str, name: SecretName, body: NewSecret
) -> Response:
    """Jobs that start from now on get this value."""
    value = body.value.get_secret_value()
    if not is_plain(value):
        raise invalid("value", "holds a NUL or half a surrogate pair, which no environment can carry")
    if len(value) < MIN_LENGTH:
        raise invalid("value", f"has fewer than {MIN_LENGTH} characters and could not be kept out of logs")
    if len(value.encode()) > MAX_BYTES:
        raise invalid("value", f"is longer than {MAX_BYTES} bytes")
    keys, now = _keys(api), api.ctx.now()

    def keep(session: Session) -> bool:
        owner = named(session, caller, project)
        created = put_secret(session, keys, owner.id, name, value, now=now, chance=api.ctx.chance)
        message = f"secret {name} was set"
        record(
            session, "secret_set", "secret", name, message, at=now, project_id=owner.id, by=caller.token_id
        )
        return created

    created = await api.write(keep)
    return json_response({"name": name, "updated_at": now}, 201 if created else 200)


@router.delete("/{name}", status_code=204, summary="Delete a secret")
async def delete(api: CurrentApi, caller: CurrentCaller, project: str, name: SecretName) -> Response:
    """Jobs that name it can no longer start."""
    now = api.ctx.now()

    def remove(session: Session) -> None:
        row = _find(session, caller, project, name)
        session.delete(row)
        message = f"secret {name} was deleted"
        record(
            session,
            "secret_deleted",
            "secret",
            name,
            message,
            at=now,
            project_id=row.project_id,
            by=caller.token_id,
        )

    await api.write(remove)
    return Response(status_code=204)


def _find(session: Session, caller: CurrentCaller, project: str, name: str) -> Secret:
    owner = named(session, caller, project)
    row = session.exec(select(Secret).where(Secret.project_id == owner.id, Secret.name == name)).first()
    if row is None:
        raise not_found("secret")
    return row


def _keys(api: Api) -> SecretKeys:
    if api.ctx.secret_keys is None:
        raise Problem(503, "the service has no key for secrets; run `corral init`", code="no_secret_key")
    return api.ctx.secret_keys


def _shown(row: Secret) -> dict[str, Any]:
    return {"name": row.name, "updated_at": row.updated_at}
