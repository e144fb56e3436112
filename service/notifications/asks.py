"""Slack asks: someone clicked approve or deny under a proposed quota request.

The same however the click comes: over HTTP (`service.notifications.interactions`) or Socket Mode
(`service.notifications.socket_mode`). Both know by then that Slack sent it; here stands who may decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from sqlmodel import Session, select

from service.context import Context
from service.notifications.channels.protocol import TIMEOUT
from service.notifications.channels.slack_api import SILENT, is_allowed
from service.notifications.channels.slack_blocks import APPROVE, DENY
from service.notifications.settings import ChannelConfig
from service.quota_desk.decisions import UndecidableError, approve_request, deny_request
from service.quota_desk.model import QuotaRequest

log = structlog.get_logger(__name__)

NOT_KEPT = "Your decision could not be kept; click again, or use `corral quota approve|deny`."


@dataclass(frozen=True, slots=True)
class Click:
    """What someone decided. `channel` and `user` are Slack's ids; at `response_url` they are answered."""

    request_id: str
    approve: bool
    user: str
    channel: str
    response_url: str | None


def read_click(payload: Any) -> Click | None:
    """The click of an interaction's payload; None if it is none of ours. Its form:
    docs.slack.dev/reference/interaction-payloads/block_actions-payload.
    """
    if not isinstance(payload, Mapping) or payload.get("type") != "block_actions":
        return None
    user, channel = _id(payload.get("user")), _id(payload.get("channel"))
    for action in payload.get("actions") or ():
        if not isinstance(action, Mapping) or action.get("action_id") not in (APPROVE, DENY):
            continue
        value, answer_to = action.get("value"), payload.get("response_url")
        if isinstance(value, str) and user and channel:
            return Click(
                value[:40],
                action["action_id"] == APPROVE,
                user,
                channel,
                answer_to if isinstance(answer_to, str) else None,
            )
    return None


def _id(part: Any) -> str:
    return str(part.get("id") or "")[:40] if isinstance(part, Mapping) else ""


def decide(session: Session, ctx: Context, click: Click, channels: Collection[ChannelConfig]) -> str:
    """Do what was clicked, if the one who clicked may; the answer to them. `channels`: those whose app it
    came from. Clicking twice changes nothing.
    """
    config = next((one for one in channels if one.channel == click.channel), None)
    if config is None:
        return "This channel is not one of Corral's."
    if click.user not in config.approvers:
        return "You are not among those who may decide (notifications.channels[].approvers)."
    row = session.exec(
        select(QuotaRequest).where(QuotaRequest.id == click.request_id).with_for_update()
    ).first()
    if row is None:
        return f"There is no quota request {click.request_id} any more."
    by = f"slack:{click.user}"
    try:
        if click.approve:
            approve_request(session, row, by, now=ctx.now())
        else:
            deny_request(session, row, by, now=ctx.now())
    except UndecidableError as error:
        return f"Nothing was changed: {error}."
    ended = "approved" if click.approve else "turned down"
    if row.decided_by not in (None, by):
        return f"It was decided by {row.decided_by} already; it is {row.state}."
    return f"The request is {ended}."


def answer(click: Click, text: str, allowed: Collection[str]) -> None:
    """Tell the one who clicked, and nobody else. That this fails changes nothing."""
    if click.response_url is None or not is_allowed(click.response_url, allowed):
        return
    from slack_sdk.webhook import WebhookClient

    client = WebhookClient(click.response_url, timeout=int(TIMEOUT), retry_handlers=[], logger=SILENT)
    try:
        client.send_dict({"response_type": "ephemeral", "replace_original": False, "text": text})
    except Exception as error:  # urllib's, of many kinds; its text may hold the address
        log.info("click_not_answered", error=type(error).__name__)
