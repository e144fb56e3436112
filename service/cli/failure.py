"""How a command fails: one line on stderr and an exit code of this table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the exit code of every `corral` command means; docs/exit-codes.md shows the same table."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    AUTH = 5
    INTERRUPTED = 130


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "it worked; for `run` and `logs -f` the job succeeded",
    ExitCode.FAILED: "it did not work; for `run` and `logs -f` the job failed or was cancelled",
    ExitCode.USAGE: "the command line or a file named on it is wrong; nothing was sent",
    ExitCode.UNREACHABLE: "the service did not answer",
    ExitCode.REFUSED: "the service refused it: a wrong field, no such thing, or a conflict",
    ExitCode.AUTH: "no token, a wrong one, or one that may not do this",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; a job that was followed runs on",
}


class CommandError(Exception):
    """Ends the command. `message` is one line that says what, where and what is allowed."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.message = " ".join(message.split())
        self.code = code


class UsageError(CommandError):
    """What the person typed, or a file that they named, cannot be used."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ExitCode.USAGE)
