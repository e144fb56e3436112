"""Clicks over HTTP: `POST /slack/interactions`, the Request URL of the Slack app's interactivity.

Nobody is logged in here; what is believed is Slack's signature, no older than five minutes
(docs.slack.dev/authentication/verifying-requests-from-slack). Slack wants its answer within three seconds
(docs.slack.dev/interactivity/handling-user-interaction), so the one who clicked is told afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from functools import partial
from urllib.parse import parse_qs

import orjson
import structlog
from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.background import BackgroundTask
from starlette.responses import Response

from service.api.problems import Problem, not_found
from service.api.state import Api, CurrentApi
from service.notifications.asks import NOT_KEPT, Click, answer, decide, read_click
from service.notifications.settings import ChannelConfig
from service.references import UnresolvedError, resolved

log = structlog.get_logger(__name__)

router = APIRouter(tags=["notifications"])

FRESH = 300
"""Seconds by which the time of a signature may differ from ours."""
LONGEST_TIME = 12
"""Digits of a time that are read."""
ANSWER_WITHIN = 2.0
"""Seconds (real) after which Slack gets its answer, whether the decision is written down yet or not."""


@router.post("/slack/interactions", summary="Slack's clicks")
async def interactions(request: Request, api: CurrentApi) -> Response:
    """200 as soon as the decision is kept, or cannot be. Problem 401 if Slack did not sign it, 400 if it
    cannot be read.
    """
    body = await request.body()
    channels = _signed_by(api, body, request)
    click = _click(body)
    if click is None:
        return Response(status_code=200)
    deciding = asyncio.ensure_future(api.write(partial(_decide, api, click, channels)))
    await asyncio.wait({deciding}, timeout=ANSWER_WITHIN)
    return Response(status_code=200, background=BackgroundTask(_tell, api, click, deciding))


def _decide(api: Api, click: Click, channels: tuple[ChannelConfig, ...], session: Session) -> str:
    return decide(session, api.ctx, click, channels)


async def _tell(api: Api, click: Click, deciding: asyncio.Future[str]) -> None:
    try:
        text = await deciding
    except Exception:
        log.exception("click_failed", request=click.request_id)
        text = NOT_KEPT
    api.ctx.wake("quota_desk")
    await api.aside(answer, click, text, frozenset(api.ctx.settings.notifications.allow_hosts))


def _signed_by(api: Api, body: bytes, request: Request) -> tuple[ChannelConfig, ...]:
    """The channels whose app has signed the request."""
    asking = [one for one in api.ctx.settings.notifications.channels if one.signing_secret is not None]
    if not asking:
        raise not_found("route")
    at = request.headers.get("x-slack-request-timestamp", "")
    signature = request.headers.get("x-slack-signature", "")
    now = api.ctx.now().timestamp()
    found = []
    for channel in asking:
        try:
            secret = resolved({"secret": channel.signing_secret or ""}, api.ctx.environment)["secret"]
        except UnresolvedError:
            continue
        if _is_signed(secret, body, at, signature, now):
            found.append(channel)
    if not found:
        raise Problem(401, "the request is not signed by Slack, or too old")
    return tuple(found)


def _is_signed(secret: str, body: bytes, at: str, signature: str, now: float) -> bool:
    """True if the secret's owner signed the body, and did so within five minutes of now."""
    if not at.isdecimal() or len(at) > LONGEST_TIME or abs(now - int(at)) > FRESH:
        return False
    digest = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"v0={digest}".encode(), signature.encode())


def _click(body: bytes) -> Click | None:
    try:
        texts = parse_qs(body.decode(), max_num_fields=20).get("payload")
        return read_click(orjson.loads(texts[0])) if texts else None
    except (ValueError, UnicodeDecodeError):
        raise Problem(400, "the payload cannot be read") from None
