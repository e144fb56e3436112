"""The loops and what makes them turn: APScheduler ticks, commits wake, due times are kept to the moment.

A loop's step returns when it has work next; it runs then, when woken, and on a slow beat in any case, so
that a lost wake-up costs a little time and never correctness.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from clock import ScaledClock
from service.attempts import launcher
from service.attempts.lifecycle import Lifecycle
from service.context import Context
from service.instances import reaper, watcher
from service.jobs.scheduler import Scheduler
from service.market.market import Market
from service.nodes import loop as nodes
from service.notifications.loop import Notifier
from service.quota_desk.desk import Desk
from service.quotas import reader as quotas
from service.retention.loop import Retention

log = structlog.get_logger(__name__)

Step = Callable[[Context], datetime | None]
BEAT = 15.0
"""Seconds between two runs of a loop that nothing wakes and that has nothing due."""
SHORTEST = 0.02


def steps() -> dict[str, Step]:
    """The loops of one process, by name."""
    return {
        "market": Market().step,
        "quotas": quotas.step,
        "quota_desk": Desk().step,
        "scheduler": Scheduler().step,
        "launcher": launcher.step,
        "watcher": watcher.step,
        "lifecycle": Lifecycle().step,
        "reaper": reaper.step,
        "nodes": nodes.step,
        "notifications": Notifier().step,
        "retention": Retention().step,
    }


class _Loop:
    """One loop: never twice at once, and never missing a wake-up that came while it ran."""

    def __init__(self, name: str, step: Step) -> None:
        self.name = name
        self.last_run: datetime | None = None
        self.last_error: str | None = None
        self._step = step
        self._woken = threading.Event()
        self._turn = threading.Lock()

    def wake(self) -> None:
        self._woken.set()

    @property
    def woken(self) -> bool:
        return self._woken.is_set()

    def run(self, ctx: Context, stopping: threading.Event) -> datetime | None:
        """Run the step as long as someone wakes it; when it is due next.

        Who finds it running leaves: the flag is up before the turn is asked for, and is looked at again
        after the turn was given back.
        """
        due = None
        while self._woken.is_set() and not stopping.is_set():
            if not self._turn.acquire(blocking=False):
                return None
            try:
                self._woken.clear()
                due = self._once(ctx)
            finally:
                self._turn.release()
        return due

    def _once(self, ctx: Context) -> datetime | None:
        try:
            due = self._step(ctx)
        except Exception as error:
            log.exception("loop_failed", loop=self.name)
            self.last_error = f"{type(error).__name__}: {error}"
            return None
        self.last_run, self.last_error = ctx.now(), None
        return due


class Loops:
    """All loops of this process on one APScheduler. `clock` translates their times into real ones."""

    def __init__(self, clock: ScaledClock, loops: dict[str, Step] | None = None) -> None:
        self._clock = clock
        self._loops = {name: _Loop(name, step) for name, step in (loops or steps()).items()}
        self._ctx: Context | None = None
        self._stopping = threading.Event()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(3 * len(self._loops))},
            # Whether one runs already is the loop's own business: see _Loop.run.
            job_defaults={"coalesce": True, "max_instances": 3, "misfire_grace_time": 30},
        )

    @property
    def stopping(self) -> bool:
        """True once no new launch may be sent."""
        return self._stopping.is_set()

    def start(self, ctx: Context) -> None:
        """Start turning."""
        self._ctx = ctx
        for loop in self._loops.values():
            self._scheduler.add_job(
                self._run,
                args=[loop],
                id=loop.name,
                next_run_time=datetime.now(UTC),
                trigger="interval",
                seconds=BEAT,
            )
        self._scheduler.start()

    def wake(self, name: str) -> None:
        """Have a loop run now."""
        loop = self._loops[name]
        loop.wake()
        self._schedule(loop, datetime.now(UTC))

    def stop(self) -> None:
        """No new step begins; those that run are waited for."""
        self._stopping.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def status(self) -> dict[str, dict[str, Any]]:
        """Per loop: when it last ran well and what last went wrong."""
        return {
            name: {"last_run": loop.last_run, "last_error": loop.last_error}
            for name, loop in self._loops.items()
        }

    def _run(self, loop: _Loop) -> None:
        if self._ctx is None:
            return
        loop.wake()
        due = loop.run(self._ctx, self._stopping)
        wait = BEAT if due is None else (due - self._ctx.now()).total_seconds()
        real = max(SHORTEST, self._clock.real(max(0.0, min(wait, BEAT))))
        self._schedule(loop, datetime.now(UTC) + timedelta(seconds=real))
        if loop.woken:
            self._schedule(loop, datetime.now(UTC))

    def _schedule(self, loop: _Loop, when: datetime) -> None:
        if not self._stopping.is_set() and self._scheduler.running:
            self._scheduler.modify_job(loop.name, next_run_time=when)
