"""Why a job could not be brought to its start: the protocol's reason, and a sentence for its owner."""

from __future__ import annotations

import shutil
from pathlib import Path

from agent.protocol import ExitReason
from agent.spool import NO_SPACE


class JobError(Exception):
    """Ends the attempt. `exit_code`: of the setup, where that is what failed."""

    def __init__(self, reason: ExitReason, detail: str, exit_code: int | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.exit_code = exit_code


def disk_full(place: Path, what: str, needed: int | None = None) -> JobError:
    """A JobError that says how much is needed (where that is known) and how much is free."""
    free = shutil.disk_usage(_existing(place)).free
    need = f"needs {needed} bytes, " if needed is not None else ""
    return JobError(ExitReason.DISK_FULL, f"the disk is full: {what} {need}{free} bytes are free at {place}")


def is_disk_full(error: OSError) -> bool:
    """True for the errors that mean: no room (a quota and a limit on file size included)."""
    return error.errno in NO_SPACE


def _existing(place: Path) -> Path:
    while not place.exists():
        place = place.parent
    return place
