"""Did everything come true? Pure judgement over what the service, the job and the clouds say."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Record = Mapping[str, Any]

_FINISHED = re.compile(r"^finished step (\d+) checksum ([0-9a-f]+)$", re.MULTILINE)
_RESUMED = re.compile(r"^resumed at step (\d+)$", re.MULTILINE)
_STEP = re.compile(r"^(?:step|stopped at step|told to stop at step) (\d+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What is judged. `logs`: what each attempt printed, by number. `machines`: every instance that the
    clouds ever made, as they show them. `checksum`: what a run that nothing interrupted ends with.
    """

    job: Record
    attempts: Sequence[Record]
    logs: Mapping[int, str]
    machines: Sequence[Record]
    ledger: Record
    checksum: str


def double_launches(machines: Sequence[Record], nodes: int = 1) -> list[str]:
    """Attempts for which the clouds made more instances than it has nodes."""
    made = Counter(machine["tags"].get("corral-attempt") for machine in machines)
    return [f"{attempt}: {count} instances were made" for attempt, count in made.items() if count > nodes]


def leftovers(ledger: Record) -> list[str]:
    """Everything that is still there, of any kind, on any cloud."""
    return [f"{item['provider']} {item['kind']} {item['id']}" for item in ledger["live"]]


def checksum_of(log: str) -> str | None:
    """What the job printed at its end; None if it did not get there."""
    found = _FINISHED.search(log)
    return found[2] if found else None


def resumed_at(log: str) -> int | None:
    """The step at which an attempt went on; None for one that began anew."""
    found = _RESUMED.search(log)
    return int(found[1]) if found else None


def reached(log: str) -> int:
    """The last step that an attempt told of."""
    steps = [int(step) for step in _STEP.findall(log)]
    return max(steps, default=0)


def failures(outcome: Outcome) -> list[str]:
    """What did not come true, in the story's order; empty if all did."""
    return [*_story(outcome), *_end(outcome)]


def survival_failures(outcome: Outcome) -> list[str]:
    """As `failures`, for a service that was killed: how it got there does not matter, where it ended does."""
    return list(_end(outcome))


def _story(outcome: Outcome) -> Iterator[str]:
    attempts = outcome.attempts
    first = attempts[0] if attempts else None
    if first is None or first["reason"] != "refused" or first["error_kind"] != "capacity":
        yield "the first choice was not refused for want of stock"
    lost = next((one for one in attempts if one["reason"] == "preempted"), None)
    if lost is None:
        yield "no spot instance was taken back"
        return
    heir = attempts[-1]
    if heir["provider"] == lost["provider"]:
        yield f"the replacement ran on {heir['provider']} too, not on another cloud"
    yield from _overlap(outcome.machines, lost, heir)
    if resumed_at(outcome.logs.get(heir["number"], "")) is None:
        yield "the replacement did not resume from a checkpoint"
    elif lost_steps(outcome.logs, lost, heir) > 0:
        yield f"{lost_steps(outcome.logs, lost, heir)} steps were done twice although the job had been told"


def lost_steps(logs: Mapping[int, str], lost: Record, heir: Record) -> int:
    """Steps that were done and had to be done again."""
    return max(0, reached(logs.get(lost["number"], "")) - (resumed_at(logs.get(heir["number"], "")) or 0))


def _overlap(machines: Sequence[Record], lost: Record, heir: Record) -> Iterator[str]:
    old, new = (
        next((one for one in machines if one["tags"].get("corral-attempt") == attempt["id"]), None)
        for attempt in (lost, heir)
    )
    if old is None or new is None or new["running_at"] is None:
        yield "the clouds do not know both instances"
    elif old["ended_at"] is not None and _at(new["running_at"]) >= _at(old["ended_at"]):
        yield "the replacement booted only after the old instance was gone"


def _end(outcome: Outcome) -> Iterator[str]:
    if outcome.job["state"] != "succeeded":
        yield f"the job is {outcome.job['state']}: {outcome.job['detail']}"
    sums = [found for log in outcome.logs.values() if (found := checksum_of(log)) is not None]
    if sums != [outcome.checksum]:
        yield f"it ended with {sums or 'no checksum'}; a run without interruption gives {outcome.checksum}"
    succeeded = [one for one in outcome.attempts if one["reason"] == "succeeded"]
    if len(succeeded) != 1:
        yield f"{len(succeeded)} attempts succeeded, not one"
    yield from double_launches(outcome.machines)
    yield from (f"left over: {text}" for text in leftovers(outcome.ledger))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)
