"""A recorded spot market and the job that is to run in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCE = 1e-6
_POSITIVE = ("gap_seconds", "work_seconds", "deadline_seconds")
_NOT_NEGATIVE = ("restart_seconds", "probe_seconds")


class ProblemError(ValueError):
    """A document that is no problem; the message says which field and what is allowed."""


@dataclass(frozen=True)
class Zone:
    """Prices in USD an hour. `spot_price` and `capacity` have one entry a tick, up to the deadline."""

    name: str
    region: str
    provider: str
    on_demand_price: float
    spot_price: tuple[float, ...]
    capacity: tuple[bool, ...]


@dataclass(frozen=True)
class Problem:
    """One job and one market. Times in seconds; `egress[from][to]` in USD for moving the checkpoint."""

    name: str
    gap: float
    work: float
    deadline: float
    restart: float
    probe: float
    capacity_is_visible: bool
    zones: tuple[Zone, ...]
    egress: tuple[tuple[float, ...], ...]

    @property
    def ticks(self) -> int:
        """How many whole ticks there are before the deadline."""
        return math.floor(self.deadline / self.gap + TOLERANCE)

    def bill(self, price: float) -> float:
        """USD for one tick at an hourly price."""
        return price * self.gap / 3600


def is_problem(document: object) -> bool:
    """Whether a JSON document means to be a problem at all."""
    return isinstance(document, dict) and "zones" in document


def parse(document: Mapping[str, Any]) -> Problem:
    """Read a problem. Raises ProblemError."""
    numbers = {name: _number(document, name) for name in (*_POSITIVE, *_NOT_NEGATIVE)}
    for name in _POSITIVE:
        if numbers[name] <= 0:
            raise ProblemError(f"{name} must be above 0")
    ticks = math.floor(numbers["deadline_seconds"] / numbers["gap_seconds"] + TOLERANCE)
    zones = tuple(_zone(zone, ticks) for zone in document["zones"])
    if not zones:
        raise ProblemError("zones must not be empty")
    egress = tuple(tuple(float(cost) for cost in row) for row in document["egress"])
    if len(egress) != len(zones) or any(len(row) != len(zones) for row in egress):
        raise ProblemError(f"egress must be {len(zones)} rows of {len(zones)} dollars")
    return Problem(
        name=str(document["name"]),
        gap=numbers["gap_seconds"],
        work=numbers["work_seconds"],
        deadline=numbers["deadline_seconds"],
        restart=numbers["restart_seconds"],
        probe=numbers["probe_seconds"],
        capacity_is_visible=bool(document.get("capacity_is_visible", False)),
        zones=zones,
        egress=egress,
    )


def _number(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    if not isinstance(value, int | float) or value < 0:
        raise ProblemError(f"{name} must be a number of seconds, not {value!r}")
    return float(value)


def _zone(document: Mapping[str, Any], ticks: int) -> Zone:
    name = str(document.get("name"))
    price = document["spot_price"]
    prices = [price] * ticks if isinstance(price, int | float) else price
    return Zone(
        name=name,
        region=str(document["region"]),
        provider=str(document["provider"]),
        on_demand_price=float(document["on_demand_price"]),
        spot_price=tuple(float(p) for p in _enough(prices, ticks, f"zone {name}: spot_price")),
        capacity=tuple(bool(c) for c in _enough(document["capacity"], ticks, f"zone {name}: capacity")),
    )


def _enough(series: Sequence[float], ticks: int, what: str) -> Sequence[float]:
    if len(series) < ticks:
        raise ProblemError(f"{what} has {len(series)} entries, {ticks} ticks are needed")
    return series[:ticks]
