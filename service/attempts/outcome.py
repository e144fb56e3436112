"""Why attempts end and what that means for the job: a table, and one function that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from service.jobs.spec import Retry


class Ended(StrEnum):
    """Why an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SETUP_FAILED = "setup_failed"
    PREEMPTED = "preempted"
    LOST = "lost"
    BOOT_FAILED = "boot_failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    MAX_DURATION = "max_duration"
    MAX_COST = "max_cost"
    MOVED = "moved"
    DISPLACED = "displaced"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Meaning:
    """`job`: what becomes of the job if it is not tried again: failed, cancelled, succeeded, or queued (it
    always is). `counts_as`: which of the spec's retry limits another try uses up; None uses up none.
    """

    job: str
    counts_as: str | None = None


MEANINGS: dict[Ended, Meaning] = {
    Ended.SUCCEEDED: Meaning("succeeded"),
    Ended.FAILED: Meaning("failed", "failed"),
    Ended.SETUP_FAILED: Meaning("failed", "failed"),
    Ended.PREEMPTED: Meaning("failed", "preempted"),
    Ended.LOST: Meaning("failed", "lost"),
    Ended.BOOT_FAILED: Meaning("failed", "boot_failed"),
    Ended.REFUSED: Meaning("queued"),
    Ended.CANCELLED: Meaning("cancelled"),
    Ended.MAX_DURATION: Meaning("failed"),
    Ended.MAX_COST: Meaning("failed"),
    Ended.MOVED: Meaning("queued"),
    Ended.DISPLACED: Meaning("queued"),
    Ended.SUPERSEDED: Meaning("queued"),
}

REPLACED = frozenset({Ended.PREEMPTED, Ended.MOVED, Ended.DISPLACED})
"""Drains after which the job goes on elsewhere: it is told to checkpoint, and what follows may boot ahead."""

# What the agent says of an exit that is not the job's own → why the attempt ended.
EXITS: dict[str, Ended] = {
    "setup_failed": Ended.SETUP_FAILED,
    "files_failed": Ended.SETUP_FAILED,
    "restore_failed": Ended.BOOT_FAILED,
    "disk_full": Ended.FAILED,
    "max_duration": Ended.MAX_DURATION,
    "lost_by_reboot": Ended.LOST,
    "preempted": Ended.PREEMPTED,
    "stopped": Ended.CANCELLED,
}

ALWAYS_RETRIED = 100
"""How often an exit code that the spec lists may be tried again."""


def tries_left(retry: Retry, used: dict[str, int], ended: Ended, exit_code: int | None) -> bool:
    """True if the spec allows another attempt after one that ended so."""
    meaning = MEANINGS[ended]
    if meaning.job == "queued":
        return True
    if meaning.counts_as is None:
        return False
    allowed: int = getattr(retry, meaning.counts_as)
    if ended is Ended.FAILED and exit_code in retry.exit_codes:
        allowed += ALWAYS_RETRIED
    return used.get(meaning.counts_as, 0) < allowed
