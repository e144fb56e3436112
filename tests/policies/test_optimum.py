"""The omniscient optimum is exact, and a bound for every policy."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.backtest.optimum import optimum
from policies.backtest.policies import YARDSTICKS, run
from policies.backtest.problem import Problem, parse
from tests.policies.markets import market, markets, zone


def cheapest_of_all_ways(problem: Problem) -> float:
    """By trying everything, state by state: (mode, zone, restart left) → progress → cost."""
    states = {("idle", -1, 0.0): {0.0: 0.0}}
    best = math.inf
    for tick in range(problem.ticks):
        following: dict[tuple[str, int, float], dict[float, float]] = {}
        for (mode, at, pending), labels in states.items():
            for done, cost in labels.items():
                for to, moved, price, wait in ways(problem, tick, mode, at, pending):
                    used = min(wait, problem.gap) if to[0] != "idle" else problem.gap
                    key = (to[0], to[1], max(0.0, wait - problem.gap))
                    progress = round(done + problem.gap - used, 6)
                    if progress >= problem.work - 1e-6:
                        best = min(best, cost + moved + price)
                        continue
                    lane = following.setdefault(key, {})
                    lane[progress] = min(lane.get(progress, math.inf), cost + moved + price)
        states = following
    return best


def ways(
    problem: Problem, tick: int, mode: str, at: int, pending: float
) -> list[tuple[tuple[str, int], float, float, float]]:
    """All that can be done in a tick: what it is on then, egress, price, restart."""
    found: list[tuple[tuple[str, int], float, float, float]] = [(("idle", at), 0.0, 0.0, 0.0)]
    for number, place in enumerate(problem.zones):
        prices = {"on_demand": problem.bill(place.on_demand_price)}
        if place.capacity[tick]:
            prices["spot"] = problem.bill(place.spot_price[tick])
        for kind, price in prices.items():
            if (kind, number) == (mode, at):
                found.append(((kind, number), 0.0, price, pending))
            moved = problem.egress[at][number] if at >= 0 else 0.0
            found.append(((kind, number), moved, price, problem.restart))
    return found


@settings(max_examples=60, deadline=None)
@given(markets(most_zones=2, most_ticks=12))
def test_it_is_what_trying_everything_finds(document: dict[str, Any]) -> None:
    problem = parse(document)
    plan = optimum(problem)
    assert plan is not None
    assert plan.cost == pytest.approx(cheapest_of_all_ways(problem), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(markets())
def test_its_plan_can_be_followed_and_no_policy_is_cheaper(document: dict[str, Any]) -> None:
    problem = parse(document)
    plan = optimum(problem)
    assert plan is not None
    assert run(problem, "optimum").bill.total == pytest.approx(plan.cost)
    for policy in (*YARDSTICKS, "deadline"):
        assert run(problem, policy).bill.total >= plan.cost - 1e-6


@settings(max_examples=40, deadline=None)
@given(markets(most_zones=4), st.data())
def test_one_more_offer_never_raises_it(document: dict[str, Any], data: st.DataObject) -> None:
    size = len(document["zones"])
    left_out = data.draw(st.integers(0, size - 1))
    rest = [i for i in range(size) if i != left_out]
    if not rest:
        return
    fewer = {
        **document,
        "zones": [document["zones"][i] for i in rest],
        "egress": [[document["egress"][i][j] for j in rest] for i in rest],
    }
    more, less = optimum(parse(document)), optimum(parse(fewer))
    assert more is not None
    assert less is not None
    assert more.cost <= less.cost + 1e-6


def test_work_that_cannot_be_done_in_time_has_none() -> None:
    assert optimum(parse(market(zone("####"), work=4, restart_seconds=60))) is None
