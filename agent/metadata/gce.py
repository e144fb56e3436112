"""Compute Engine's metadata server (Compute Engine documentation: "Query VM metadata", "Spot VMs")."""

from __future__ import annotations

from datetime import timedelta

from agent.metadata import Connection, MetadataError, Notice, Reply
from clock import Clock

_BASE = "/computeMetadata/v1/instance"
_HEADERS = {"Metadata-Flavor": "Google"}
_WAIT_SECONDS = 5
PREEMPTION_SECONDS = 30.0  # "up to 30 seconds", best effort; the server gives no time


class GceWatcher:
    """`instance/preempted` turns TRUE about 30 s before the power goes. The first poll reads it; each later
    one waits for a change with the etag of the one before, so that no change falls between two polls. A
    server without etags is simply asked again.
    """

    interval = 1.0

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._etag = ""
        self._told = False

    def instance_id(self) -> str:
        """The instance's name."""
        return self._get(f"{_BASE}/name").body.strip()

    def poll(self) -> Notice | None:
        """Returns at once when the value changes, else after a few seconds at most."""
        path = f"{_BASE}/preempted"
        if self._etag:
            path += f"?wait_for_change=true&timeout_sec={_WAIT_SECONDS}&last_etag={self._etag}"
        reply = self._get(path, timeout=_WAIT_SECONDS + 5.0)
        self._etag = reply.headers.get("etag", "")
        if reply.body.strip().upper() != "TRUE" or self._told:
            return None
        self._told = True
        deadline = self._clock.now() + timedelta(seconds=PREEMPTION_SECONDS)
        return Notice("preemption", deadline, "instance/preempted", urgent=True)

    def _get(self, path: str, timeout: float | None = None) -> Reply:
        reply = self._connection.ask("GET", path, _HEADERS, timeout)
        if reply.status != 200:
            raise MetadataError(f"{path}: the answer was {reply.status}")
        return reply
