"""The node's life: ask for work, have it done, remove what is left, ask again."""

from __future__ import annotations

import logging
import random
import threading
from dataclasses import dataclass
from typing import Any

from agent import __version__, machine, processes
from agent.backoff import Backoff
from agent.client import OverError, ServiceClient, ServiceError, UnavailableError
from agent.machine import Gpus
from agent.node.memory import Memory, NodePaths, Registration, load_memory, save_memory
from agent.node.work import Work
from agent.protocol import VERSION
from clock import Clock

ASK_SECONDS = 5.0
LOOK_SECONDS = 1.0  # how often it is looked whether the attempt's agent is through
END_PATIENCE = 180.0
"""How long an attempt's agent may take to end by itself, after the service wants the node back."""
DRAIN_PATIENCE = 60.0

log = logging.getLogger(__name__)


@dataclass
class Node:
    """One standing node. `stopping` is set when this process is to end."""

    paths: NodePaths
    registration: Registration
    client: ServiceClient
    clock: Clock
    chance: random.Random
    work: Work
    stopping: threading.Event

    def __post_init__(self) -> None:
        self.memory = load_memory(self.paths)
        self._gpus = Gpus()
        self._end_by: float | None = None
        self._stuck = False

    def live(self) -> int:
        """0 when told to stop, or when the service does not know this node any more."""
        self._take_up()
        backoff = Backoff(self.chance, ceiling=30.0)
        while not self.stopping.is_set():
            self._settle()
            try:
                wait = self._obey(self._ask())
                backoff.reset()
            except OverError as over:
                log.warning("the service knows no such node any more: %s", over)
                self._give_up()
                return 0
            except ServiceError as error:
                log.info("asking again: %s", error)
                wait = backoff.failed(error.retry_after if isinstance(error, UnavailableError) else None)
            self._wait(wait)
        self._stop()
        return 0

    def _take_up(self) -> None:
        """Go on with what an earlier start was at; its job may still run."""
        if self.memory.use is None:
            return
        if self.memory.boot_id != processes.boot_id():
            self.work.forget_boot()
        self._hand_and_start()

    def _ask(self) -> dict[str, Any]:
        facts = machine.facts(self.registration.service_url, self._gpus.inventory())
        said = {
            "protocol": VERSION,
            "agent_version": __version__,
            "running": self.memory.use,
            "done": self.memory.done,
            **facts,
        }
        return self.client.post("/agent/v1/node/poll", said).body

    def _obey(self, told: dict[str, Any]) -> float:
        """Do as told; seconds until the service is to be asked again."""
        use, seconds = told.get("use"), float(told.get("poll_seconds") or ASK_SECONDS)
        if told.get("end"):
            self._end(use)
        elif isinstance(use, dict) and self.memory.use is None and use["id"] != self.memory.done:
            self._begin(str(use["id"]), str(use["claim_code"]))
        return seconds

    def _begin(self, use: str, claim_code: str) -> None:
        log.info("begins %s", use)
        if not self.work.clean():
            return
        self._remember(Memory(use, claim_code, processes.boot_id(), self.memory.done))
        self._hand_and_start()

    def _hand_and_start(self) -> None:
        memory, where = self.memory, self.registration
        self.work.hand(
            service_url=where.service_url,
            ca=where.ca,
            claim_code=memory.claim_code or "",
            use=memory.use or "",
        )
        self.work.start()

    def _end(self, use: Any) -> None:
        """The service wants the node back. The attempt's agent hears of it too, and mostly comes first."""
        if self.memory.use is None:
            if isinstance(use, dict):
                self._remember(Memory(done=str(use["id"])))
        elif self._end_by is None:
            self._end_by = self.clock.monotonic() + END_PATIENCE

    def _settle(self) -> None:
        """What is over is removed, and then remembered as done."""
        if self.memory.use is None:
            return
        late = self._end_by is not None and self.clock.monotonic() >= self._end_by
        if late:
            self.work.kill()
        if not (late or self.work.is_over()):
            return
        self._stuck = not self.work.clean()
        if not self._stuck:
            log.info("is through with %s", self.memory.use)
            self._end_by = None
            self._remember(Memory(done=self.memory.use))

    def _wait(self, seconds: float) -> None:
        """Let time pass; the end of what runs cuts it short."""
        until = self.clock.monotonic() + seconds
        while (left := until - self.clock.monotonic()) > 0 and not self.stopping.is_set():
            self.clock.wait(self.stopping, min(left, LOOK_SECONDS))
            if self.memory.use is not None and not self._stuck and self.work.is_over():
                return

    def _stop(self) -> None:
        """This process is to end: the job is told and checkpoints, as when a machine is shut down."""
        self.work.drain()
        never, until = threading.Event(), self.clock.monotonic() + DRAIN_PATIENCE
        while self.memory.use is not None and self.clock.monotonic() < until:
            if self.work.is_over():
                self._settle()
                return
            self.clock.wait(never, 0.25)

    def _give_up(self) -> None:
        self.work.clean()
        self._remember(Memory(done=self.memory.use or self.memory.done))
        self.paths.registration.unlink(missing_ok=True)

    def _remember(self, memory: Memory) -> None:
        save_memory(self.paths, memory)
        self.memory = memory
