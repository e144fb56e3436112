"""What the phases share: who we are, what is wanted, and the threads that talk and watch."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from agent import identity as identities
from agent.backoff import Backoff
from agent.checkpoints.uploader import Uploader
from agent.client import OverError, RefusedError, ServiceClient, UnavailableError, UpgradeRequiredError
from agent.configuration import Configuration
from agent.containers import Container
from agent.courier import Courier
from agent.durable import read_json, write_json
from agent.failure import JobError
from agent.identity import Identity
from agent.logs import LogShipper
from agent.machine import Gpus
from agent.metadata import Notice, Watcher
from agent.notices import NoticeWatch
from agent.orders import Halt, HaltOrder, Orders
from agent.paths import Paths
from agent.protocol import Assignment, ExitReason, without_secrets
from agent.result import Result
from agent.spool import Spool
from agent.stages import Command, Exit, Stage
from agent.states import State
from clock import Clock

T = TypeVar("T")
DEFAULT_GRACE = 25.0  # seconds from SIGTERM to SIGKILL for a job without a checkpoint, as the service has it
_POLL_SECONDS = 0.25
_NOTES_BYTES = 8192

log = logging.getLogger(__name__)


class HaltedError(Exception):
    """Told to stop while something was under way; the orders say how."""


@dataclass(frozen=True, slots=True)
class World:
    """All that comes from outside. zipapp: the file this agent runs from, None for a folder."""

    paths: Paths
    clock: Clock
    chance: random.Random
    configuration: Configuration
    watcher: Watcher
    client: ServiceClient
    zipapp: Path | None = None


class Agent:
    """The state of one run of the agent. `agent.phases` moves it along the table in `agent.states`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.paths = world.paths
        self.clock = world.clock
        self.client = world.client
        self.orders = Orders()
        self.gpus = Gpus()
        self.instance_id = ""
        self.saved: Identity | None = None
        self.assignment: Assignment | None = None
        self.stage: Stage | None = None
        self.container: Container | None = None
        self.uploader: Uploader | None = None
        self.result: Result | None = None
        self._courier: Courier | None = None
        self._shipper: LogShipper | None = None
        self._spool: Spool | None = None
        self._notices: NoticeWatch | None = None

    # -- what a phase may rely on once it is reached ----------------------------------------------------

    @property
    def identity(self) -> Identity:
        return _there(self.saved, "identity")

    @property
    def job(self) -> Assignment:
        return _there(self.assignment, "assignment")

    @property
    def courier(self) -> Courier:
        return _there(self._courier, "courier")

    @property
    def spool(self) -> Spool:
        return _there(self._spool, "spool")

    @property
    def shipper(self) -> LogShipper | None:
        """None for a job that never came to print anything."""
        return self._shipper

    def grace(self) -> float:
        """What the job asked for between SIGTERM and SIGKILL, in seconds."""
        wanted = self.assignment.checkpoint if self.assignment else None
        return wanted.grace_seconds if wanted else DEFAULT_GRACE

    # -- taking up things as they become known ----------------------------------------------------------

    def remember(self, **changes: Any) -> None:
        """Change the identity, on disk first."""
        changed = replace(self.identity, **changes)
        identities.save(self.paths, changed)
        self.saved = changed

    def connect(self, identity: Identity, state: State) -> None:
        """Be this instance from now on: heartbeats go out, notices are watched for. `state`: the next one,
        so that an agent that was restarted never seems to have begun again.
        """
        self.saved = identity
        self.instance_id = identity.instance_id
        self.client.session = identity.session
        world = self.world
        self._notices = NoticeWatch(
            world.watcher, self.clock, world.chance, self.orders, tell=self._tell, grace=self.grace
        )
        self._courier = Courier(
            self.client, self.clock, world.chance, self.orders, identity, state, self._vitals
        )
        self._courier.start()
        self._notices.start()

    def take_assignment(self, raw: dict[str, Any], *, keep: bool) -> None:
        """Know the job; the spool opens and what is printed is sent. `keep`: for a restart of the agent."""
        self.assignment = Assignment.parse(raw)
        if keep:
            write_json(self.paths.assignment, without_secrets(raw))
        self.open_spool(self.assignment.log_limit_bytes)

    def kept_assignment(self) -> dict[str, Any] | None:
        """What `take_assignment` kept, in this boot."""
        value: dict[str, Any] | None = read_json(self.paths.assignment)
        return value

    def open_spool(self, limit: int) -> None:
        self._spool = Spool(self.paths.spool, limit)
        self._shipper = LogShipper(
            self.client, self._spool, self.clock, self.world.chance, self.identity.epoch, self.courier.over
        )
        self._shipper.start()

    def reopen_spool(self) -> None:
        """Send what an earlier start of the agent has left unsent, where the job itself is not known."""
        size = self.paths.spool.stat().st_size if self.paths.spool.exists() else 0
        self.open_spool(size + _NOTES_BYTES)

    def warn(self, text: str) -> None:
        """A line in the job's log, and in ours."""
        log.warning("%s", text)
        self.spool.note(text)

    def close(self) -> None:
        """Let the threads go."""
        for part in (self._notices, self._courier, self._shipper):
            if part is not None:
                part.stop()

    # -- waiting ----------------------------------------------------------------------------------------

    def pause(self, seconds: float = _POLL_SECONDS) -> None:
        """Let time pass; news ends it early."""
        self.clock.wait(self.orders.changed, seconds)
        self.orders.changed.clear()

    def wait_out(self, seconds: float) -> None:
        """Let time pass; raises HaltedError as soon as the job is to stop."""
        if self.clock.wait(self.orders.halted, seconds):
            raise HaltedError

    def retrying(self, call: Callable[[], None]) -> None:
        """Make a call until the service has answered it. Raises HaltedError, or JobError when it refuses."""
        backoff = Backoff(self.world.chance, ceiling=15.0)
        while True:
            if self.orders.halted.is_set():
                raise HaltedError
            try:
                return call()
            except UnavailableError as error:
                log.info("trying again: %s", error)
                self.wait_out(backoff.failed(error.retry_after))
            except OverError as over:
                self.courier.over(over)
                raise HaltedError from over
            except UpgradeRequiredError as error:
                detail = f"the service no longer speaks this agent's protocol: {error}"
                self.orders.give_halt(HaltOrder(Halt.ABANDON, ExitReason.STOPPED, detail))
                raise HaltedError from error
            except RefusedError as error:
                raise JobError(ExitReason.FILES_FAILED, f"the service refused: {error}") from error

    def run_stage(self, name: str, command: Command, limit: float | None = None) -> Exit:
        """Run a stage before the job to its end. Raises HaltedError, or TimeoutError after `limit` seconds;
        what it left running goes on, unless it was stopped.
        """
        stage = self.start_stage(name, command)
        until = None if limit is None else self.clock.monotonic() + limit
        while (ended := stage.poll()) is None:
            late = until is not None and self.clock.monotonic() >= until
            if late or self.orders.halted.is_set():
                self._end_stage(stage)
                if late:
                    raise TimeoutError
                raise HaltedError
            self.clock.wait(self.orders.halted, _POLL_SECONDS)
        return ended

    def start_stage(self, name: str, command: Command) -> Stage:
        return Stage.start(self.paths.stages / name, command, self.paths.spool, self.job.log_limit_bytes)

    def _end_stage(self, stage: Stage) -> None:
        stage.terminate()
        until = self.clock.monotonic() + 5.0
        never = threading.Event()
        while stage.living() and self.clock.monotonic() < until:
            self.clock.wait(never, _POLL_SECONDS)
        stage.kill()

    # -- ends -------------------------------------------------------------------------------------------

    def give_up(self, failure: JobError) -> State:
        """End with a failure before the job has run."""
        self.warn(failure.detail)
        self.result = Result(failure.reason, exit_code=failure.exit_code, detail=failure.detail)
        return State.EXITED

    def stopped(self) -> State:
        """End as the orders say, no job running."""
        order = self.orders.halt
        if order is None or order.halt is Halt.ABANDON:
            return State.END
        self.result = Result(order.reason, detail=order.detail)
        return State.EXITED

    # -- for the threads --------------------------------------------------------------------------------

    def _vitals(self) -> dict[str, Any]:
        restored = self.identity.restored
        vitals: dict[str, Any] = {
            "gpus": self.gpus.usage(),
            "restored": {"name": restored} if restored else None,
        }
        if self._notices is not None and self._notices.blind:
            vitals["degraded"] = ["notice_channel_down"]
        return vitals

    def _tell(self, notice: Notice, deadline: datetime | None) -> None:
        text = deadline.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if deadline else None
        self.courier.say_now(
            "/agent/v1/notice", {"kind": notice.kind, "deadline": text, "source": notice.source}
        )


def _there(value: T | None, what: str) -> T:
    if value is None:
        _missing(what)
    return value


def _missing(what: str) -> NoReturn:
    raise RuntimeError(f"no {what} yet: a phase ran out of order")
