"""The policies that can be measured, by name."""

from __future__ import annotations

from collections.abc import Callable

from policies import deadline
from policies.backtest import many_zones, one_zone
from policies.backtest.guard import guarded
from policies.backtest.optimum import optimum
from policies.backtest.problem import Problem
from policies.backtest.replay import policy
from policies.backtest.simulation import Act, Run, simulate
from policies.backtest.skynomad import skynomad

OPTIMUM = "optimum"
DEADLINE = "deadline"
ALIASES = {"default": DEADLINE}
YARDSTICKS: dict[str, Callable[[], Act]] = {
    "on-demand": lambda: one_zone.on_demand,
    "greedy": one_zone.greedy,
    "time-sliced": one_zone.time_sliced,
    "uniform-progress": one_zone.uniform_progress,
    "up-eager": many_zones.up_eager,
    "up-available": many_zones.up_available,
    "up-availability-price": many_zones.up_availability_price,
    "gepa": lambda: one_zone.slack_reserve(0.2, 0),
    "levi": lambda: one_zone.slack_reserve(0.1, 2),
    "skynomad": skynomad,
}
NAMES = (*YARDSTICKS, OPTIMUM, DEADLINE)


def run(problem: Problem, name: str, *, probes: bool = True) -> Run:
    """Replay one problem under one policy; `optimum` follows the plan of someone who knew the market."""
    if name == OPTIMUM:
        plan = optimum(problem)
        return simulate(problem, plan.act if plan else guarded(one_zone.on_demand))
    if name == DEADLINE:
        return simulate(problem, policy(deadline.decide, problem, probes=probes))
    return simulate(problem, guarded(YARDSTICKS[name]()))
