"""The thread that talks to the service: heartbeats, and what else is to be said, in order."""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from agent import deadman
from agent.client import OverError, RefusedError, ServiceClient, ServiceError, UnavailableError
from agent.identity import Identity
from agent.orders import Halt, HaltOrder, Orders, StartOrder
from agent.protocol import Directive, ExitReason, Reply
from agent.states import State
from clock import Clock

_READY_SECONDS = 1.0
_OUTBOX = 64  # messages; when the service is away for long, the newest matter

log = logging.getLogger(__name__)


class Courier:
    """Says what state the job is in, and hands on what the service wants of it.

    vitals: what a heartbeat carries besides epoch, state and boot id. holds: there is a job, or an exit
    that is not delivered, so that silence alone is no reason to end the instance.
    """

    def __init__(
        self,
        client: ServiceClient,
        clock: Clock,
        chance: random.Random,
        orders: Orders,
        identity: Identity,
        state: State,
        vitals: Callable[[], dict[str, Any]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance
        self._orders = orders
        self._identity = identity
        self._vitals = vitals
        self._interval = identity.heartbeat_seconds
        self._state = state
        self._outbox: deque[tuple[str, dict[str, Any]]] = deque(maxlen=_OUTBOX)
        self._delivering = threading.Lock()
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self.holds = False

    def start(self) -> None:
        threading.Thread(target=self._run, name="courier", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._wake.set()

    def enter(self, state: State) -> None:
        """Say the new state at once."""
        self._state = state
        self._wake.set()

    def say(self, path: str, body: dict[str, Any]) -> None:
        """Deliver a message soon, and keep trying."""
        self._outbox.append((path, {"epoch": self._identity.epoch, **body}))
        self._wake.set()

    def say_now(self, path: str, body: dict[str, Any]) -> None:
        """Deliver a message in the caller's thread; if that fails, soon."""
        try:
            answer = self._client.post(path, {"epoch": self._identity.epoch, **body})
        except OverError as over:
            self.over(over)
        except UnavailableError:
            self.say(path, body)
        except ServiceError as error:
            log.warning("%s: %s", path, error)
        else:
            self.apply(Reply.parse(answer.body))

    def flush(self) -> None:
        """Deliver what waits now, so that what the caller says next comes after it. Raises ServiceError."""
        self._deliver()

    def over(self, over: OverError) -> None:
        """This instance has nothing to do here any more."""
        log.warning("the attempt is over: %s: %s", over.kind, over)
        self._orders.give_halt(HaltOrder(Halt.ABANDON, ExitReason.STOPPED, f"{over.kind}: {over}"))
        self._orders.give_end()
        self.stop()

    def apply(self, reply: Reply) -> None:
        """Turn a directive into orders."""
        if reply.heartbeat_seconds:
            self._interval = float(reply.heartbeat_seconds)
        if reply.epoch is not None and reply.epoch != self._identity.epoch:
            detail = f"epoch {reply.epoch} is in force, ours is {self._identity.epoch}"
            self._orders.give_halt(HaltOrder(Halt.ABANDON, ExitReason.STOPPED, detail))
            return
        detail = reply.reason or f"the service said {reply.directive}"
        match reply.directive:
            case Directive.START:
                self._orders.give_start(StartOrder(reply.node_ips, reply.master_port))
            case Directive.DRAIN:
                order = HaltOrder(Halt.DRAIN, ExitReason.PREEMPTED, detail, grace=reply.grace_seconds)
                self._orders.give_halt(order)
            case Directive.STOP:
                order = HaltOrder(Halt.STOP, ExitReason.STOPPED, detail, grace=reply.grace_seconds)
                self._orders.give_halt(order)
            case Directive.END:
                if self._state is not State.EXITED:
                    self._orders.give_halt(HaltOrder(Halt.ABANDON, ExitReason.STOPPED, detail))
                self._orders.give_end()

    def beat(self) -> float:
        """Deliver what waits, then one heartbeat; seconds until the next."""
        try:
            self._deliver()
            self._heartbeat()
        except OverError as over:
            self.over(over)
        except UnavailableError as error:
            log.info("the service is away: %s", error)
            return max(self._pause(), error.retry_after or 0.0)
        except ServiceError as error:
            log.warning("heartbeat: %s", error)
        return self._pause()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                pause = self.beat()
                self._look_at_the_time()
            except Exception:  # an answer that makes no sense must not silence this instance
                log.exception("heartbeat")
                pause = self._pause()
            self._clock.wait(self._wake, pause)
            self._wake.clear()

    def _deliver(self) -> None:
        with self._delivering:
            while self._outbox:
                path, body = self._outbox[0]
                try:
                    self._client.post(path, body)
                except RefusedError as error:
                    log.warning("%s: %s", path, error)
                self._outbox.popleft()

    def _heartbeat(self) -> None:
        body = {
            "epoch": self._identity.epoch,
            "state": str(self._state),
            "boot_id": self._identity.boot_id,
            **self._vitals(),
        }
        self.apply(Reply.parse(self._client.post("/agent/v1/heartbeat", body).body))

    def _pause(self) -> float:
        if self._state is State.READY:
            return _READY_SECONDS
        return self._interval * self._chance.uniform(0.9, 1.0)

    def _look_at_the_time(self) -> None:
        now = self._clock.monotonic()
        if deadman.silent_too_long(now, self._client.last_contact, job_runs=self.holds):
            detail = "no contact with the service for half an hour, and no job"
            self._orders.give_halt(HaltOrder(Halt.ABANDON, ExitReason.STOPPED, detail))
            self._orders.give_end()
        if deadman.too_old(now, self._identity.born, self._identity.max_age_seconds):
            detail = f"the instance has reached its maximum age of {self._identity.max_age_seconds:.0f} s"
            self._orders.give_halt(HaltOrder(Halt.STOP, ExitReason.MAX_DURATION, detail))
