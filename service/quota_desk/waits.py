"""How long requests for more quota take, and how much of them is granted. Pure.

Only what is known counts: an open request is no wait of zero, and neither is one whose times are missing or
run backwards because a clock was set. Each figure says how many requests it rests on.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from service.quota_desk.model import QuotaRequest
from service.states import REQUEST_AT_CLOUD, REQUEST_DECIDED, QuotaRequestState

SIZES: tuple[tuple[str, float], ...] = (("1-8", 8), ("9-64", 64), ("65-512", 512), ("513+", math.inf))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one request tells. Waits in seconds from filing; None is unknown. share: of what was asked for
    beyond the limit, 0 to 1. open_for: seconds since filing, where nothing is decided.
    """

    provider: str
    gpu: str | None
    region: str | None
    size: str | None
    to_decision: float | None
    to_effect: float | None
    share: float | None
    is_open: bool
    open_for: float | None


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds, with the number of requests they rest on; None where that is 0."""

    p50: float | None
    p90: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Waits:
    """The requests of one group. share: the mean over `share_n` decided ones. open: how many are undecided,
    and how long the oldest of them has been.
    """

    decision: Quantiles
    effect: Quantiles
    share: float | None
    share_n: int
    open: int
    longest_open: float | None


Group = tuple[str, str | None, str | None, str | None]
"""Provider, card, region, size; None in a lookup is any."""


def size_of(gpus: int | None) -> str | None:
    """The class of size that requests are compared in."""
    if gpus is None or gpus < 1:
        return None
    return next(name for name, most in SIZES if gpus <= most)


def samples(rows: Iterable[QuotaRequest], now: datetime) -> list[Sample]:
    """What requests tell; those that no cloud ever had tell nothing."""
    return [_sample(row, now) for row in rows if row.state in REQUEST_AT_CLOUD | REQUEST_DECIDED]


def waits(found: Sequence[Sample]) -> Waits:
    """The figures of a group."""
    shares = [one.share for one in found if one.share is not None]
    open_for = [one.open_for for one in found if one.open_for is not None]
    return Waits(
        decision=quantiles([one.to_decision for one in found if one.to_decision is not None]),
        effect=quantiles([one.to_effect for one in found if one.to_effect is not None]),
        share=math.fsum(shares) / len(shares) if shares else None,
        share_n=len(shares),
        open=sum(one.is_open for one in found),
        longest_open=max(open_for, default=None),
    )


def grouped(found: Iterable[Sample]) -> dict[Group, Waits]:
    """The figures per provider, card, region and size."""
    groups: dict[Group, list[Sample]] = defaultdict(list)
    for one in found:
        groups[one.provider, one.gpu, one.region, one.size].append(one)
    return {group: waits(members) for group, members in groups.items()}


def similar(found: Sequence[Sample], group: Group) -> tuple[Group, Waits] | None:
    """The figures of the requests most like one: of its provider, card, region and size, else of wider
    groups. None where no decision is known at all.
    """
    provider, gpu, region, _ = group
    here, anywhere = (provider, gpu, region, None), (provider, gpu, None, None)
    for wider in (group, here, anywhere, (provider, None, None, None)):
        figures = waits([one for one in found if _belongs(one, wider)])
        if figures.decision.n:
            return wider, figures
    return None


def quantiles(seconds: Sequence[float]) -> Quantiles:
    """Median and 90th percentile, linear between neighbours."""
    ordered = sorted(seconds)
    return Quantiles(_quantile(ordered, 0.5), _quantile(ordered, 0.9), len(ordered))


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    if not ordered:
        return None
    position = share * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def _belongs(one: Sample, group: Group) -> bool:
    return all(
        wanted is None or wanted == have
        for wanted, have in zip(group, (one.provider, one.gpu, one.region, one.size), strict=True)
    )


def _sample(row: QuotaRequest, now: datetime) -> Sample:
    decided = row.state in REQUEST_DECIDED
    return Sample(
        provider=row.provider,
        gpu=row.gpu,
        region=row.region,
        size=size_of(row.gpus),
        to_decision=_between(row.filed_at, row.decided_at) if decided else None,
        to_effect=None if row.found_decided else _between(row.filed_at, row.effective_at),
        share=_share(row) if decided else None,
        is_open=not decided,
        open_for=None if decided else _between(row.filed_at, now),
    )


def _between(start: datetime | None, end: datetime | None) -> float | None:
    """Seconds; None where one is unknown, and where they run backwards: a clock was set."""
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()


def _share(row: QuotaRequest) -> float | None:
    if row.state is QuotaRequestState.DENIED:
        return 0.0
    if row.state is QuotaRequestState.APPROVED and row.granted == row.requested:
        return 1.0
    if row.limit_before is None or row.requested is None or row.granted is None:
        return None
    asked = row.requested - row.limit_before
    return None if asked <= 0 else min(1.0, max(0.0, (row.granted - row.limit_before) / asked))
