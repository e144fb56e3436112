"""Slack by a bot's token: one thread a subject, whose first message always shows the latest.

Scopes: `chat:write`, and `channels:history` (`groups:history` for a private channel), with which a message
that may have arrived is found by its metadata and edited instead of posted a second time:
docs.slack.dev/messaging/message-metadata.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from service.notifications.channels import slack_blocks
from service.notifications.channels.protocol import TIMEOUT, Parcel, Refused, Sent
from service.notifications.channels.slack_api import (
    ABOUT_THE_MESSAGE,
    SILENT,
    UNCERTAIN,
    is_allowed,
    no_answer,
    rate_limited,
)
from service.notifications.content import Content
from service.notifications.topics import RANKS, Severity

if TYPE_CHECKING:
    from slack_sdk import WebClient

EVENT_TYPE = "corral_message"
LOOK_BACK = timedelta(minutes=10)
"""How far before a message's making its copy is looked for: our clock and Slack's may differ."""
PAGES = 5
PAGE = 200


class _FailedError(Exception):
    """A call failed; what that means for the message."""

    def __init__(self, refused: Refused, code: str = "") -> None:
        super().__init__(refused.reason)
        self.refused, self.code = refused, code


class SlackBot:
    """Implements `Sender`. buttons: proposals are shown with approve and deny."""

    def __init__(
        self, token: str, channel: str, api_url: str, *, buttons: bool = False, allowed: Collection[str] = ()
    ) -> None:
        self._token, self._channel, self._api_url = token, channel, api_url
        self._buttons, self._allowed = buttons, allowed

    def send(self, parcel: Parcel) -> Sent | Refused:
        """Post or answer in the subject's thread, then bring the thread's first message up to date."""
        if not is_allowed(self._api_url, self._allowed):
            return Refused("api_url is not one of https://slack.com")
        client = self._client()
        receipt = dict(parcel.receipt)
        root = (parcel.thread or {}).get("ts")
        try:
            if "ts" not in receipt and parcel.uncertain:
                receipt |= self._find(client, parcel.content, root)
            if "ts" not in receipt or parcel.uncertain:
                receipt |= self._write(client, parcel.content, root, receipt.get("ts"))
            if root is not None:
                self._update_root(client, parcel.content, root)
        except _FailedError as failed:
            refused = failed.refused
            return Refused(
                refused.reason, refused.retry_after, refused.final, refused.uncertain, receipt=receipt
            )
        return Sent(receipt, {"ts": root or receipt["ts"]})

    def _client(self) -> WebClient:
        from slack_sdk import WebClient

        return WebClient(
            self._token, base_url=self._api_url, timeout=int(TIMEOUT), retry_handlers=[], logger=SILENT
        )

    def _find(self, client: WebClient, content: Content, root: str | None) -> dict[str, str]:
        """The `ts` of the copy that is there; nothing if there is none, or we may not look."""
        oldest = f"{(content.created_at - LOOK_BACK).timestamp():.6f}"
        cursor = ""
        for _ in range(PAGES):
            asked: dict[str, Any] = {"channel": self._channel, "oldest": oldest, "limit": PAGE}
            asked |= {"include_all_metadata": True} | ({"cursor": cursor} if cursor else {})
            try:
                if root is None:
                    answer = _call(client.conversations_history, **asked)
                else:
                    answer = _call(client.conversations_replies, ts=root, **asked)
            except _FailedError as failed:
                if failed.code in ("missing_scope", "not_in_channel", "thread_not_found"):
                    return {}
                raise
            for message in answer.get("messages") or ():
                if _is_copy(message, content.id):
                    return {"ts": str(message["ts"])}
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                break
        return {}

    def _write(self, client: WebClient, content: Content, root: str | None, ts: str | None) -> dict[str, str]:
        """Post it, or edit the copy that is there."""
        where: dict[str, Any] = {"channel": self._channel}
        if ts is not None:
            answer = _with_plain_text(client.chat_update, {**where, "ts": ts}, self._form(content), content)
        else:
            if root is not None:
                loud = RANKS[content.severity] >= RANKS[Severity.ERROR]
                where |= {"thread_ts": root, "reply_broadcast": loud}
            where |= {"unfurl_links": False, "unfurl_media": False}
            answer = _with_plain_text(client.chat_postMessage, where, self._form(content), content)
        return {"ts": str(answer["ts"])}

    def _update_root(self, client: WebClient, content: Content, root: str) -> None:
        """The thread's first message shows the latest. Where someone has deleted it, the thread goes on."""
        where = {"channel": self._channel, "ts": root}
        form = self._form(content) | {"metadata": None}
        try:
            _with_plain_text(client.chat_update, where, form, content)
        except _FailedError as failed:
            if failed.code not in ("message_not_found", "cant_update_message", "edit_window_closed"):
                raise

    def _form(self, content: Content) -> dict[str, Any]:
        return {
            "text": slack_blocks.summary(content),
            "blocks": slack_blocks.blocks(content, buttons=self._buttons),
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"id": content.id}},
        }


def _is_copy(message: Mapping[str, Any], message_id: str) -> bool:
    metadata = message.get("metadata") or {}
    payload = metadata.get("event_payload") or {}
    return metadata.get("event_type") == EVENT_TYPE and payload.get("id") == message_id


def _with_plain_text(
    method: Any, where: Mapping[str, Any], form: Mapping[str, Any], content: Content
) -> Mapping[str, Any]:
    """The call; where Slack refuses the blocks, once more without them."""
    try:
        return _call(method, **where, **form)
    except _FailedError as failed:
        if not failed.refused.final:
            raise
    return _call(method, **where, **{**form, "text": slack_blocks.plain(content), "blocks": []})


def _call(method: Any, **arguments: Any) -> Mapping[str, Any]:
    """One call of the Web API; _FailedError says what a failure means."""
    from slack_sdk.errors import SlackApiError

    try:
        answer = method(**arguments)
    except SlackApiError as error:
        raise _failed(error.response) from None
    except Exception as error:  # urllib's, of many kinds
        raise _FailedError(no_answer(error)) from None
    data: Any = answer.data
    return data if isinstance(data, dict) else {}


def _failed(response: Any) -> _FailedError:
    status = int(getattr(response, "status_code", 0) or 0)
    code = str(response.get("error") or "") if isinstance(getattr(response, "data", None), dict) else ""
    if status == 429 or code in ("ratelimited", "rate_limited"):
        headers = {str(name).lower(): value for name, value in dict(response.headers or {}).items()}
        return _FailedError(rate_limited(headers.get("retry-after")), code)
    uncertain = status >= 500 or code in UNCERTAIN
    shown = code[:60] or f"HTTP {status}"
    return _FailedError(
        Refused(f"Slack: {shown}", final=code in ABOUT_THE_MESSAGE, uncertain=uncertain), code
    )
