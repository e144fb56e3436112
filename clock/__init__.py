"""Time, passed in. The one thing that service, sandbox and agent share; standard library only.

A clock is `zero:factor`: it showed the same time as the machine's at `zero` (Unix seconds) and runs
`factor` times as fast since. Processes that read the same string share one clock. `0:1` is real time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

ENVIRONMENT = "CORRAL_CLOCK"


class Clock(Protocol):
    """What anything that waits or stamps a time is given. All seconds are the clock's own, not real ones."""

    def now(self) -> datetime:
        """The time, UTC and timezone-aware."""

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean anything."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Block until `event` is set or `seconds` have passed; True if it is set."""


@dataclass(frozen=True)
class ScaledClock:
    """Real time, sped up by `factor` since `zero` (Unix seconds)."""

    zero: float = 0.0
    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> ScaledClock:
        """Read `zero:factor`; ValueError says what is wrong with it."""
        zero, separator, factor = text.partition(":")
        if not separator:
            raise ValueError(f"clock {text!r}: expected ZERO:FACTOR, for example 0:1")
        clock = cls(float(zero), float(factor))
        if not 0 < clock.factor <= 10_000:
            raise ValueError(f"clock {text!r}: the factor must be above 0 and at most 10000")
        return clock

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ScaledClock:
        """The clock named by CORRAL_CLOCK, real time where it is not set."""
        return cls.parse(environment.get(ENVIRONMENT, "0:1"))

    def __str__(self) -> str:
        return f"{self.zero!r}:{self.factor!r}"

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.zero + (time.time() - self.zero) * self.factor, UTC)

    def monotonic(self) -> float:
        return time.monotonic() * self.factor

    def real(self, seconds: float) -> float:
        """How long `seconds` of this clock last in real seconds."""
        return seconds / self.factor

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(self.real(max(0.0, seconds)))


REAL = ScaledClock()
