"""What is told of runs: one document a problem, and one row a policy and folder of problems."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from policies.backtest.problem import Problem
from policies.backtest.simulation import Run


def on_demand_cost(problem: Problem) -> float:
    """USD for the work on the cheapest on-demand from the start."""
    ticks = -((problem.work + problem.restart - 1e-6) // -problem.gap)
    return problem.bill(min(zone.on_demand_price for zone in problem.zones)) * ticks


def document(run: Run, policy: str, optimum: float | None = None, *, log: bool = False) -> dict[str, Any]:
    """One run for programs: USD, seconds and ratios."""
    bill = run.bill
    told: dict[str, Any] = {
        "name": run.problem.name,
        "policy": policy,
        "cost": bill.total,
        "spot_cost": bill.spot,
        "on_demand_cost": bill.on_demand,
        "egress_cost": bill.egress,
        "probe_cost": bill.probes,
        "finish_seconds": run.finish if run.finish is not None else len(run.log) * run.problem.gap,
        "met_deadline": run.finish is not None,
        "launches": run.launches,
        "moves": run.moves,
        "of_on_demand": bill.total / on_demand_cost(run.problem),
    }
    if optimum is not None:
        told["over_optimum"] = bill.total / optimum - 1
    if log:
        told["log"] = [entry.document() for entry in run.log]
    return told


@dataclass(frozen=True)
class Result:
    """A run as a table needs it."""

    suite: str
    policy: str
    document: dict[str, Any]
    optimum: float | None
    on_demand: float


COLUMNS = ("MARKET", "POLICY", "JOBS", "COST", "OF ON-DEMAND", "OVER OPTIMUM", "LATE", "LAUNCHES", "MOVES")


def rows(results: Iterable[Result]) -> list[tuple[object, ...]]:
    """One row a suite and policy, in the order they come: sums, ratios of sums, means a job."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.suite, result.policy), []).append(result)
    return [_row(suite, policy, group) for (suite, policy), group in groups.items()]


def _row(suite: str, policy: str, group: list[Result]) -> tuple[object, ...]:
    told = [result.document for result in group]
    cost = sum(one["cost"] for one in told)
    optima = [result.optimum for result in group if result.optimum is not None]
    over = f"{100 * (cost / sum(optima) - 1):+.1f} %" if len(optima) == len(group) else "-"
    return (
        suite,
        policy,
        len(group),
        f"${cost:.2f}",
        f"{100 * cost / sum(result.on_demand for result in group):.1f} %",
        over,
        sum(not one["met_deadline"] for one in told),
        f"{sum(one['launches'] for one in told) / len(group):.1f}",
        f"{sum(one['moves'] for one in told) / len(group):.1f}",
    )
