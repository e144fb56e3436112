"""What is wanted of the job, whoever said it: the service, the cloud's notice, a limit, a signal."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from enum import IntEnum

from agent.protocol import ExitReason


class Halt(IntEnum):
    """How hard to stop; a harder one replaces a softer one."""

    DRAIN = 1  # SIGTERM, grace, last checkpoint, report: the machine or another node goes away
    STOP = 2  # the same, for a cancellation or a limit
    ABANDON = 3  # kill, upload nothing, report nothing, end the instance


@dataclass(frozen=True, slots=True)
class HaltOrder:
    """deadline: monotonic seconds, None where there is none. grace: seconds between SIGTERM and SIGKILL,
    None for the job's own. imminent: the end is near, but nobody says when.
    """

    halt: Halt
    reason: ExitReason
    detail: str
    deadline: float | None = None
    grace: float | None = None
    imminent: bool = False


@dataclass(frozen=True, slots=True)
class StartOrder:
    """All nodes are ready. Addresses in rank order."""

    node_ips: tuple[str, ...]
    master_port: int | None


class Orders:
    """Given by several threads, read by the one that acts. `changed` is set with each news."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.changed = threading.Event()
        self.halted = threading.Event()
        self._start: StartOrder | None = None
        self._halt: HaltOrder | None = None
        self._end = False

    @property
    def start(self) -> StartOrder | None:
        with self._lock:
            return self._start

    @property
    def halt(self) -> HaltOrder | None:
        with self._lock:
            return self._halt

    @property
    def end(self) -> bool:
        """The service has nothing more for this instance."""
        with self._lock:
            return self._end

    def give_start(self, order: StartOrder) -> None:
        with self._lock:
            news = self._start is None
            self._start = self._start or order
        if news:
            self.changed.set()

    def give_halt(self, order: HaltOrder) -> None:
        """The harder order wins; of two equal ones the first, with the earlier deadline."""
        with self._lock:
            merged = _merge(self._halt, order)
            news = merged != self._halt
            self._halt = merged
        if news:
            self.halted.set()
            self.changed.set()

    def give_end(self) -> None:
        with self._lock:
            self._end = True
        self.changed.set()


def _merge(old: HaltOrder | None, new: HaltOrder) -> HaltOrder:
    if old is None:
        return new
    kept, other = (new, old) if new.halt > old.halt else (old, new)
    deadlines = [order.deadline for order in (kept, other) if order.deadline is not None]
    return replace(kept, deadline=min(deadlines, default=None), imminent=kept.imminent or other.imminent)
