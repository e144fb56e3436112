"""The policy `cheapest`: of what fits, is allowed and is not blocked, the lowest price a node-hour."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from policies.fit import affordable, fits, permitted
from policies.model import (
    MAX_RANKED,
    Candidate,
    Decision,
    Job,
    Launch,
    Market,
    Reason,
    SpotUse,
    Wait,
    key_order,
)
from providers.vocabulary import CapacityType, Offer


def decide(job: Job, market: Market, now: datetime) -> Decision:
    """The cheapest offers first; Wait with the earliest moment of change where none can be tried."""
    candidates = [_judge(job, market, offer, now) for offer in market.offers]
    open_ = sorted((c.offer for c in candidates if c.reason is None), key=_cost)
    if open_:
        return Launch(tuple(open_[:MAX_RANKED]), f"{len(open_)} offers fit; cheapest first")
    ends = [c.until for c in candidates if c.until is not None]
    counts = Counter(str(c.reason) for c in candidates)
    why = "no offer can be tried now" if candidates else "no offers are known yet"
    return Wait(min(ends, default=None), why, dict(counts))


def explain(job: Job, market: Market, now: datetime) -> list[Candidate]:
    """Every offer: those that can be tried in rank order, then the others, nearest to usable first."""
    candidates = [_judge(job, market, offer, now) for offer in market.offers]
    open_ = sorted((c for c in candidates if c.reason is None), key=lambda c: _cost(c.offer))
    order = list(Reason)
    shut = sorted(
        (c for c in candidates if c.reason is not None),
        key=lambda c: (-order.index(c.reason), _cost(c.offer)) if c.reason else (0, _cost(c.offer)),
    )
    ranked = [Candidate(c.offer, rank, None, c.detail) for rank, c in enumerate(open_, start=1)]
    return [*ranked, *shut]


def _judge(job: Job, market: Market, offer: Offer, now: datetime) -> Candidate:
    refusal = (
        fits(job.needs, offer.type) or permitted(job, offer) or _reserved(offer) or affordable(job, offer)
    )
    if refusal:
        return Candidate(offer, reason=refusal[0], detail=refusal[1])
    on_demand_from = job.waiting_since + job.spot_wait
    waits = job.spot is SpotUse.AUTO and offer.key.capacity_type is CapacityType.ON_DEMAND
    if waits and now < on_demand_from:
        detail = "on-demand only once the job's spot wait is over"
        return Candidate(offer, None, Reason.WAITING_FOR_SPOT, detail, job.waiting_since, on_demand_from)
    block = market.block_of(offer, now, job.image, job.needs.nodes)
    if block is None:
        return Candidate(offer)
    detail = ": ".join(text for text in (block.kind, block.code, block.message) if text)
    return Candidate(offer, None, Reason.BLOCKED, detail, block.since, block.until)


def _reserved(offer: Offer) -> tuple[Reason, str] | None:
    """Reserved capacity is taken only by a policy that means to; this one does not."""
    if offer.key.capacity_type is CapacityType.RESERVED:
        return Reason.RESERVED_NOT_ALLOWED, "reserved capacity is not used by the policy `cheapest`"
    return None


def _cost(offer: Offer) -> tuple[float, tuple[str, ...]]:
    return (float("inf") if offer.price is None else offer.price, key_order(offer.key))
