"""Slack's form of a message, inside Slack's limits.

Limits, docs.slack.dev/reference/block-kit/blocks and .../composition-objects/text-object: 50 blocks a
message, 150 characters of a header, 3,000 of a text, 10 elements of a context. Beside them a message of more
than some 13,000 characters of blocks is refused as `msg_blocks_too_long`
(github.com/slackapi/bolt-js/issues/2509), so ours stays well below that.
"""

from __future__ import annotations

from typing import Any

from service.notifications.content import Content
from service.notifications.topics import Severity

HEADER = 150
TEXT = 3000
LINE = 600
"""Characters of one event in a list."""
PLAIN = 3000
"""Characters of the plain text, which Slack shows in notices and where blocks are refused."""

APPROVE, DENY = "quota_request_approve", "quota_request_deny"
"""The `action_id` of the two buttons; their value is the request's id."""

_SIGNS = {
    Severity.INFO: "",
    Severity.WARNING: ":warning: ",
    Severity.ERROR: ":x: ",
    Severity.PAGE: ":rotating_light: ",
}


def escaped(text: str) -> str:
    """Text in which nothing is a mention, a link or an entity, and no control character is left.

    Slack names the three letters: docs.slack.dev/messaging/formatting-message-text#escaping
    """
    kept = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
    return kept.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, length: int) -> str:
    """At most so many characters, with an ellipsis where something is missing; no entity is cut in two."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    opened = kept.rfind("&")
    if opened > kept.rfind(";") and len(kept) - opened < 6:
        kept = kept[:opened]
    return kept + "…"


def blocks(content: Content, *, buttons: bool = False) -> list[dict[str, Any]]:
    """The message in Block Kit. `buttons`: with approve and deny, if it asks."""
    title = " ".join(f"{_SIGNS[content.severity]}{content.title}".split())
    found: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": cut(title, HEADER), "emoji": True}}
    ]
    if content.lines:
        found.append(_section("\n".join(cut(escaped(line), LINE) for line in content.lines)))
    if content.listed:
        found.append(_section("\n".join(f"• {cut(escaped(line), LINE // 2)}" for line in content.listed)))
    if buttons and content.ask is not None:
        found.append(_buttons(content.ask))
    more = f"`{escaped(content.command)}`"
    if content.link:
        more += f"  <{escaped(content.link)}|open>"
    found.append(_context(cut(more, TEXT)))
    found.append(_context(cut(escaped(content.footer), TEXT)))
    return found


def plain(content: Content) -> str:
    """The same as one text, in mrkdwn without any formatting."""
    lines = [content.title, *content.lines, *content.listed, content.command]
    text = "\n".join(escaped(line) for line in lines)
    return f"{cut(text, PLAIN)}\n{cut(escaped(content.footer), TEXT)}"


def summary(content: Content) -> str:
    """What stands in a phone's notice."""
    return cut(escaped(content.title), HEADER)


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, TEXT)}}


def _context(text: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}


def _buttons(request_id: str) -> dict[str, Any]:
    def button(action: str, text: str, style: str) -> dict[str, Any]:
        return {
            "type": "button",
            "action_id": action,
            "text": {"type": "plain_text", "text": text},
            "style": style,
            "value": request_id,
        }

    return {
        "type": "actions",
        "elements": [button(APPROVE, "Approve", "primary"), button(DENY, "Deny", "danger")],
    }
