"""The demo's live lines and its timeline, made from the service's events and attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from service.cli.show import dollars, span

Record = Mapping[str, Any]

# Kinds of event that the story tells, each with the word that it begins with.
_TOLD = {
    "job_submitted": "submitted",
    "attempt_planned": "chosen",
    "attempt_booting": "accepted",
    "attempt_ended": "ended",
    "agent_hello": "hello",
    "job_process_started": "started",
    "attempt_running": "running",
    "checkpoint_stored": "checkpoint",
    "instance_notice": "notice",
    "attempt_draining": "draining",
    "job_process_exited": "exited",
    "instance_terminated": "gone",
    "job_waiting": "waiting",
    "job_succeeded": "succeeded",
    "job_failed": "failed",
}
_NEVER_STARTED = "planned", "requested"


class Story:
    """Turns events into lines, in the order in which they come. Times count from the job's submission."""

    def __init__(self, submitted_at: str) -> None:
        self._start = datetime.fromisoformat(submitted_at)
        self._attempts: dict[str, int] = {}

    def line(self, event: Record) -> str | None:
        """One line for people; None for an event that the story leaves out."""
        word = _TOLD.get(event["kind"])
        if word is None or event["data"].get("from") in _NEVER_STARTED:
            return None
        message = event["message"]
        if event["kind"] == "attempt_planned":
            self._attempts[event["subject_id"]] = len(self._attempts) + 1
        elif event["subject"] == "attempt":
            message = f"attempt {self._attempts.get(event['subject_id'], '?')}: {message}"
        return f"{self.after(event['at']):>7}  {word:<10}  {message}"

    def after(self, text: str) -> str:
        """How long after the submission, on the demo's clock."""
        seconds = (datetime.fromisoformat(text) - self._start).total_seconds()
        return f"{seconds:.0f} s"


def timeline(attempts: Sequence[Record], lost: Mapping[int, float], story: Story) -> list[tuple[str, ...]]:
    """One row an attempt: what, where, when, cost, work lost. `lost`: seconds done twice, by number."""
    rows: list[tuple[str, ...]] = []
    for attempt in attempts:
        ended = attempt["ended_at"]
        rows.append(
            (
                f"attempt {attempt['number']}",
                f"{attempt['provider']}/{attempt['zone']}",
                f"{attempt['instance_type']}, {attempt['capacity_type']}",
                story.after(attempt["planned_at"]),
                story.after(attempt["running_at"]) if attempt["running_at"] else "-",
                story.after(ended) if ended else "-",
                _why(attempt),
                dollars(attempt["cost_usd"], 2),
                span(lost[attempt["number"]]) if attempt["number"] in lost else "-",
            )
        )
    return rows


TIMELINE_COLUMNS = ("WHAT", "WHERE", "ON", "CHOSEN", "RUNNING", "ENDED", "WHY", "COST", "WORK LOST")


def _why(attempt: Record) -> str:
    reason = str(attempt["reason"] or attempt["state"])
    return f"{reason}: {attempt['error_code']}" if attempt["error_code"] else reason
