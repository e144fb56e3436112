"""The least that a job could have cost by someone who knew the whole market beforehand. Exact.

Work counts as paid ticks × gap − launches × restart, which is exact unless a move by way of a third zone is
cheaper than the direct one. A Lagrangian relaxation (an hour of progress is worth λ dollars) bounds what each
state still has to pay; labels (progress, cost) that cannot come under the allowed cost are dropped, and the
allowance grows until a plan is found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from policies.backtest.problem import TOLERANCE, Problem
from policies.backtest.simulation import Mode, Simulation

_GOLDEN = (math.sqrt(5) - 1) / 2
_SEARCH_STEPS = 18
_FIRST_ALLOWANCE = 0.002
_ALLOWANCE_GROWS = 4.0

_Steps = tuple[Any, int, int, bool] | None  # the steps before, tick, option, launched
_Label = tuple[float, float, _Steps]  # progress in seconds, USD paid, how


@dataclass(frozen=True)
class _Bound:
    """The least of (cost − λ × progress) from each state on: `[tick][checkpoint]`, `[tick][option]`."""

    rate: float
    idle: list[list[float]]
    running: list[list[float]]

    def value(self, problem: Problem) -> float:
        """A lower bound of the optimum."""
        return self.idle[0][len(problem.zones)] + self.rate * problem.work


@dataclass(frozen=True)
class _Option:
    """Spot or on-demand in a zone: USD a tick, None in ticks where it cannot be had."""

    zone: int
    price: list[float | None]


@dataclass(frozen=True)
class Plan:
    """What someone who knew the market would do. `steps`: tick → (mode, zone, whether it launches then)."""

    cost: float
    steps: dict[int, tuple[Mode, int, bool]]

    def act(self, state: Simulation) -> None:
        """Follow the plan for one tick of a replay."""
        mode, zone, launched = self.steps.get(state.tick, (Mode.IDLE, 0, False))
        if mode is Mode.IDLE or launched:
            state.stop()
        if launched and mode is Mode.SPOT:
            state.try_spot(zone)
        elif launched:
            state.start_on_demand(zone)


def optimum(problem: Problem) -> Plan | None:
    """The cheapest plan; None where the work cannot be done before the deadline at all."""
    if problem.work + problem.restart > problem.ticks * problem.gap + TOLERANCE:
        return None  # on-demand is always granted, so it would be as fast as anything
    options = _options(problem)
    bounds = _bounds(problem, options)
    least = max(bound.value(problem) for bound in bounds)
    allowance = _FIRST_ALLOWANCE
    while True:
        found = _search(problem, options, bounds, least * (1 + allowance) + TOLERANCE)
        if found is not None:
            return _plan(problem, found)
        allowance *= _ALLOWANCE_GROWS


def _plan(problem: Problem, label: _Label) -> Plan:
    size = len(problem.zones)
    steps = {}
    step = label[2]
    while step is not None:
        step, tick, option, launched = step
        steps[tick] = (Mode.SPOT if option < size else Mode.ON_DEMAND, option % size, launched)
    return Plan(label[1], steps)


def _options(problem: Problem) -> list[_Option]:
    spot = [
        _Option(
            i,
            [problem.bill(p) if has else None for p, has in zip(zone.spot_price, zone.capacity, strict=True)],
        )
        for i, zone in enumerate(problem.zones)
    ]
    on_demand = [
        _Option(i, [problem.bill(zone.on_demand_price)] * problem.ticks)
        for i, zone in enumerate(problem.zones)
    ]
    return [*spot, *on_demand]


def _launch_egress(problem: Problem) -> list[list[float]]:
    """USD by checkpoint and zone; the last row is for a job that has none yet."""
    size = len(problem.zones)
    rows = [[0.0 if i == j else problem.egress[i][j] for j in range(size)] for i in range(size)]
    return [*rows, [0.0] * size]


def _bounds(problem: Problem, options: list[_Option]) -> list[_Bound]:
    """The bound at the best λ and at two beside it: the value in λ is concave."""
    low, high = 0.0, 4 * max(zone.on_demand_price for zone in problem.zones) / 3600
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    bounds = {rate: _bound(problem, options, rate) for rate in (left, right)}
    for _ in range(_SEARCH_STEPS):
        if bounds[left].value(problem) < bounds[right].value(problem):
            low, left = left, right
            right = low + _GOLDEN * (high - low)
            bounds[right] = _bound(problem, options, right)
        else:
            high, right = right, left
            left = high - _GOLDEN * (high - low)
            bounds[left] = _bound(problem, options, left)
    ranked = sorted(bounds.values(), key=lambda bound: -bound.value(problem))
    return ranked[:3]


def _bound(problem: Problem, options: list[_Option], rate: float) -> _Bound:
    size = len(problem.zones)
    egress = _launch_egress(problem)
    worth, delay = rate * problem.gap, rate * problem.restart
    idle = [[0.0] * (size + 1)]
    running = [[0.0] * len(options)]
    for tick in range(problem.ticks - 1, -1, -1):
        later_idle, later_running = idle[-1], running[-1]
        step = [
            math.inf if (price := option.price[tick]) is None else price - worth + later
            for option, later in zip(options, later_running, strict=True)
        ]
        best = [min(step[z], step[z + size]) + delay for z in range(size)]
        now_idle = [
            min(later, min(map(float.__add__, row, best)))
            for row, later in zip(egress, later_idle, strict=True)
        ]
        running.append([min(step[o], now_idle[option.zone]) for o, option in enumerate(options)])
        idle.append(now_idle)
    return _Bound(rate, idle[::-1], running[::-1])


def _furthest(label: _Label) -> tuple[float, float]:
    return -label[0], label[1]


def _cost(label: _Label) -> float:
    return label[1]


class _Frontier:
    """Labels of one state of which none is both further and cheaper than another."""

    def __init__(self) -> None:
        self.labels: list[_Label] = []

    def tidy(self, bounds: list[tuple[float, float]], work: float, most: float, reach: float) -> list[_Label]:
        """What is left of the labels: furthest first, each cheaper than all before it, none hopeless.

        `bounds` are (λ, least of cost − λ × progress from here); `reach` the progress still possible.
        """
        kept: list[_Label] = []
        cheapest = math.inf
        for label in sorted(self.labels, key=_furthest):
            progress, cost, _ = label
            if cost >= cheapest or progress + reach < work - TOLERANCE:
                continue
            if all(cost + rest + rate * (work - progress) <= most for rate, rest in bounds):
                kept.append(label)
                cheapest = cost
        self.labels = kept
        return kept


def _search(problem: Problem, options: list[_Option], bounds: list[_Bound], most: float) -> _Label | None:
    """The cheapest plan of at most `most` USD, tick by tick."""
    size = len(problem.zones)
    egress = _launch_egress(problem)
    idle = [_Frontier() for _ in range(size + 1)]
    running = [_Frontier() for _ in options]
    idle[size].labels.append((0.0, 0.0, None))
    best: _Label | None = None
    for tick in range(problem.ticks):
        reach = (problem.ticks - tick) * problem.gap
        for o, option in enumerate(options):  # stopping is free, losing leaves the same
            idle[option.zone].labels += running[o].labels
        for c, frontier in enumerate(idle):
            rests = [(bound.rate, bound.idle[tick][c]) for bound in bounds]
            frontier.tidy(rests, problem.work, most, reach - problem.restart)
        following = []
        for o, option in enumerate(options):
            price = option.price[tick]
            ahead = _Frontier()
            following.append(ahead)
            if price is None:
                continue
            rests = [(bound.rate, bound.running[tick + 1][o]) for bound in bounds]
            rate, rest = rests[0]
            most_now = most - rest - rate * problem.work - price  # dropped at once, before a label is made
            stays = [
                (progress + problem.gap, cost + price, (steps, tick, o, False))
                for progress, cost, steps in running[o].labels
                if cost - rate * (progress + problem.gap) <= most_now
            ]
            gain = problem.gap - problem.restart
            starts = [
                (progress + gain, cost + egress[c][option.zone] + price, (steps, tick, o, True))
                for c, frontier in enumerate(idle)
                for progress, cost, steps in frontier.labels
                if cost + egress[c][option.zone] - rate * (progress + gain) <= most_now
            ]
            ahead.labels = [*stays, *starts]
            kept = ahead.tidy(rests, problem.work, most, reach - problem.gap)
            done = [label for label in kept if label[0] >= problem.work - TOLERANCE and label[1] <= most]
            if done:
                best = min(done, key=_cost)
                most = best[1]
            ahead.labels = [label for label in kept if label[0] < problem.work - TOLERANCE]
        running = following
    return best
