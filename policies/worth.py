"""What an hour of slack and an hour of work are worth to a job that may yet run on spot.

A *way to go on* is a set of spot offers that are used whenever one of them has capacity, and what is done
in the outages between: wait, or bridge them with on-demand. For each hour of work it uses some slack
(restarts, outages) and saves some dollars against on-demand. The best mix of ways for the slack that a job
has lies on the upper concave hull of those points: its slope is what slack is worth, and its height less the
part that slack earns is what work is worth (what is done on on-demand can no longer be done on spot).

The future is not its mean: the hull is drawn for lives and outages that turn out better, as expected, and
worse, and the worths are the means. Seconds in, USD an hour out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise

LARGEST_SET = 8
DEVIATIONS = (-1.22, 0.0, 1.22)  # three values of equal chance with the mean and the variance of the normal
SPELL_VARIANCE = (
    4.0  # of what one spell brings, in squares of its mean; 2 if lives and outages were exponential
)
KINSHIP = 8.0  # zones fail together: the chance that all lack capacity is that of draws from an urn so large
TINY = 1e-9  # of hours of slack for an hour of work

_Point = tuple[float, float]  # hours of slack and USD saved, both for an hour of work
_Set = Sequence["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """A spot offer as a source of work. `spells` is how many spells the estimate rests on."""

    price: float
    egress: float
    life: float
    outage: float
    chance: float
    spells: float


@dataclass(frozen=True, slots=True)
class Worth:
    """USD an hour: of slack, and of work (what it is expected to save against on-demand)."""

    slack: float
    work: float


@dataclass(frozen=True, slots=True)
class _Outlook:
    """A set of sources used in the order of preference: means over the spells on it."""

    price: float
    egress: float
    life: float
    outage: float
    all_absent: float
    variance: float


def worth(
    sources: Iterable[Source], on_demand: float, *, slack: float, work: float, restart: float, step: float
) -> Worth:
    """At this much slack: what one more launch, or step of waiting, takes from what can still be saved."""
    outlooks = [_outlook(chosen, work) for chosen in _sets(sources, on_demand, restart)]
    left = max(slack, 0.0)
    near = max(0.0, left - max(step, restart))
    earned = kept = 0.0
    for deviation in DEVIATIONS:
        points = [p for o in outlooks for p in _ways(o, on_demand, work, restart, deviation)]
        hull = _hull(points)
        height, slope = _at(hull, left / work)
        kept += height - slope * left / work
        fall = height - _at(hull, near / work)[0]
        earned += fall * work / (left - near) if left - near > 1 else slope
    return Worth(earned / len(DEVIATIONS), kept / len(DEVIATIONS))


def _sets(sources: Iterable[Source], on_demand: float, restart: float) -> list[_Set]:
    """The cheapest one, two, three …, and likewise of those that save most in a spell."""
    useful = [s for s in sources if s.price < on_demand]
    cheapest = nsmallest(
        LARGEST_SET, useful, lambda s: (s.price + 3600 * s.egress / s.life) * (1 + restart / s.life)
    )
    steadiest = nsmallest(LARGEST_SET, useful, lambda s: (s.price - on_demand) * s.life)
    return [order[: n + 1] for order in (cheapest, steadiest) for n in range(len(order))]


def _outlook(chosen: _Set, work: float) -> _Outlook:
    """The first that has capacity is used. Zones are alike, so that absence makes absence likelier (as in an
    urn from which all draw), and its lack in all but the one that was just lost is an outage.
    """
    absent, shares = 1.0, []
    for number, source in enumerate(chosen):
        this = ((1 - source.chance) * KINSHIP + number) / (KINSHIP + number)
        shares.append(absent * (1 - this))
        absent *= this
    total = sum(shares)
    parts = [(share / total, source) for share, source in zip(shares, chosen, strict=True)]
    hazard = sum(part / s.life for part, s in parts)
    spells = sum(part * s.spells for part, s in parts)
    return _Outlook(
        price=sum(part * s.price for part, s in parts),
        egress=sum(part * s.egress for part, s in parts),
        life=1 / hazard,
        outage=1 / sum(1 / s.outage for s in chosen),
        all_absent=min(1.0, sum(part * absent / (1 - s.chance) for part, s in parts)),
        variance=1 / spells + SPELL_VARIANCE / (1 + work * hazard),
    )


def _ways(
    outlook: _Outlook, on_demand: float, work: float, restart: float, deviation: float
) -> tuple[_Point, _Point]:
    """Waiting in outages, and bridging them, where all turns out worse by some standard deviations."""
    worse = math.exp(deviation * math.sqrt(math.log1p(outlook.variance)))
    life, outage = min(outlook.life / worse, work), outlook.outage * worse
    done = life * math.exp(-restart / life)  # of an exponential life, less its first restart
    saved = on_demand * done - outlook.price * life - 3600 * outlook.egress
    often = outlook.all_absent
    bridged = done + often * max(0.0, outage - restart)
    return (
        ((restart + often * outage) / done, saved / done),
        (
            (restart + often * min(restart, outage)) / bridged,
            (saved - often * on_demand * restart) / bridged,
        ),
    )


def _hull(points: Iterable[_Point]) -> list[_Point]:
    """The upper concave hull from the origin (all on on-demand) to the point that saves most."""
    useful = [(0.0, 0.0), *(point for point in points if point[1] > 0)]
    x, y = max(useful, key=lambda point: (point[1], -point[0]))
    hull = [(x, y)]
    while lower := [((y - b) / (x - a), a, b) for a, b in useful if a < x - TINY]:
        _, x, y = min(lower)
        hull.append((x, y))
    return hull[::-1]


def _at(hull: list[_Point], x: float) -> _Point:
    """Height and slope."""
    for (a, b), (c, d) in pairwise(hull):
        if x < c:
            slope = (d - b) / (c - a)
            return b + (x - a) * slope, slope
    return hull[-1][1], 0.0
