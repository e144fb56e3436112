"""The thread that watches the cloud's metadata and acts on it: first here, then towards the service."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from datetime import datetime

from agent.metadata import Notice, Watcher
from agent.orders import Halt, HaltOrder, Orders
from agent.protocol import ExitReason
from clock import Clock

BLIND_AFTER = 3  # failed polls in a row
_MAINTENANCE_LEAD = 120.0  # seconds before announced maintenance, besides the job's grace

log = logging.getLogger(__name__)


class NoticeWatch:
    """A preemption drains at once. Maintenance with a date is reported at once and drains when the time left
    is what the job needs. A hint is only reported. tell: bring a notice to the service; may take its time.
    """

    def __init__(
        self,
        watcher: Watcher,
        clock: Clock,
        chance: random.Random,
        orders: Orders,
        *,
        tell: Callable[[Notice, datetime | None], None],
        grace: Callable[[], float],
    ) -> None:
        self._watcher = watcher
        self._clock = clock
        self._chance = chance
        self._orders = orders
        self._tell = tell
        self._grace = grace
        self._stopped = threading.Event()
        self._failures = 0
        self._announced: Notice | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="notices", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    @property
    def blind(self) -> bool:
        """True when notices would go unseen for some time already."""
        return self._failures >= BLIND_AFTER

    def _run(self) -> None:
        while not self._stopped.is_set():
            started = self._clock.monotonic()
            self.look()
            spent = self._clock.monotonic() - started
            pause = self._watcher.interval * self._chance.uniform(0.8, 1.0)
            self._clock.wait(self._stopped, max(0.0, pause - spent))

    def look(self) -> None:
        """One poll, and what follows from it."""
        try:
            notice = self._watcher.poll()
        except Exception as error:  # whatever the metadata service says must not end the agent
            self._failures += 1
            if self._failures == BLIND_AFTER:
                log.warning("the metadata service does not answer; notices may go unseen: %s", error)
            return
        self._failures = 0
        if notice is not None:
            self._act(notice)
        if self._announced is not None and self._is_due(self._announced):
            self._drain(self._announced)
            self._announced = None

    def _act(self, notice: Notice) -> None:
        log.warning("notice: %s, deadline %s", notice.source, notice.deadline)
        if notice.urgent:
            self._drain(notice)
        elif notice.deadline is not None:
            self._announced = notice
        now = self._clock.now()
        self._tell(notice, notice.deadline or (now if notice.urgent else None))

    def _is_due(self, notice: Notice) -> bool:
        left = self._left(notice)
        return left is None or left <= self._grace() + _MAINTENANCE_LEAD

    def _drain(self, notice: Notice) -> None:
        left = self._left(notice)
        self._orders.give_halt(
            HaltOrder(
                Halt.DRAIN,
                ExitReason.PREEMPTED,
                notice.source,
                deadline=None if left is None else self._clock.monotonic() + left,
                imminent=left is None,
            )
        )

    def _left(self, notice: Notice) -> float | None:
        """Seconds until the deadline; None where there is none or it has passed: then act now."""
        if notice.deadline is None:
            return None
        left = (notice.deadline - self._clock.now()).total_seconds()
        return left if left > 0 else None
