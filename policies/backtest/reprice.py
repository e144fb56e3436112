"""The price of a run, worked out again from its log alone. Shares no code with the simulation.

Reads the problem's and the log's JSON documents, as a stranger would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class FalseLogError(ValueError):
    """The log tells of something that could not have happened in this market."""


def reprice(problem: Mapping[str, Any], log: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Costs by part in USD, `finish_seconds`, `met_deadline`, `launches`, `moves`. Raises FalseLogError."""
    hours = problem["gap_seconds"] / 3600
    sums = dict.fromkeys(("spot_cost", "on_demand_cost", "egress_cost", "probe_cost"), 0.0)
    launches = moves = 0
    done = wait = 0.0
    last: int | None = None
    before: tuple[str, int | None] = ("idle", None)
    for number, entry in enumerate(log):
        if entry["tick"] != number:
            raise FalseLogError(f"entry {number} is of tick {entry['tick']}")
        if done >= problem["work_seconds"] - 1e-6:
            raise FalseLogError(f"tick {number}: the work was done before")
        here = (entry["mode"], entry["zone"])
        _check(problem, entry, before)
        for zone in entry["probes"]:
            if _capacity(problem, zone, number):
                sums["probe_cost"] += _spot(problem, zone, number) * problem["probe_seconds"] / 3600
        if entry["launched"]:
            launches += 1
            wait = problem["restart_seconds"]
            if last is not None and last != entry["zone"]:
                sums["egress_cost"] += problem["egress"][last][entry["zone"]]
                moves += 1
        if entry["mode"] != "idle":
            last = entry["zone"]
            spot = entry["mode"] == "spot"
            price = _spot(problem, last, number) if spot else problem["zones"][last]["on_demand_price"]
            sums["spot_cost" if spot else "on_demand_cost"] += price * hours
            used = min(wait, problem["gap_seconds"])
            wait -= used
            done += problem["gap_seconds"] - used
        before = here
    finish = len(log) * problem["gap_seconds"]
    met = done >= problem["work_seconds"] - 1e-6 and finish <= problem["deadline_seconds"] + 1e-6
    parts = {"cost": sum(sums.values()), **sums}
    return {**parts, "finish_seconds": finish, "met_deadline": met, "launches": launches, "moves": moves}


def _check(problem: Mapping[str, Any], entry: Mapping[str, Any], before: tuple[str, int | None]) -> None:
    tick, mode, zone = entry["tick"], entry["mode"], entry["zone"]
    if (mode == "idle") != (zone is None):
        raise FalseLogError(f"tick {tick}: {mode} in zone {zone}")
    if mode == "spot" and not _capacity(problem, zone, tick):
        raise FalseLogError(f"tick {tick}: spot in zone {zone}, which has no capacity")
    if mode != "idle" and (mode, zone) != before and not entry["launched"]:
        raise FalseLogError(f"tick {tick}: {mode} in zone {zone} without a launch")
    if mode == "idle" and entry["launched"]:
        raise FalseLogError(f"tick {tick}: launched and idle")
    granted = [z for z in entry["tries"] if _capacity(problem, z, tick)]
    if granted and (mode != "spot" or granted != [zone] or entry["tries"][-1] != zone):
        raise FalseLogError(f"tick {tick}: a granted try is where the job is, and the last")
    if mode == "spot" and entry["launched"] and not granted:
        raise FalseLogError(f"tick {tick}: launched on spot without a try")


def _capacity(problem: Mapping[str, Any], zone: int, tick: int) -> bool:
    return bool(problem["zones"][zone]["capacity"][tick])


def _spot(problem: Mapping[str, Any], zone: int, tick: int) -> float:
    price = problem["zones"][zone]["spot_price"]
    return float(price if isinstance(price, int | float) else price[tick])
