"""A clock that tests move by hand."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

_LOOK_EVERY = 0.005  # real seconds: how often a blocked wait looks whether its event was set


class FakeClock:
    """Stands still until `advance` moves it; safe to share between threads.

    waits_advance: `wait` moves the clock by what it was asked for instead of blocking, which is what a
    test that runs on one thread wants.
    """

    def __init__(self, start: datetime | None = None, *, waits_advance: bool = False) -> None:
        self._now = start or datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
        self._monotonic = 0.0
        self._waits_advance = waits_advance
        self._moved = threading.Condition()

    def now(self) -> datetime:
        with self._moved:
            return self._now

    def monotonic(self) -> float:
        with self._moved:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake whoever waited for it."""
        if seconds < 0:
            raise ValueError("time does not go back; use jump to set the wall clock")
        with self._moved:
            self._now += timedelta(seconds=seconds)
            self._monotonic += seconds
            self._moved.notify_all()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP would; `monotonic` is not touched."""
        with self._moved:
            self._now += timedelta(seconds=seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Block until `event` is set or others have advanced the clock by `seconds`."""
        if self._waits_advance:
            if not event.is_set():
                self.advance(max(0.0, seconds))
            return event.is_set()
        with self._moved:
            until = self._monotonic + seconds
            while not event.is_set() and self._monotonic < until:
                self._moved.wait(_LOOK_EVERY)
        return event.is_set()
