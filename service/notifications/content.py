"""What a message says, before any channel gives it a form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.notifications.batches import Form
from service.notifications.templates import TemplateTextError, fill
from service.notifications.texts import TEXTS
from service.notifications.topics import Severity

LISTED = 10
"""Events of a storm that are written out; of the rest the number is told."""


@dataclass(frozen=True, slots=True)
class Item:
    """One event, in words. `link` is None where `public_url` is not set or there is no page of it."""

    event_id: int
    at: datetime
    kind: str
    topic: str
    severity: Severity
    subject: str
    project: str | None
    what: str
    title: str
    did: str
    can: str
    command: str
    link: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Content:
    """A whole message. `lines` are its paragraphs, `listed` events in a line each. `ask` is the quota request
    that it asks about.
    """

    id: str
    form: Form
    severity: Severity
    title: str
    lines: tuple[str, ...]
    listed: tuple[str, ...]
    items: tuple[Item, ...]
    command: str
    link: str | None
    created_at: datetime
    ask: str | None = None

    @property
    def footer(self) -> str:
        """Which events these are, so that a second copy can be told."""
        return f"{self.id}, event {ranges([item.event_id for item in self.items])}"


def words(topic: str, values: Mapping[str, Any], own: Mapping[str, str]) -> tuple[str, str, str, str]:
    """Title, what was done, what can be done, and the command. `own`: texts of the settings, by topic; one
    that cannot be filled is passed over, for news with our words is better than none.
    """
    text = TEXTS[topic]
    did, can = _ours(text.did, values), _ours(text.can, values)
    if topic in own:
        try:
            did, can = fill(own[topic], values), ""
        except TemplateTextError as error:
            can = f"{can} (the settings' template for {topic} cannot be filled: {error})"
    return _ours(text.title, values) or text.many, did, can, _ours(text.command, values) or "corral events"


def _ours(text: str, values: Mapping[str, Any]) -> str:
    """Our own text; nothing where what it names is gone, a job that was deleted say."""
    try:
        return fill(text, values)
    except TemplateTextError:
        return ""


def compose(message_id: str, form: Form, items: Sequence[Item], created_at: datetime) -> Content:
    """The message of some events, oldest first; there must be one."""
    last = items[-1]
    severities = list(Severity)
    severity = max((item.severity for item in items), key=severities.index)
    if form in (Form.SINGLE, Form.NEWS):
        ask = last.subject.partition("/")[2] if last.topic == "quota_request_proposed" else None
        lines = tuple(line for line in (last.what, last.did, last.can) if line)
        earlier = tuple(_line(item) for item in items[:-1][-LISTED:])
        return Content(
            message_id,
            form,
            severity,
            last.title,
            lines,
            earlier,
            tuple(items),
            last.command,
            last.link,
            created_at,
            ask,
        )
    title, lines = _sum(form, items)
    listed = [_line(item) for item in items[:LISTED]]
    if len(items) > LISTED:
        listed.append(f"and {len(items) - LISTED} more")
    command = last.command if len({item.command for item in items}) == 1 else "corral events"
    return Content(
        message_id, form, severity, title, lines, tuple(listed), tuple(items), command, None, created_at
    )


def _sum(form: Form, items: Sequence[Item]) -> tuple[str, tuple[str, ...]]:
    counts = Counter(TEXTS[item.topic].many for item in items)
    tally = ", ".join(f"{number} × {many}" for many, number in counts.most_common())
    if form is Form.STORM:
        did = items[-1].did if len({item.did for item in items}) == 1 else ""
        return tally, (did,) if did else ()
    since = f"{items[0].at:%Y-%m-%d %H:%M} to {items[-1].at:%H:%M} UTC"
    return f"{len(items)} events", (tally, since)


def _line(item: Item) -> str:
    return f"{item.at:%H:%M:%S} {item.title}: {item.what}"


def ranges(numbers: Sequence[int]) -> str:
    """`4, 7-9`: whole numbers, runs in short."""
    parts: list[str] = []
    start = previous = None
    for number in [*sorted(set(numbers)), None]:
        if previous is not None and number == previous + 1:
            previous = number
            continue
        if start is not None:
            parts.append(f"{start}" if start == previous else f"{start}-{previous}")
        start = previous = number
    return ", ".join(parts)
