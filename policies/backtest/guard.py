"""What every yardstick needs: the guard that keeps it on time, and zones in order of price."""

from __future__ import annotations

from collections.abc import Iterable

from policies.backtest.problem import TOLERANCE
from policies.backtest.simulation import Act, Mode, Simulation


def slack(state: Simulation) -> float:
    """Seconds that can be lost and on-demand would still finish."""
    return state.time_left - state.work_left - state.problem.restart


def safe(state: Simulation, idle: float) -> bool:
    """Whether on-demand could still finish if this tick, `idle` seconds of it without progress, were all."""
    gap = state.problem.gap
    left = state.work_left - max(0.0, gap - idle)
    return left <= TOLERANCE or left + state.problem.restart <= state.time_left - gap + TOLERANCE


def may_launch(state: Simulation) -> bool:
    """Whether a launch on spot that is lost at once still leaves time for on-demand."""
    return safe(state, state.problem.restart)


def guarded(rule: Act) -> Act:
    """The rule, with on-demand forced where it would be too late a tick later."""

    def act(state: Simulation) -> None:
        idle = state.pending if state.mode is Mode.SPOT else state.problem.gap
        if safe(state, idle):
            rule(state)
        elif state.mode is not Mode.ON_DEMAND:
            fall_back(state)

    return act


def fall_back(state: Simulation) -> None:
    """On-demand in the cheapest zone; of equals where the checkpoint is, then the first."""
    if state.mode is Mode.ON_DEMAND:
        return
    zones = state.problem.zones
    state.start_on_demand(
        min(range(len(zones)), key=lambda z: (zones[z].on_demand_price, z != state.checkpoint, z))
    )


def by_price(state: Simulation) -> list[int]:
    """All zones, cheapest spot first."""
    return sorted(range(len(state.problem.zones)), key=lambda z: (state.spot_price(z), z))


def try_all(state: Simulation, zones: Iterable[int]) -> bool:
    """The first zone that grants spot."""
    return any(state.try_spot(zone) for zone in zones)
