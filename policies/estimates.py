"""What to expect of a spot offer: learnt from our own tries and instances, honest about what was not tried.

A spell of capacity, and of its absence, is exponential with an unknown rate under a Gamma prior, so its
length is Lomax distributed: what lasted long is expected to last longer, which is what recorded markets show,
and what was never tried has a long tail, so that it is worth a try. History fades, and counts for a few
spells at most, so that the age of the present one is heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from policies.model import Evidence, ObservedMarket

PRIOR_SECONDS = 3600.0
PRIOR_SPELLS = 1.0
HISTORY_SPELLS = 1.0
HALF_LIFE_SECONDS = 24 * 3600.0
UNSEEN_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Spell:
    """The length of a spell from now on: Lomax with `ends` (its shape) and `seconds` (its scale)."""

    ends: float
    seconds: float

    @property
    def typical(self) -> float:
        """Seconds: time seen for each end seen. The mean itself may be infinite."""
        return self.seconds / self.ends

    def within(self, horizon: float) -> float:
        """Expected seconds of the spell up to a horizon in seconds."""
        if horizon <= 0:
            return 0.0
        power = self.ends - 1
        if abs(power) < 1e-9:
            return self.seconds * math.log1p(horizon / self.seconds)
        return self.seconds / power * (1 - math.pow(1 + horizon / self.seconds, -power))


@dataclass(frozen=True, slots=True)
class Estimate:
    """`life` is how long capacity still lasts if it is there, `outage` how long until it comes if it is not,
    `chance` the share of time that it is there.
    """

    life: Spell
    outage: Spell
    chance: float


def observe(evidence: Evidence | None, available: bool, now: datetime) -> Evidence:
    """The evidence with one more look. Between two looks that differ it changed half-way."""
    if evidence is None:
        return Evidence(available, now, now)
    passed = (now - evidence.seen).total_seconds()
    keep = 0.5 ** (passed / HALF_LIFE_SECONDS)
    same = evidence.available == available
    up = passed * (float(available) if same else 0.5)
    return Evidence(
        available,
        evidence.since if same else now,
        now,
        keep * evidence.up_seconds + up,
        keep * evidence.losses + (evidence.available and not available),
        keep * evidence.down_seconds + passed - up,
        keep * evidence.gains + (available and not evidence.available),
    )


def pooled(evidence: Iterable[Evidence]) -> Estimate:
    """What to expect of an offer that was never tried: like those that were, each counted once, and one more
    of which nothing is known. Not much worse than the prior, or a few bad ones would keep the rest from ever
    being tried.
    """
    life = outage = math.log(PRIOR_SECONDS)
    count = 1
    for one in evidence:
        life += math.log((PRIOR_SECONDS + one.up_seconds) / (1 + one.losses))
        outage += math.log((PRIOR_SECONDS + one.down_seconds) / (1 + one.gains))
        count += 1
    lasts, absent = max(math.exp(life / count), PRIOR_SECONDS / 2), math.exp(outage / count)
    return Estimate(Spell(PRIOR_SPELLS, lasts), Spell(PRIOR_SPELLS, absent), lasts / (lasts + absent))


def prior_of(market: ObservedMarket) -> Estimate:
    """`pooled` over all that was seen in a market, which may know it already."""
    known: Estimate | None = getattr(market, "prior", None)
    return known if known is not None else pooled(market.evidence.values())


def estimate(evidence: Evidence | None, prior: Estimate, now: datetime) -> Estimate:
    """Of one offer, with `pooled` as the prior.

    Capacity that was absent when last looked for, and is there now, came at some moment since: the longer
    nobody looked, the longer it has lasted already.
    """
    if evidence is None:
        return prior
    age = (evidence.seen - evidence.since).total_seconds()
    unseen = (now - evidence.seen).total_seconds()
    up_age, down_age = (age, 0.0) if evidence.available else (0.0, age)
    life = _spell(prior.life, evidence.up_seconds - up_age, evidence.losses, up_age or UNSEEN_SHARE * unseen)
    outage = _spell(prior.outage, evidence.down_seconds - down_age, evidence.gains, down_age)
    up, down = evidence.up_seconds + life.typical, evidence.down_seconds + outage.typical
    return Estimate(life, outage, up / (up + down))


def _spell(prior: Spell, past: float, ends: float, age: float) -> Spell:
    weight = min(1.0, HISTORY_SPELLS / ends) if ends else 1.0
    return Spell(prior.ends + weight * ends, prior.seconds + weight * max(0.0, past) + age)
