"""What Slack's answers mean, and how its SDK is called: quietly, without retries of its own."""

from __future__ import annotations

import logging
from collections.abc import Collection
from urllib.parse import urlsplit

from service.notifications.channels.protocol import Refused
from service.notifications.channels.webhook import retry_after

HOSTS = frozenset({"slack.com", "www.slack.com", "hooks.slack.com", "slack-gov.com", "hooks.slack-gov.com"})
"""Slack's own; GovSlack's are docs.slack.dev/enterprise/govslack."""

# What is wrong with the message itself: docs.slack.dev/reference/methods/chat.postMessage#errors and
# docs.slack.dev/changelog/2016-05-17-changes-to-errors-for-incoming-webhooks.
# It is sent once more as plain text; where that is refused too it never will be taken.
ABOUT_THE_MESSAGE = frozenset(
    {
        "invalid_blocks",
        "invalid_blocks_format",
        "invalid_payload",
        "invalid_arguments",
        "invalid_arg_name",
        "invalid_json",
        "invalid_metadata_format",
        "invalid_metadata_schema",
        "metadata_too_large",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "markdown_text_conflict",
        "too_many_attachments",
    }
)

# "It's possible some aspect of the operation succeeded", as the page above says of them.
UNCERTAIN = frozenset({"fatal_error", "internal_error", "service_unavailable", "request_timeout"})

# At its own level, so that what the SDK makes of a failure is not logged again and again.
SILENT = logging.getLogger("service.notifications.slack_sdk")
SILENT.setLevel(logging.CRITICAL + 1)

_USUAL_WAIT = 30.0


def is_allowed(url: str, allowed: Collection[str]) -> bool:
    """True for Slack's own hosts over TLS, and for those that the settings name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return host in allowed or (parts.scheme == "https" and host in HOSTS and parts.username is None)


def rate_limited(header: str | None) -> Refused:
    """HTTP 429: Slack says how long to wait, docs.slack.dev/apis/web-api/rate-limits."""
    return Refused("Slack: rate limited (429)", retry_after=retry_after(header) or _USUAL_WAIT)


def no_answer(error: Exception) -> Refused:
    """No answer came: it may have arrived. What the SDK's error says may hold the address, so it is not
    kept.
    """
    return Refused(f"Slack: no answer ({type(error).__name__})", uncertain=True)
