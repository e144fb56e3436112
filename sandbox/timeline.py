"""The sandbox's time: what is due when, and what time it is while that happens."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

from clock import Clock

Action = Callable[[], None]


class Timeline:
    """A clock and what is planned on it, first come first served among equals. Not locked: the world is.

    While an action runs, `now` is the time it was due, however late it is run; so stamps and bills do not
    depend on how often somebody looks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plan: list[tuple[float, int, Action]] = []
        self._order = itertools.count()
        self._due: float | None = None

    def now(self) -> datetime:
        """UTC."""
        if self._due is None:
            return self._clock.now()
        return self._clock.now() - timedelta(seconds=max(0.0, self._clock.monotonic() - self._due))

    def after(self, seconds: float, action: Action) -> None:
        """Plan an action so many seconds from `now`."""
        base = self._clock.monotonic() if self._due is None else self._due
        heapq.heappush(self._plan, (base + seconds, next(self._order), action))

    def run_due(self) -> None:
        """Run what is due, in order."""
        try:
            while self._plan and self._plan[0][0] <= self._clock.monotonic():
                self._due, _, action = heapq.heappop(self._plan)
                action()
        finally:
            self._due = None
