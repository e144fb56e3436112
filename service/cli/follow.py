"""Following a job to its end: its events on stderr, its output on stdout, through restarts of the service."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from service.cli.client import Client
from service.cli.failure import CommandError, ExitCode
from service.cli.jobs import OVER
from service.cli.show import note

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 600.0
LAST_OUTPUT_SECONDS = 10.0
_PAGE = 500

# Events that say what a person who waits wants to know; the rest is for `corral events`.
_TOLD = frozenset(
    {
        "attempt_planned",
        "attempt_booting",
        "attempt_running",
        "attempt_draining",
        "attempt_ended",
        "instance_notice",
        "job_waiting",
        "job_succeeded",
        "job_failed",
        "job_cancelled",
    }
)


class EventTail:
    """What has happened to a job since the last look."""

    def __init__(self, client: Client, job_id: str) -> None:
        self._client = client
        self._path = f"/v1/jobs/{job_id}/events"
        self._cursor: str | None = None
        self._seen = 0

    def new(self) -> Iterator[dict[str, Any]]:
        """Events that were not given before, oldest first."""
        while True:
            page = self._client.get(self._path, {"limit": _PAGE, "cursor": self._cursor})
            for event in page["items"]:
                if event["id"] > self._seen:
                    self._seen = event["id"]
                    yield event
            if page["next_cursor"] is None:
                return
            self._cursor = page["next_cursor"]


class Patience:
    """Rides out a service that is down for a while; what it lets through is worth an end."""

    def __init__(self, seconds: float = PATIENCE_SECONDS, say: Callable[[str], None] = note) -> None:
        self._seconds = seconds
        self._say = say
        self._down_since: float | None = None

    def answered(self) -> None:
        """The service answers (again)."""
        if self._down_since is not None:
            self._say("the service answers again")
        self._down_since = None

    def failed(self, error: CommandError) -> None:
        """Raises the error unless it may pass."""
        if error.code is not ExitCode.UNREACHABLE:
            raise error
        if self._down_since is None:
            self._down_since = time.monotonic()
            self._say(f"{error.message}; trying on")
        elif time.monotonic() - self._down_since > self._seconds:
            raise error


def follow(client: Client, job_id: str, *, json: bool = False) -> ExitCode:
    """Show a job's events and output until it is over; whether it succeeded. With `json` its last state is
    printed instead.
    """
    patience = Patience()
    tail = EventTail(client, job_id)
    output = None if json else _OutputThread(client, job_id)
    if output is not None:
        output.start()
    try:
        job = _watch(client, job_id, tail, patience)
    except KeyboardInterrupt:
        note(f"{job_id} runs on; `corral logs -f {job_id}` follows it, `corral cancel {job_id}` stops it")
        raise
    if output is not None:
        output.join(LAST_OUTPUT_SECONDS)
    else:
        from service.cli.show import as_json

        as_json(job)
    note(f"{job_id} {job['state']}")
    return ExitCode.OK if job["state"] == "succeeded" else ExitCode.FAILED


def stream_output(
    client: Client, job_id: str, *, rank: int = 0, attempt: int | None = None, tail: int | None = None
) -> str:
    """Write a job's output to stdout as it comes, until there will be no more; the job's last state."""
    patience = Patience()
    last_id: str | None = None
    params = {"rank": rank, "attempt": attempt, "follow": True}
    while True:
        try:
            first = {"tail": tail} if last_id is None else {}
            for event in client.events(f"/v1/jobs/{job_id}/logs", {**params, **first}, last_id):
                patience.answered()
                last_id = event.id or last_id
                if event.kind == "end":
                    return event.data
                if event.kind == "message":
                    sys.stdout.write(event.data)
                    sys.stdout.flush()
        except CommandError as error:
            patience.failed(error)
        time.sleep(LOOK_SECONDS)


def _watch(client: Client, job_id: str, tail: EventTail, patience: Patience) -> dict[str, Any]:
    told = ""
    while True:
        try:
            job: dict[str, Any] = client.get(f"/v1/jobs/{job_id}")
            for event in tail.new():
                if event["kind"] in _TOLD and event["message"] != told:
                    told = event["message"]
                    note(told)
            patience.answered()
            if job["state"] in OVER:
                return job
        except CommandError as error:
            patience.failed(error)
        time.sleep(LOOK_SECONDS)


class _OutputThread(threading.Thread):
    """The job's output beside its events. What goes wrong with it, the watching notices itself."""

    def __init__(self, client: Client, job_id: str) -> None:
        super().__init__(daemon=True)
        self._client, self._job_id = client, job_id

    def run(self) -> None:
        try:
            stream_output(self._client, self._job_id)
        except CommandError as error:
            note(f"output: {error.message}")
        except (BrokenPipeError, ValueError):
            return  # nobody reads any more
