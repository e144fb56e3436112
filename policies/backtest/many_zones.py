"""Uniform progress over many zones: the baselines of SkyNomad (NSDI'27), written from its description."""

from __future__ import annotations

from collections import defaultdict, deque

from policies.backtest.guard import by_price, fall_back, may_launch, slack
from policies.backtest.one_zone import uniform_progress
from policies.backtest.simulation import Act, Mode, Simulation

SAMPLES = 5
HEARTBEAT_SECONDS = 2 * 3600.0
PROBE_SECONDS = 3600.0
CLEARLY = 0.9


def up_eager() -> Act:
    """SkyPilot's failover: after a loss the cheapest zones first, those of the lost zone's region last."""
    lost_region: str | None = None

    def order(state: Simulation) -> list[int]:
        zones = state.problem.zones
        return sorted(by_price(state), key=lambda z: zones[z].region == lost_region)

    inner = uniform_progress(order)

    def act(state: Simulation) -> None:
        nonlocal lost_region
        if state.lost is not None:
            lost_region = state.problem.zones[state.lost].region
        inner(state)

    return act


class _Scored:
    """Uniform progress with zones ranked by a score from samples; moves to a better one while it runs."""

    def __init__(self, by_cost: bool) -> None:
        self._by_cost = by_cost
        self._samples: dict[int, deque[bool]] = defaultdict(
            lambda: deque(maxlen=None if by_cost else SAMPLES)
        )
        self._sampled_at: dict[int, float] = defaultdict(lambda: float("-inf"))

    def act(self, state: Simulation) -> None:
        """One tick."""
        if state.lost is not None:
            self._note(state, state.lost, False)
        problem, now = state.problem, state.tick * state.problem.gap
        pace = problem.work / (problem.ticks * problem.gap)
        if state.mode is Mode.SPOT:
            self._move(state)
        elif state.mode is Mode.IDLE and slack(state) < problem.restart:
            fall_back(state)
        elif state.mode is Mode.IDLE or state.done >= pace * (now + 2 * problem.restart):
            granted = self._try(state, self._order(state))
            if not granted and state.mode is Mode.IDLE and state.done < pace * now:
                fall_back(state)
        self._sample(state, now)

    def _score(self, state: Simulation, zone: int) -> float:
        samples = self._samples[zone]
        share = sum(samples) / len(samples) if samples else 0.5
        return share / state.spot_price(zone) if self._by_cost else share

    def _order(self, state: Simulation) -> list[int]:
        return sorted(by_price(state), key=lambda z: -self._score(state, z))

    def _move(self, state: Simulation) -> None:
        best = self._order(state)[0]
        here = state.zone if state.zone is not None else best
        margin = CLEARLY if self._by_cost else 1.0
        if self._score(state, here) < margin * self._score(state, best) and may_launch(state):
            if not self._by_cost:
                state.stop()  # as published: the old instance goes before the new one is asked for
            self._try(state, self._order(state))

    def _try(self, state: Simulation, zones: list[int]) -> bool:
        for zone in zones:
            granted = state.try_spot(zone)
            self._note(state, zone, granted)
            if granted:
                return True
        return False

    def _sample(self, state: Simulation, now: float) -> None:
        """A heartbeat of what runs; the others by probes: all each hour, or one a tick, each every 2 h."""
        every = PROBE_SECONDS if self._by_cost else HEARTBEAT_SECONDS
        due = [z for z in by_price(state) if now - self._sampled_at[z] >= every]
        running = state.zone if state.mode is Mode.SPOT else None
        if running in due:
            self._note(state, running, True)
        others = [z for z in due if z != running]
        for zone in others if self._by_cost else others[:1]:
            self._note(state, zone, state.probe(zone))

    def _note(self, state: Simulation, zone: int, available: bool) -> None:
        self._samples[zone].append(available)
        self._sampled_at[zone] = state.tick * state.problem.gap


def up_available() -> Act:
    """Uniform progress in the zone with the best share of its last five samples."""
    return _Scored(by_cost=False).act


def up_availability_price() -> Act:
    """Uniform progress in the zone with the best availability for its price."""
    return _Scored(by_cost=True).act
