"""The market as one job sees it: the offers it may try, ranked, and why the others are passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from sqlmodel import Session

from policies.deciding import explain
from policies.model import Candidate, Job, Reason
from policies.rule import Rule
from service.market.book import OfferBook
from service.market.snapshot import MarketSnapshot, market_of

SHOWN = 50
"""How many of the offers that are passed over are listed one by one; all are counted."""

HELPS: Mapping[Reason, str] = {
    Reason.NOT_ALLOWED: "another place in `allow`, or one less in `deny`",
    Reason.SPOT_NOT_ALLOWED: "a checkpoint, or spot allowed by the job and its rule",
    Reason.SPOT_ONLY: "spot.use: auto",
    Reason.ON_DEMAND_NOT_ALLOWED: "on_demand among the rule's capacity_types",
    Reason.RESERVED_NOT_ALLOWED: "reserved among the rule's capacity_types",
    Reason.PRICE_TOO_HIGH: "a higher max_price",
    Reason.MAX_COST: "a higher max_cost",
    Reason.WAITING_FOR_SPOT: "a shorter spot.wait",
}
"""What a person could change; a block says itself what would lift it."""


@dataclass(frozen=True, slots=True)
class Found:
    """`candidates` fit, those that can be tried first; `unfit` are the first of those that do not. `counts`
    by reason and `total` are of all offers.
    """

    candidates: Sequence[Candidate]
    unfit: Sequence[Candidate]
    counts: Mapping[str, int]
    total: int


def candidates(
    session: Session, book: OfferBook, rule: Rule, job: Job, now: datetime, limit: int = SHOWN
) -> Found:
    """Every offer as the job's policy sees it; of those that do not fit at most `limit` one by one."""
    with book.lock:
        market = market_of(session, book, now)
        fitting = explain(rule, job, market, now)
        counts = counts_of(market, job, fitting)
        unfit = [
            Candidate(offer, reason=reason, detail=detail)
            for offer, (reason, detail) in islice(market.shelves.unfit(job.needs), limit)
        ]
        total = len(market.shelves)
    return Found(fitting, unfit, counts, total)


def counts_of(market: MarketSnapshot, job: Job, fitting: Sequence[Candidate]) -> dict[str, int]:
    """How many offers are passed over, by reason, those that do not fit included."""
    reasons = Counter(market.fitting(job.needs).unfit)
    reasons.update(str(candidate.reason) for candidate in fitting if candidate.reason is not None)
    return dict((+reasons).most_common())


def ranked(found: Found, nodes: int) -> list[dict[str, Any]]:
    """Those that can be tried now, best first."""
    return [_shown(candidate, nodes) for candidate in found.candidates if candidate.reason is None]


def passed_over(found: Found, nodes: int, limit: int = SHOWN) -> list[dict[str, Any]]:
    """The others, nearest to usable first, at most `limit`."""
    others = [candidate for candidate in (*found.candidates, *found.unfit) if candidate.reason is not None]
    return [_shown(candidate, nodes) for candidate in others[:limit]]


def misfit(found: Found) -> str | None:
    """A warning where nothing that any account sells is large enough; None otherwise."""
    if found.candidates:
        return None
    if not found.total:
        return "no offer is known yet: no account was read"
    kinds = {one.offer.type.accelerator for one in found.unfit if one.reason is Reason.TOO_SMALL}
    largest = max((kind.count for kind in kinds if kind is not None), default=0)
    hint = f"; the largest of that kind has {largest} GPUs: ask for more nodes" if largest else ""
    return f"no account sells an instance like this{hint}; the job would wait until one does"


def _shown(candidate: Candidate, nodes: int) -> dict[str, Any]:
    key, price = candidate.offer.key, candidate.offer.price
    accelerator = candidate.offer.type.accelerator
    return {
        "rank": candidate.rank,
        "provider": key.provider,
        "account": key.account,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "capacity_type": key.capacity_type,
        "reservation": key.reservation,
        "gpu": f"{accelerator.name}:{accelerator.count}" if accelerator else None,
        "price_usd_hour": price,
        "job_usd_hour": None if price is None else round(price * nodes, 6),
        "expected_usd_hour": None if candidate.cost is None else round(candidate.cost, 6),
        "chance": None if candidate.chance is None else round(candidate.chance, 4),
        "price_source": candidate.offer.price_source,
        "reason": candidate.reason,
        "detail": candidate.detail,
        "help": HELPS.get(candidate.reason) if candidate.reason else None,
        "since": candidate.since,
        "until": candidate.until,
    }
