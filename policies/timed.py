"""Jobs with a deadline: the rule of their class says what is allowed, the policy `deadline` says when.

The policy `deadline` weighs every offer that it is shown, so it is shown those that can matter. Reserved
capacity is taken first where the rule allows it: it is paid for, and cannot be lost before its end.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from policies import deadline
from policies.appraisal import Appraiser
from policies.fit import affordable
from policies.model import (
    MAX_RANKED,
    Block,
    Candidate,
    Decision,
    Evidence,
    Job,
    Launch,
    Market,
    Move,
    Reason,
    Stay,
    Stop,
    Wait,
)
from policies.observed import IndexedMarket, indexed
from policies.rule import Rule
from policies.shelves import UNPRICED
from providers.vocabulary import CapacityType, Offer, OfferKey


class _Shown:
    """The offers that matter to one job, as an `ObservedMarket`."""

    def __init__(self, market: IndexedMarket, offers: Iterable[Offer]) -> None:
        self._market = market
        self.offers = tuple(offers)
        self.observations: Mapping[str, float] = market.observations
        self.evidence: Mapping[OfferKey, Evidence] = market.evidence
        self.prior = market.prior

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        return self._market.block_of(offer, now, image, nodes)


def decide(rule: Rule, job: Job, market: Market, now: datetime) -> Decision:
    """What to do now about a job with a deadline."""
    look = Appraiser(rule, job, indexed(market), now)
    settled = _settled(look)
    if settled is not None:
        late = job.deadline is not None and job.work_left is not None and now + job.work_left > job.deadline
        return Stay(settled, deadline_at_risk=late)
    reserved = _reserved(look)
    if reserved and job.placement is None:
        return Launch(reserved, "reserved capacity is free, and paid for anyway")
    shown = _Shown(look.market, _that_matter(look))
    if not shown.offers:
        return _nothing(look)
    decision = deadline.decide(job, shown, now)
    if job.placement is not None and isinstance(decision, Launch | Move):
        return _no_further(rule, job, decision)
    if job.placement is not None and isinstance(decision, Wait):
        return Stay(decision.why, deadline_at_risk=decision.deadline_at_risk)
    return decision


def _settled(look: Appraiser) -> str | None:
    """Why a running job stays whatever the market says; None where that has to be weighed. What cannot be
    lost is not left because it is no longer listed, or its price is not known now: it runs on as before.
    """
    placement = look.job.placement
    if placement is None or placement.key.capacity_type is CapacityType.SPOT:
        return None
    if placement.key.capacity_type is CapacityType.RESERVED:
        return "reserved capacity is free until its end"
    here = look.market.get(placement.key)
    if here is None:
        return "what it runs on is no longer listed, but runs on"
    refusal = affordable(look.job, here)
    return None if refusal is None else f"it runs, although a start there would be refused: {refusal[1]}"


def explain(rule: Rule, job: Job, market: Market, now: datetime) -> list[Candidate]:
    """Every offer that fits: as the policy `deadline` sees those that the rule allows, then the others."""
    look = Appraiser(rule, job, indexed(market), now)
    allowed, shut = [], []
    for offer in look.market.fitting(job.needs):
        closed = look.closed.get(offer.key.capacity_type)
        if closed is None:
            allowed.append(offer)
        else:
            shut.append(Candidate(offer, reason=closed[0], detail=closed[1]))
    reserved = _reserved(look)
    ranked = [Candidate(offer, rank) for rank, offer in enumerate(reserved, start=1)]
    told = deadline.explain(job, _Shown(look.market, allowed), now)
    if reserved:
        told = [_after_reserved(candidate) for candidate in told if candidate.offer not in reserved]
    return [*ranked, *(_appraised(look, candidate) for candidate in told), *shut]


def _appraised(look: Appraiser, candidate: Candidate) -> Candidate:
    if candidate.offer.price is None or candidate.reason not in _USABLE:
        return candidate
    choice = look.choice(candidate.offer)
    return replace(candidate, cost=choice.cost, chance=choice.chance)


_USABLE = (None, Reason.BLOCKED, Reason.NOT_WORTH_IT)


def _nothing(look: Appraiser) -> Decision:
    """No offer is left to weigh: the money is used up, or there is none that the job may use."""
    job, shelf = look.job, look.market.fitting(look.job.needs)
    if job.placement is not None:
        return Stay("what it runs on is no longer listed")
    counts = shelf.unfit + Counter(_refusals(look))
    if job.money_left is not None and set(counts) - set(shelf.unfit) == {str(Reason.MAX_COST)}:
        return Stop("max_cost leaves nothing for a start on any offer", deadline_at_risk=True)
    return Wait(None, "no offer can be used", dict(counts), deadline_at_risk=True)


def _refusals(look: Appraiser) -> Iterator[str]:
    for offer in look.market.fitting(look.job.needs):
        refusal = look.refusal(offer)
        if refusal is not None:
            yield str(refusal[0])


def _after_reserved(candidate: Candidate) -> Candidate:
    if candidate.reason is not None:
        return candidate
    return Candidate(candidate.offer, None, Reason.NOT_WORTH_IT, "reserved capacity is free")


def _no_further(rule: Rule, job: Job, decision: Launch | Move) -> Decision:
    """What a running job does of what the policy would: not what its rule, or its own nature, forbids."""
    if not job.resumes:
        why = f"{decision.why}; but no checkpoint would carry its work over"
        return Stay(why, deadline_at_risk=decision.deadline_at_risk)
    if isinstance(decision, Launch):
        return decision  # the deadline asks for it, or the money
    held = (
        "the rule allows no moves"
        if not rule.moves
        else f"it has run for less than {rule.min_dwell.total_seconds() / 60:g} min"
        if job.ran < rule.min_dwell
        else f"it was moved {job.moves} times already"
        if job.moves >= rule.max_moves
        else None
    )
    if held is None:
        return decision
    return Stay(f"a move would pay ({decision.why}), but {held}", decision.deadline_at_risk)


def _reserved(look: Appraiser) -> tuple[Offer, ...]:
    entries = look.market.fitting(look.job.needs).entries[CapacityType.RESERVED]
    found = [offer for _, _, offer in entries if look.refusal(offer) is None and look.blocked(offer) is None]
    return tuple(found[:MAX_RANKED])


def _that_matter(look: Appraiser) -> Iterator[Offer]:
    """Where it runs; the best of what can be tried, by what an hour of progress costs; and the best of what
    cannot, which is what waiting could bring. Nothing else could come before them. With a cap also on-demand
    at the places of that spot, where a job on spot would be finished.
    """
    here = look.market.get(look.job.placement.key) if look.job.placement else None
    shown = {} if here is None else {here.key: here}
    for kind in (CapacityType.SPOT, CapacityType.ON_DEMAND):
        if kind not in look.closed:
            shown.update((offer.key, offer) for offer in _best_of(look, kind))
    if look.job.money_left is not None and CapacityType.ON_DEMAND not in look.closed:
        places = {(key.region, key.zone) for key in shown}
        for _, _, offer in look.market.fitting(look.job.needs).entries[CapacityType.ON_DEMAND]:
            if (offer.key.region, offer.key.zone) in places and look.refusal(offer) is None:
                places.discard((offer.key.region, offer.key.zone))
                shown[offer.key] = offer
    yield from shown.values()


def _best_of(look: Appraiser, kind: CapacityType) -> Iterator[Offer]:
    nodes = look.job.needs.nodes
    open_: list[tuple[float, int, Offer]] = []
    shut: list[tuple[float, int, Offer]] = []
    for number, (price, _, offer) in enumerate(look.market.fitting(look.job.needs).entries[kind]):
        if price == UNPRICED or (len(open_) >= MAX_RANKED and price * nodes > open_[-1][0]):
            break  # nothing that follows can cost less
        if look.refusal(offer) is not None:
            continue
        ranked = (look.choice(offer).cost, number, offer)
        if look.block(offer) is None:
            insort(open_, ranked)
            del open_[MAX_RANKED:]
        elif len(shut) < MOST_BLOCKED or ranked < shut[-1]:
            insort(shut, ranked)
            del shut[MOST_BLOCKED:]
    return (offer for _, _, offer in (*open_, *shut))


MOST_BLOCKED = 10
"""So many offers that cannot be tried now are weighed against what can."""
