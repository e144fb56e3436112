"""How the job ended on this node, kept until the service has taken it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agent.durable import read_json, write_json
from agent.paths import Paths
from agent.protocol import ExitReason

_LONGEST_DETAIL = 4000  # characters


@dataclass(frozen=True, slots=True)
class Result:
    """checkpoint: the newest that was uploaded whole. detail: a sentence for the job's owner."""

    reason: ExitReason
    exit_code: int | None = None
    signal: int | None = None
    checkpoint: str | None = None
    detail: str = ""

    def message(self) -> dict[str, Any]:
        """The body of the exit call, without the epoch."""
        return {**asdict(self), "reason": str(self.reason), "detail": self.detail[:_LONGEST_DETAIL]}


def load(paths: Paths) -> Result | None:
    """The result of an earlier start of the agent that is still to be delivered."""
    value = read_json(paths.result)
    return Result(**{**value, "reason": ExitReason(value["reason"])}) if value else None


def save(paths: Paths, result: Result) -> None:
    write_json(paths.result, result.message())
