"""The replay of one job in a recorded market: what a policy may do in a tick, and what it pays.

The model is that of "Can't Be Late" (NSDI'24) and SkyNomad (NSDI'27): docs/policies.md has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from policies.backtest.problem import TOLERANCE, Problem


class Mode(StrEnum):
    """What the job is on during a tick."""

    IDLE = "idle"
    SPOT = "spot"
    ON_DEMAND = "on_demand"


class RuleError(RuntimeError):
    """A policy asked for what the rules do not allow."""


@dataclass
class Entry:
    """What happened in one tick; `mode` and `zone` hold for the rest of it."""

    tick: int
    probes: list[int] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    mode: Mode = Mode.IDLE
    zone: int | None = None
    launched: bool = False

    def document(self) -> dict[str, Any]:
        """As it stands in the log."""
        return {
            "tick": self.tick,
            "probes": self.probes,
            "tries": self.tries,
            "mode": str(self.mode),
            "zone": self.zone,
            "launched": self.launched,
        }


@dataclass
class Bill:
    """USD by what it was paid for."""

    spot: float = 0.0
    on_demand: float = 0.0
    egress: float = 0.0
    probes: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.spot + self.on_demand + self.egress + self.probes


@dataclass(frozen=True)
class Run:
    """How it went. `finish` in seconds; None: the work was not done before the deadline."""

    problem: Problem
    bill: Bill
    finish: float | None
    launches: int
    moves: int
    log: tuple[Entry, ...]
    done: tuple[float, ...]


class Simulation:
    """The state of the job, and the moves a policy has in the present tick.

    A policy may read everything public here except `problem.zones[…].capacity` and prices of later ticks.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.tick = 0
        self.done = 0.0
        self.mode = Mode.IDLE
        self.zone: int | None = None
        self.checkpoint: int | None = None
        self.pending = 0.0
        self.bill = Bill()
        self.launches = 0
        self.moves = 0
        self.lost: int | None = None
        self.log: list[Entry] = []
        self.history: list[float] = []
        self._entry = Entry(0)

    @property
    def work_left(self) -> float:
        """Seconds of computation still to do."""
        return self.problem.work - self.done

    @property
    def time_left(self) -> float:
        """Seconds of whole ticks, the present one included."""
        return (self.problem.ticks - self.tick) * self.problem.gap

    @property
    def finished(self) -> bool:
        """Whether the work is done."""
        return self.work_left <= TOLERANCE

    @property
    def launched(self) -> bool:
        """Whether this tick's one launch is used."""
        return self._entry.launched

    def spot_price(self, zone: int) -> float:
        """USD an hour, now."""
        return self.problem.zones[zone].spot_price[self.tick]

    def visible(self, zone: int) -> bool | None:
        """Whether a zone has capacity now; None where that cannot be seen."""
        return self._has(zone) if self.problem.capacity_is_visible else None

    def begin(self) -> None:
        """Start the tick: a spot instance without capacity is lost."""
        self._entry = Entry(self.tick)
        self.lost = None
        if self.mode is Mode.SPOT and self.zone is not None and not self._has(self.zone):
            self.lost = self.zone
            self.stop()

    def stop(self) -> None:
        """Let go of what runs."""
        if self.launched:
            raise RuleError("a tick's launch is held for the tick")
        self.mode, self.zone, self.pending = Mode.IDLE, None, 0.0

    def try_spot(self, zone: int) -> bool:
        """Ask for spot; a refusal changes nothing."""
        if self.launched:
            raise RuleError("one launch a tick")
        self._entry.tries.append(zone)
        if self.mode is Mode.SPOT and self.zone == zone:
            return True
        if not self._has(zone):
            return False
        self._launch(zone, Mode.SPOT)
        return True

    def start_on_demand(self, zone: int) -> None:
        """Start on-demand; where the job already runs on it, nothing happens."""
        if self.mode is Mode.ON_DEMAND and self.zone == zone:
            return
        if self.launched:
            raise RuleError("one launch a tick")
        self._launch(zone, Mode.ON_DEMAND)

    def probe(self, zone: int) -> bool:
        """Learn whether a zone has spot capacity; paid where it has."""
        if self.mode is Mode.SPOT and self.zone == zone:
            return True
        self._entry.probes.append(zone)
        has = self._has(zone)
        if has:
            self.bill.probes += self.spot_price(zone) * self.problem.probe / 3600
        return has

    def end(self) -> None:
        """Bill the tick and make progress."""
        entry = self._entry
        entry.mode, entry.zone = self.mode, self.zone
        if self.zone is not None:
            gap = self.problem.gap
            if self.mode is Mode.SPOT:
                self.bill.spot += self.problem.bill(self.spot_price(self.zone))
            else:
                self.bill.on_demand += self.problem.bill(self.problem.zones[self.zone].on_demand_price)
            self.done += max(0.0, gap - self.pending)
            self.pending = max(0.0, self.pending - gap)
        self.log.append(entry)
        self.history.append(min(self.done, self.problem.work))
        self.tick += 1

    def _has(self, zone: int) -> bool:
        return self.problem.zones[zone].capacity[self.tick]

    def _launch(self, zone: int, mode: Mode) -> None:
        if self.checkpoint is not None and self.checkpoint != zone:
            self.bill.egress += self.problem.egress[self.checkpoint][zone]
            self.moves += 1
        self.mode, self.zone, self.checkpoint = mode, zone, zone
        self.pending = self.problem.restart
        self.launches += 1
        self._entry.launched = True


Act = Callable[[Simulation], None]


def simulate(problem: Problem, act: Act) -> Run:
    """Replay the market; `act` is called once a tick."""
    state = Simulation(problem)
    while state.tick < problem.ticks and not state.finished:
        state.begin()
        act(state)
        state.end()
    finish = state.tick * problem.gap if state.finished else None
    return Run(
        problem,
        state.bill,
        finish,
        state.launches,
        state.moves,
        tuple(state.log),
        tuple(state.history),
    )
