"""From the Authorization header to a Caller, checked against the route's entry in the permissions."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from sqlmodel import Session

from service.api.middleware import route_of
from service.api.permissions import REQUIRED
from service.api.problems import Problem
from service.api.state import CALLER_KEPT, Api, CurrentApi
from service.projects.model import Role
from service.projects.tokens import NOTE_USE_EVERY, Caller, caller_of, note_use, token_hash

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="corral"'}
_MAX_KEPT = 10_000


async def authorize(request: Request, api: CurrentApi) -> Caller:
    """The caller, if the route's table entry lets them in. Problem 401 or 403 otherwise."""
    caller = await authenticate(api, request.headers.get("authorization"))
    request.state.caller = caller
    required = REQUIRED.get(f"{request.method} {route_of(request.scope)}")
    if required is None:
        raise Problem(403, "nobody may call this route")
    if not caller.may(required):
        raise Problem(403, f"this needs the role {required}; the token has {caller.role}")
    return caller


CurrentCaller = Annotated[Caller, Depends(authorize)]


async def authenticate(api: Api, header: str | None) -> Caller:
    """Whose token the header carries. Problem 401 if there is none, or none that is good.

    A row is believed for a second; revoking a token in this process takes effect at once.
    """
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise _refused("send a token: Authorization: Bearer corral_…")
    key = token_hash(token)
    now, moment = api.ctx.now(), api.ctx.clock.monotonic()
    kept = api.callers.get(key)
    if kept and moment - kept[0] < CALLER_KEPT and not _expired(kept[1], api):
        return kept[1]

    def find(session: Session) -> Caller | None:
        return caller_of(session, token, now)

    caller = await api.read(find)
    if caller is None:
        api.callers.pop(key, None)
        raise _refused("the token is unknown, expired or revoked")
    if caller.last_used_at is None or now - caller.last_used_at >= NOTE_USE_EVERY:
        await api.write(lambda session: note_use(session, caller.token_id, now))
    if len(api.callers) >= _MAX_KEPT:
        api.callers.clear()
    api.callers[key] = (moment, caller)
    return caller


def _expired(caller: Caller, api: Api) -> bool:
    return caller.expires_at is not None and caller.expires_at <= api.ctx.now()


def _refused(detail: str) -> Problem:
    return Problem(401, detail, headers=_CHALLENGE)


def global_only(caller: Caller, role: Role) -> None:
    """Problem 403 unless the caller holds the role for every project."""
    if not caller.is_global or not caller.may(role):
        raise Problem(403, f"this needs the role {role} for all projects; the token is for one")
