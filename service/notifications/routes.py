"""Notifications over HTTP, for admins of all projects: what was sent, what was not, and once more."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlmodel import Session, col, select
from starlette.responses import Response

from service.api.authentication import CurrentCaller, global_only
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import invalid
from service.api.state import CurrentApi
from service.notifications.desk import channels, in_full, resend, shown, try_channel
from service.notifications.model import Message
from service.projects.model import Role
from service.states import MessageState

router = APIRouter(tags=["notifications"])


@router.get("/notifications", summary="List notifications")
async def notifications(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[str | None, Query(description="waiting, sending, sent or dead")] = None,
    channel: Annotated[str | None, Query(max_length=40)] = None,
    subject: Annotated[str | None, Query(max_length=96, description="job/j-…, quota_request/…")] = None,
) -> Response:
    """Newest first. A dead one was refused for good, or too often; `error` says how."""
    global_only(caller, Role.ADMIN)
    before = decode_cursor(cursor, (str,))[0] if cursor else None
    if state is not None and state not in list(MessageState):
        raise invalid("state", f"{state!r} is not a state of a notification", tuple(MessageState))

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        statement = select(Message).order_by(col(Message.id).desc()).limit(limit + 1)
        if state is not None:
            statement = statement.where(Message.state == MessageState(state))
        if channel is not None:
            statement = statement.where(Message.channel == channel)
        if subject is not None:
            statement = statement.where(Message.subject == subject)
        if before is not None:
            statement = statement.where(col(Message.id) < before)
        rows = session.exec(statement).all()
        more = encode_cursor(rows[limit - 1].id) if len(rows) > limit else None
        return [shown(row) for row in rows[:limit]], more

    return page(*await api.read(find))


@router.get("/notifications/{message_id}", summary="One notification")
async def notification(api: CurrentApi, caller: CurrentCaller, message_id: str) -> Response:
    """With what it says, and the ids of its events."""
    global_only(caller, Role.ADMIN)
    return json_response(await api.read(lambda session: in_full(session, api.ctx, message_id)))


@router.post("/notifications/{message_id}:resend", summary="Send a dead notification again")
async def send_again(api: CurrentApi, caller: CurrentCaller, message_id: str) -> Response:
    """Under its old id, so that a receiver can tell a second copy."""
    global_only(caller, Role.ADMIN)
    now = api.ctx.now()
    found = await api.write(lambda session: shown(resend(session, message_id, now=now)))
    api.ctx.wake("notifications")
    return json_response(found, 202)


@router.get("/notification-channels", summary="List notification channels")
async def notification_channels(api: CurrentApi, caller: CurrentCaller) -> Response:
    """Those of the settings: what waits for each, and what last went wrong."""
    global_only(caller, Role.ADMIN)
    return page(await api.read(lambda session: channels(session, api.ctx)), None)


@router.post("/notification-channels/{channel}:test", summary="Try a notification channel")
async def try_out(api: CurrentApi, caller: CurrentCaller, channel: str) -> Response:
    """Sends one message that says that it is a test; what became of it is in the list, under `subject`."""
    global_only(caller, Role.ADMIN)
    now = api.ctx.now()
    subject = await api.write(lambda session: try_channel(session, channel, by=caller.token_id, now=now))
    return json_response({"channel": channel, "subject": subject}, 202)
