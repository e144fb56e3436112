"""How long jobs wait for capacity: per provider, GPU, region and capacity type, from what was observed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlmodel import Session, col

from policies.model import Candidate, Reason
from providers.errors import ErrorKind
from providers.vocabulary import CapacityType
from service.market.model import Observation, Outcome

LATEST = 50_000
"""So many of the latest observations count."""


class Market(NamedTuple):
    """What is told apart. `gpu` None: without one."""

    provider: str
    region: str
    gpu: str | None
    capacity_type: CapacityType


@dataclass(slots=True)
class Waited:
    """Seconds that jobs had waited when a launch was granted, how many launches were refused, and seconds
    for which instances were had until they were taken back.
    """

    granted: list[float] = field(default_factory=list)
    refused: int = 0
    lost: list[float] = field(default_factory=list)


def read_waits(session: Session) -> dict[Market, Waited]:
    """What is remembered, by market."""
    columns = (
        col(Observation.provider),
        col(Observation.region),
        col(Observation.gpu),
        col(Observation.capacity_type),
        col(Observation.outcome),
        col(Observation.seconds),
    )
    latest = select(*columns).order_by(col(Observation.at).desc()).limit(LATEST)
    return grouped(session.connection().execute(latest))


def grouped(rows: Iterable[Any]) -> dict[Market, Waited]:
    """Rows of (provider, region, gpu, capacity type, outcome, seconds) by market."""
    found: dict[Market, Waited] = defaultdict(Waited)
    for provider, region, gpu, capacity_type, outcome, seconds in rows:
        waited = found[Market(provider, region, gpu, capacity_type)]
        if outcome is Outcome.GRANTED:
            waited.granted.append(seconds)
        elif outcome is Outcome.REFUSED:
            waited.refused += 1
        elif outcome is Outcome.LOST:
            waited.lost.append(seconds)
    return dict(found)


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least so large a share does not exceed; None of none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def shown(market: Market, waited: Waited) -> dict[str, Any]:
    """A market's waits as the API tells them."""
    return {
        "provider": market.provider,
        "region": market.region,
        "gpu": market.gpu,
        "capacity_type": market.capacity_type,
        "p50_seconds": quantile(waited.granted, 0.5),
        "p90_seconds": quantile(waited.granted, 0.9),
        "n": len(waited.granted),
        "refused": waited.refused,
        "lost": len(waited.lost),
        "lasted_p50_seconds": quantile(waited.lost, 0.5),
    }


_NEVER = frozenset(
    {
        Reason.NOT_ALLOWED,
        Reason.SPOT_NOT_ALLOWED,
        Reason.SPOT_ONLY,
        Reason.ON_DEMAND_NOT_ALLOWED,
        Reason.RESERVED_NOT_ALLOWED,
        Reason.PRICE_TOO_HIGH,
        Reason.MAX_COST,
    }
)


def _short_of_quota(candidate: Candidate) -> bool:
    """Whether waiting for capacity brings nothing there: the limit has to grow first."""
    return candidate.reason is Reason.BLOCKED and candidate.detail.startswith(f"{ErrorKind.QUOTA}:")


def expected_start(
    candidates: Iterable[Candidate], waits: Mapping[Market, Waited], waiting_since: datetime, now: datetime
) -> dict[str, Any] | None:
    """When a job that waits may expect capacity: of the markets open to it the one that granted soonest in
    the median. None where none of them ever granted anything: then nobody knows.
    """
    best: tuple[float, Market] | None = None
    seen: set[Market] = set()
    for candidate in candidates:
        if candidate.reason in _NEVER or _short_of_quota(candidate):
            continue
        key, accelerator = candidate.offer.key, candidate.offer.type.accelerator
        market = Market(
            key.provider, key.region, accelerator.name if accelerator else None, key.capacity_type
        )
        if market in seen or market not in waits:
            continue
        seen.add(market)
        median = quantile(waits[market].granted, 0.5)
        if median is not None and (best is None or median < best[0]):
            best = (median, market)
    if best is None:
        return None
    told = shown(best[1], waits[best[1]])
    waited = (now - waiting_since).total_seconds()
    return {**told, "waited_seconds": waited, "expected_in_seconds": max(0.0, best[0] - waited)}
