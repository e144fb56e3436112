"""Asynchronous operations: what has been accepted, and how it ended once its time has come."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sandbox.ledger import stamp

# The outcome of an operation: None while it goes on, else its end and the error in which it ended.
Outcome = Callable[[], "End | None"]


@dataclass(frozen=True, slots=True)
class End:
    """status: Succeeded, Failed or Canceled."""

    at: datetime
    status: str = "Succeeded"
    error: dict[str, str] | None = None


@dataclass(frozen=True, slots=True)
class _Record:
    location: str
    started: datetime
    outcome: Outcome


class Operations:
    """The operations of one face by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, _Record] = {}

    def start(self, location: str, started: datetime, outcome: Outcome) -> str:
        """Book an operation; its id."""
        identity = str(uuid.uuid4())
        with self._lock:
            self._records[identity] = _Record(location, started, outcome)
        return identity

    def forget(self, identity: str) -> None:
        """Have the operation answer 404 from now on."""
        with self._lock:
            self._records.pop(identity, None)

    def read(self, location: str, identity: str) -> dict[str, Any] | None:
        """The operation's JSON; None if there is no such."""
        with self._lock:
            record = self._records.get(identity)
        if record is None or record.location != location.lower():
            return None
        end = record.outcome()
        body: dict[str, Any] = {"startTime": stamp(record.started), "name": identity}
        if end is None:
            return {**body, "status": "InProgress"}
        body |= {"status": end.status, "endTime": stamp(end.at)}
        return body if end.error is None else {**body, "error": end.error}
