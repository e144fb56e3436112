"""SkyNomad (NSDI'27), written from the paper's description: utility per hour, lifetimes by Nelson-Aalen."""

from __future__ import annotations

import math

from policies.backtest.guard import may_launch
from policies.backtest.simulation import Act, Mode, Simulation

PROBE_EVERY_SECONDS = 2 * 3600.0
MARGIN_DOLLARS, MARGIN_OF_WORTH = 0.51, 0.05  # $/h: 0.5, and 0.0002 a GB of a 50 GB checkpoint


class _Lives:
    """Spells of one zone as a virtual instance saw them: (seconds, whether it ended in a loss)."""

    def __init__(self) -> None:
        self.ended: list[tuple[float, bool]] = []
        self.since: float | None = None

    def note(self, available: bool, now: float) -> None:
        """A probe, a launch or a loss."""
        if available and self.since is None:
            self.since = now
        elif not available and self.since is not None:
            self.ended.append((now - self.since, True))
            self.since = None

    def expected(self, now: float, most: float) -> float:
        """Seconds of rest, at most `most`: the survivor function beyond the age, and a geometric tail."""
        age = now - self.since if self.since is not None else 0.0
        spells = self.ended if self.since is None else [*self.ended, (age, False)]
        losses = sorted(length for length, lost in spells if lost)
        if not losses:
            return most
        survivor, rest, last, hazard, step = 1.0, 0.0, age, 1.0, max(losses[0], 1.0)
        for length in losses:
            at_risk = sum(1 for other, _ in spells if other >= length)
            hazard, step = 1.0 / at_risk, max(length - last, step)
            if length <= age:
                continue
            rest += survivor * (length - last)
            survivor *= math.exp(-hazard)
            last = length
        return min(most, rest + survivor * step / (1 - math.exp(-hazard)))


class _SkyNomad:
    def __init__(self, zones: int) -> None:
        self._lives = [_Lives() for _ in range(zones)]
        self._probed = [-math.inf] * zones

    def act(self, state: Simulation) -> None:
        """One tick: the best utility that beats the present one by the margin."""
        now = state.tick * state.problem.gap
        if state.lost is not None:
            self._lives[state.lost].note(False, now)
        worth = self._worth(state)
        current = self._current(state, worth, now)
        margin = MARGIN_DOLLARS + MARGIN_OF_WORTH * worth if state.mode is not Mode.IDLE else 0.0
        for utility, zone, spot in sorted(self._offers(state, worth, now), reverse=True):
            if utility <= current + margin or (spot and not may_launch(state)):
                continue
            if not spot:
                state.start_on_demand(zone)
                break
            granted = state.try_spot(zone)
            self._lives[zone].note(granted, now)
            if granted:
                break
        self._probe(state, now)

    def _worth(self, state: Simulation) -> float:
        """USD for an hour of progress: that of on-demand on schedule, less when ahead."""
        problem = state.problem
        dear = min(zone.on_demand_price for zone in problem.zones)
        needed = state.work_left / max(state.time_left, 1.0)
        planned = problem.work / problem.deadline
        cheap = min(state.spot_price(z) for z in range(len(problem.zones)))
        return max(cheap, dear * needed / planned)

    def _current(self, state: Simulation, worth: float, now: float) -> float:
        if state.zone is None:
            return 0.0
        if state.mode is Mode.ON_DEMAND:
            return worth - state.problem.zones[state.zone].on_demand_price
        return worth - state.spot_price(state.zone)

    def _offers(self, state: Simulation, worth: float, now: float) -> list[tuple[float, int, bool]]:
        offers = []
        for zone, place in enumerate(state.problem.zones):
            if state.zone != zone or state.mode is not Mode.SPOT:
                life = max(self._lives[zone].expected(now, state.time_left), 1.0)
                useful = max(0.0, life - state.problem.restart) / life
                moved = state.checkpoint is not None and state.checkpoint != zone
                egress = state.problem.egress[state.checkpoint or 0][zone] if moved else 0.0
                utility = worth * useful - state.spot_price(zone) - egress * 3600 / life
                offers.append((utility, zone, True))
            if state.zone != zone or state.mode is not Mode.ON_DEMAND:
                offers.append((worth - place.on_demand_price, zone, False))
        return offers

    def _probe(self, state: Simulation, now: float) -> None:
        for zone, lives in enumerate(self._lives):
            if now - self._probed[zone] < PROBE_EVERY_SECONDS:
                continue
            if not (state.mode is Mode.SPOT and state.zone == zone):
                lives.note(state.probe(zone), now)
            self._probed[zone] = now


def skynomad() -> Act:
    """The policy, for one run."""
    policy: _SkyNomad | None = None

    def act(state: Simulation) -> None:
        nonlocal policy
        if policy is None:
            policy = _SkyNomad(len(state.problem.zones))
        policy.act(state)

    return act
