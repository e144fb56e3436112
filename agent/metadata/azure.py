"""Azure's Scheduled Events (Azure documentation: "Scheduled Events for Linux VMs")."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from agent.metadata import Connection, MetadataError, Notice, Reply

_HEADERS = {"Metadata": "true"}
_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_FIRST_SECONDS = 125.0  # real: the first call switches the service on and may take up to two minutes

# Freeze pauses the machine for some seconds and is no end. A redeploy loses the local disks and a reboot the
# processes: both end the job here, though the notice is longer than the half minute of a preemption.
_KINDS = {
    "Preempt": "preemption",
    "Terminate": "maintenance",
    "Redeploy": "maintenance",
    "Reboot": "maintenance",
}


class AzureWatcher:
    """The events that name this machine. `NotBefore` is the longest that it may take, not the shortest; it
    is empty once the event has started.
    """

    interval = 1.0

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = ""
        self._incarnation: object = None
        self._seen: set[tuple[str, bool]] = set()

    def instance_id(self) -> str:
        """The machine's name."""
        self._name = self._get(_NAME).body.strip()
        return self._name

    def poll(self) -> Notice | None:
        """The most urgent event of ours that was not told yet; one that has started is told again."""
        if not self._name:
            self.instance_id()
        timeout = None if self._incarnation is not None else _FIRST_SECONDS
        document = _object(self._get(_EVENTS, timeout))
        self._incarnation = document.get("DocumentIncarnation", 0)
        fresh = [event for event in document.get("Events") or [] if self._is_news(event)]
        if not fresh:
            return None
        event = min(fresh, key=lambda event: event["EventType"] != "Preempt")
        self._seen.add(_key(event))
        started = event.get("EventStatus") == "Started"
        deadline = parse_time(str(event.get("NotBefore") or ""))
        kind = _KINDS[event["EventType"]]
        urgent = kind == "preemption" or started or deadline is None
        return Notice(kind, deadline, f"scheduledevents {event['EventType']}", urgent)

    def _is_news(self, event: dict[str, Any]) -> bool:
        mine = self._name.lower() in (str(name).lower() for name in event.get("Resources") or [])
        return mine and event.get("EventType") in _KINDS and _key(event) not in self._seen

    def _get(self, path: str, timeout: float | None = None) -> Reply:
        reply = self._connection.ask("GET", path, _HEADERS, timeout)
        if reply.status != 200:
            raise MetadataError(f"{path.partition('?')[0]}: the answer was {reply.status}")
        return reply


def parse_time(text: str) -> datetime | None:
    """`Mon, 19 Sep 2016 18:29:47 GMT`; None for anything else."""
    try:
        value = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _key(event: dict[str, Any]) -> tuple[str, bool]:
    return str(event.get("EventId")), event.get("EventStatus") == "Started"


def _object(reply: Reply) -> dict[str, Any]:
    try:
        value = json.loads(reply.body)
    except ValueError as error:
        raise MetadataError(f"scheduledevents: no JSON: {reply.body[:80]!r}") from error
    if not isinstance(value, dict):
        raise MetadataError("scheduledevents: expected an object")
    return value
