"""How long to wait before the next try."""

from __future__ import annotations

import random


class Backoff:
    """Doubling waits with jitter: each is between half and all of `first * 2^n`, at most `ceiling` seconds.

    What the other side asked for (`Retry-After`) is a floor.
    """

    def __init__(self, chance: random.Random, *, first: float = 1.0, ceiling: float = 30.0) -> None:
        self._chance = chance
        self._first = first
        self._ceiling = ceiling
        self._failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Count a failure; seconds to wait."""
        span = min(self._ceiling, self._first * 2.0 ** min(self._failures, 20))
        self._failures += 1
        return max(span * self._chance.uniform(0.5, 1.0), retry_after or 0.0)

    def reset(self) -> None:
        """The other side answered."""
        self._failures = 0
