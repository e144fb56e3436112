"""Which notices make the next message of a channel: a pure decision.

What is about one subject goes out in order. A page goes first, and takes along whatever is still waiting
about its subject; it waits for no storm and no digest. A storm of one topic becomes one message.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import takewhile

from service.notifications.topics import Severity

LARGEST = 250
"""Notices of one message: as many as their ids fit into one text of Slack's."""


class Form(StrEnum):
    """How notices are put together."""

    SINGLE = "single"
    NEWS = "news"
    STORM = "storm"
    DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class Pending:
    """A notice that is part of no message yet."""

    id: int
    topic: str
    severity: Severity
    subject: str
    due_at: datetime
    held: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """The notices of one message, oldest first. `subject` only where all are about it, `topic` likewise."""

    form: Form
    notices: tuple[int, ...]
    severity: Severity
    subject: str | None
    topic: str | None


def next_batch(
    pending: Sequence[Pending],
    now: datetime,
    *,
    busy: Collection[str] = (),
    stormy: Mapping[str, datetime] | None = None,
    storm: int = 5,
    pages_only: bool = False,
) -> Batch | None:
    """What is sent now; None if nothing is due. `pending` in the order of the events.

    busy: subjects of which a message is not through yet. stormy: topics that had their share of messages,
    each with the time until which more of it is collected. storm: from how many on one topic is one message.
    """
    lines: dict[str, list[Pending]] = {}
    for one in pending:
        if one.subject not in busy:
            lines.setdefault(one.subject, []).append(one)
    paged = _page(lines, storm)
    if paged is not None or pages_only:
        return paged
    return _prompt(lines, now, stormy or {}, storm) or _digest(lines, now)


def _page(lines: Mapping[str, list[Pending]], storm: int) -> Batch | None:
    firsts = [one for line in lines.values() for one in line if one.severity is Severity.PAGE]
    if not firsts:
        return None
    first = min(firsts, key=lambda one: one.id)
    crowd: list[Pending] = []
    for line in lines.values():
        crowd += takewhile(lambda one: one.severity is Severity.PAGE and one.topic == first.topic, line)
    if len(crowd) >= storm and first in crowd:
        return _batch(Form.STORM, sorted(crowd, key=lambda one: one.id))
    return _subject_up_to(lines[first.subject], first)


def _prompt(
    lines: Mapping[str, list[Pending]], now: datetime, stormy: Mapping[str, datetime], storm: int
) -> Batch | None:
    """The oldest notice that waits for nothing, with those of its topic if they are many."""
    ready = {
        subject: first
        for subject, line in lines.items()
        if (first := _first_prompt(line, now, stormy)) is not None
    }
    if not ready:
        return None
    first = min(ready.values(), key=lambda one: one.id)
    crowd: list[Pending] = []
    for subject, one in ready.items():
        if one.topic == first.topic and lines[subject][0].id == one.id:
            crowd += takewhile(partial(_flows, first.topic, now), lines[subject])
    if lines[first.subject][0].id == first.id and len(crowd) >= storm:
        return _batch(Form.STORM, sorted(crowd, key=lambda one: one.id))
    return _subject_up_to(lines[first.subject], first)


def _first_prompt(line: list[Pending], now: datetime, stormy: Mapping[str, datetime]) -> Pending | None:
    first = next((one for one in line if not one.held and one.due_at <= now), None)
    if first is None or stormy.get(first.topic, now) > now:
        return None
    return first


def _flows(topic: str, now: datetime, one: Pending) -> bool:
    """True if nothing holds a notice and it is of the topic."""
    return one.topic == topic and not one.held and one.due_at <= now


def _subject_up_to(line: list[Pending], last: Pending) -> Batch:
    """One notice with all that came before it about its subject."""
    found = [one for one in line if one.id <= last.id][:LARGEST]
    return _batch(Form.SINGLE if len(found) == 1 else Form.NEWS, found)


def _digest(lines: Mapping[str, list[Pending]], now: datetime) -> Batch | None:
    """Everything whose stretch is over, in one; what is not over yet about a subject waits on."""
    found: list[Pending] = []
    for line in lines.values():
        for one in line:
            if not one.held or one.due_at > now:
                break
            found.append(one)
    if not found:
        return None
    found.sort(key=lambda one: one.id)
    return _batch(Form.SINGLE if len(found) == 1 else Form.DIGEST, found)


def _batch(form: Form, notices: Sequence[Pending]) -> Batch:
    taken = notices[:LARGEST]
    severities = list(Severity)
    subjects, topics = {one.subject for one in taken}, {one.topic for one in taken}
    return Batch(
        form,
        tuple(one.id for one in taken),
        max((one.severity for one in taken), key=severities.index),
        taken[0].subject if len(subjects) == 1 and form in (Form.SINGLE, Form.NEWS) else None,
        taken[-1].topic if len(topics) == 1 else None,
    )
