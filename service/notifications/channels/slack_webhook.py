"""Slack by an incoming webhook, docs.slack.dev/messaging/sending-messages-using-incoming-webhooks.

It can only post. A message that may have arrived is sent again under the same id, which its last line shows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from service.notifications.channels import slack_blocks
from service.notifications.channels.protocol import TIMEOUT, Parcel, Refused, Sent
from service.notifications.channels.slack_api import (
    ABOUT_THE_MESSAGE,
    SILENT,
    is_allowed,
    no_answer,
    rate_limited,
)


class SlackWebhook:
    """Implements `Sender`."""

    def __init__(self, url: str, *, allowed: Collection[str] = ()) -> None:
        self._url, self._allowed = url, allowed

    def send(self, parcel: Parcel) -> Sent | Refused:
        """In blocks; where Slack refuses those, once more as plain text."""
        if not is_allowed(self._url, self._allowed):
            return Refused("the url is not one of https://hooks.slack.com")
        content = parcel.content
        result = self._post({"text": slack_blocks.summary(content), "blocks": slack_blocks.blocks(content)})
        if isinstance(result, Refused) and result.final:
            result = self._post({"text": slack_blocks.plain(content)})
        return result

    def _post(self, body: dict[str, Any]) -> Sent | Refused:
        from slack_sdk.webhook import WebhookClient

        client = WebhookClient(self._url, timeout=int(TIMEOUT), retry_handlers=[], logger=SILENT)
        try:
            answer = client.send_dict({"unfurl_links": False, "unfurl_media": False, **body})
        except Exception as error:  # urllib's, of many kinds
            return no_answer(error)
        status: int = answer.status_code
        said = str(answer.body or "")[:100]
        if status == 200:
            return Sent()
        if status == 429:
            return rate_limited(answer.headers.get("Retry-After"))
        final = status == 400 and (said.partition(":")[0] in ABOUT_THE_MESSAGE or "invalid" in said)
        return Refused(f"Slack: HTTP {status} {said}".strip(), final=final, uncertain=status >= 500)
