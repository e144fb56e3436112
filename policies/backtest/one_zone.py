"""Yardsticks from "Can't Be Late" (NSDI'24) and the best evolved policies of the ADRS leaderboard, written
from their descriptions. With several zones they try all, the cheapest first.
"""

from __future__ import annotations

from collections.abc import Callable

from policies.backtest.guard import by_price, fall_back, slack, try_all
from policies.backtest.simulation import Act, Mode, Simulation

Order = Callable[[Simulation], list[int]]
SLICES = 8


def on_demand(state: Simulation) -> None:
    """On-demand only."""
    fall_back(state)


def greedy() -> Act:
    """Spot whenever there is any, else wait; on-demand to the end once a restart more would be too late."""
    final = False

    def act(state: Simulation) -> None:
        nonlocal final
        if final or state.mode is Mode.SPOT:
            return
        if slack(state) < state.problem.restart:
            final = True
            fall_back(state)
        else:
            try_all(state, by_price(state))

    return act


def time_sliced() -> Act:
    """Greedy within each of eight slices of the time, each owing an eighth of the work."""

    def act(state: Simulation) -> None:
        problem = state.problem
        length = problem.ticks * problem.gap / SLICES
        now = state.tick * problem.gap
        number = min(SLICES, int(now // length) + 1)
        owed = problem.work * number / SLICES - state.done
        left = number * length - now
        if state.mode is Mode.SPOT or (state.mode is Mode.ON_DEMAND and owed > 0):
            return
        if owed > 0 and left < owed + 2 * problem.restart:
            fall_back(state)
            return
        if state.mode is Mode.ON_DEMAND:
            state.stop()
        try_all(state, by_price(state))

    return act


def uniform_progress(order: Order = by_price) -> Act:
    """Keep to the line from nothing at the start to all at the deadline."""
    final = False

    def act(state: Simulation) -> None:
        nonlocal final
        problem = state.problem
        if final or state.mode is Mode.SPOT:
            return
        if state.mode is Mode.IDLE and slack(state) < problem.restart:
            final = True
            fall_back(state)
            return
        now = state.tick * problem.gap
        pace = problem.work / (problem.ticks * problem.gap)
        ahead = now + 2 * problem.restart if state.mode is Mode.ON_DEMAND else now
        if state.mode is Mode.ON_DEMAND and state.done < pace * ahead:
            return
        if not try_all(state, order(state)) and state.mode is Mode.IDLE and state.done < pace * now:
            fall_back(state)

    return act


def slack_reserve(share: float, ticks: float) -> Act:
    """Spot whenever there is any; without, wait while slack exceeds a share of the work left, plus ticks."""

    def act(state: Simulation) -> None:
        if state.mode is Mode.SPOT:
            return
        if slack(state) <= 0:
            fall_back(state)
        elif not try_all(state, by_price(state)) and state.mode is Mode.IDLE:
            reserve = share * state.work_left + ticks * state.problem.gap
            if slack(state) < reserve:
                fall_back(state)

    return act
