"""Jobs without a deadline: the policies `cheapest`, `core`, `exploration` and `preprocessing`.

They differ in a rule and in an order; docs/policies.md says which. What fits lies on a shelf, cheapest first,
and an offer never costs less than its price, so that the search ends as soon as prices pass the best costs.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from policies.appraisal import Appraiser, Choice
from policies.model import (
    MAX_RANKED,
    Candidate,
    Decision,
    Job,
    Launch,
    Market,
    Move,
    Placement,
    Reason,
    SpotUse,
    Stay,
    Stop,
    Wait,
    key_order,
)
from policies.observed import IndexedMarket, indexed
from policies.rule import Policy, Rule
from policies.shelves import UNPRICED, Entry
from providers.vocabulary import CapacityType, Offer

NEAR_THE_END_RESTARTS = 5.0
MOVE_MARGIN = 0.3
MOST_VAIN_MOVES = 2

Rank = tuple[float, float, tuple[str, ...]]

# What comes first whatever it costs, by policy: capacity types in turn. Others go by cost alone.
_TURNS: Mapping[Policy, tuple[frozenset[CapacityType], ...]] = {
    Policy.CORE: (
        frozenset({CapacityType.RESERVED}),
        frozenset({CapacityType.ON_DEMAND}),
        frozenset({CapacityType.SPOT}),
    ),
}
_ANY = (frozenset(CapacityType),)


@dataclass
class _Search:
    """The best that can be tried now, and what stood in the way of the rest."""

    best: list[tuple[Rank, Choice]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    until: list[datetime] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.best) >= MAX_RANKED

    def add(self, rank: Rank, choice: Choice) -> None:
        insort(self.best, (rank, choice))  # no two ranks are equal
        del self.best[MAX_RANKED:]


def decide(rule: Rule, job: Job, market: Market, now: datetime) -> Decision:
    """Where to start a job that waits, or whether to leave a running one alone."""
    look = Appraiser(rule, job, indexed(market), now)
    if job.placement is not None:
        return _review(look, job.placement)
    found = _search(look)
    if found.best:
        offers = tuple(choice.offer for _, choice in found.best)
        return Launch(offers, _why(rule, found.best[0][1]))
    if _is_broke(look):
        return Stop("max_cost leaves nothing for a start on any offer")
    counts = found.counts + Counter(look.market.fitting(job.needs).unfit)
    why = "no offer can be tried now" if counts else "no offers are known yet"
    return Wait(min(found.until, default=None), why, dict(counts))


def explain(rule: Rule, job: Job, market: Market, now: datetime) -> list[Candidate]:
    """Every offer that fits: those that can be tried in rank order, then the others, nearest to usable first.
    What does not fit is told by the shelf.
    """
    look = Appraiser(rule, job, indexed(market), now)
    from_ = _on_demand_from(look)
    open_: list[Candidate] = []
    shut: list[Candidate] = []
    for offer in look.market.fitting(job.needs):
        judged = _judged(look, offer, from_)
        (open_ if judged.reason is None else shut).append(judged)
    turn = {kind: number for number, turn in enumerate(_turns(rule)) for kind in turn}
    open_.sort(key=lambda c: (turn[c.offer.key.capacity_type], _rank(look, c.offer, c.cost or 0.0)))
    order = list(Reason)
    shut.sort(key=lambda c: (-order.index(c.reason or order[0]), _price(c.offer), key_order(c.offer.key)))
    ranked = [
        Candidate(c.offer, rank, None, c.detail, cost=c.cost, chance=c.chance)
        for rank, c in enumerate(open_, start=1)
    ]
    return [*ranked, *shut]


def _judged(look: Appraiser, offer: Offer, on_demand_from: datetime | None) -> Candidate:
    refusal = look.refusal(offer)
    if refusal is not None:
        return Candidate(offer, reason=refusal[0], detail=refusal[1])
    choice = look.choice(offer)
    blocked = _too_early(look, offer, on_demand_from) or look.blocked(offer)
    found = blocked or Candidate(offer)
    return Candidate(
        offer, None, found.reason, found.detail, found.since, found.until, choice.cost, choice.chance
    )


def _search(look: Appraiser) -> _Search:
    """The best offers that can be tried now, at most MAX_RANKED, best first."""
    found = _Search()
    from_ = _on_demand_from(look)
    shelf = look.market.fitting(look.job.needs)
    for turn in _turns(look.rule):
        taken = found.best
        found.best = []
        for kind in CapacityType:
            if kind in turn:
                _search_kind(look, found, kind, shelf.entries[kind], from_)
        found.best = (taken + found.best)[:MAX_RANKED]
        if found.full:
            break
    return found


def _search_kind(
    look: Appraiser, found: _Search, kind: CapacityType, entries: list[Entry], from_: datetime | None
) -> None:
    closed = look.closed.get(kind)
    if closed is not None:
        if entries:
            found.counts[str(closed[0])] += len(entries)
        return
    nodes, by_size = look.job.needs.nodes, look.rule.policy is Policy.PREPROCESSING
    for price, order, offer in entries:
        if found.full and not by_size and price * nodes > found.best[-1][0][1]:
            return  # nothing that follows can cost less than what is found already
        refusal = look.refusal(offer)
        if refusal is not None:
            found.counts[str(refusal[0])] += 1
            continue
        choice = look.choice(offer)
        rank = (_size(offer) if by_size else 0.0, choice.cost, order)
        if found.full and rank >= found.best[-1][0]:
            continue
        early = _too_early(look, offer, from_) if from_ else None
        shut = early or look.block(offer)
        if shut is not None:
            found.counts[str(Reason.BLOCKED if early is None else early.reason)] += 1
            if shut.until is not None:
                found.until.append(shut.until)
            continue
        found.add(rank, choice)


def _rank(look: Appraiser, offer: Offer, cost: float) -> Rank:
    """Best first. `preprocessing` takes the smallest that fits, so that large cards are left to others."""
    size = _size(offer) if look.rule.policy is Policy.PREPROCESSING else 0.0
    return (size, cost, key_order(offer.key))


def _size(offer: Offer) -> float:
    """GB of GPU memory."""
    accelerator = offer.type.accelerator
    return 0.0 if accelerator is None else accelerator.count * accelerator.memory_gb


def _turns(rule: Rule) -> tuple[frozenset[CapacityType], ...]:
    return _TURNS.get(rule.policy, _ANY)


def _on_demand_from(look: Appraiser) -> datetime | None:
    """When a job that waits for spot may pay on-demand. A rule's wait, unlike the job's own, is skipped where
    no spot is sold; either is where spot costs no less.
    """
    job = look.job
    wait = job.spot_wait or look.rule.spot_wait
    if not wait or job.spot is not SpotUse.AUTO or CapacityType.SPOT in look.closed:
        return None
    spot, on_demand = (_lowest(look, kind) for kind in (CapacityType.SPOT, CapacityType.ON_DEMAND))
    if spot is not None and on_demand is not None and on_demand <= spot:
        return None
    if not job.spot_wait and not any(look.refusal(offer) is None for offer in _spot_of(look.market, job)):
        return None
    return job.waiting_since + wait


def _lowest(look: Appraiser, kind: CapacityType) -> float | None:
    """USD per instance-hour of the cheapest offer of a kind that the job may take; None without one."""
    entries = look.market.fitting(look.job.needs).entries[kind]
    return next((offer.price for _, _, offer in entries if look.refusal(offer) is None), None)


def _spot_of(market: IndexedMarket, job: Job) -> Iterator[Offer]:
    return (offer for _, _, offer in market.fitting(job.needs).entries[CapacityType.SPOT])


def _too_early(look: Appraiser, offer: Offer, from_: datetime | None) -> Candidate | None:
    if from_ is None or look.now >= from_ or offer.key.capacity_type is not CapacityType.ON_DEMAND:
        return None
    detail = "on-demand only once the job's spot wait is over"
    return Candidate(offer, None, Reason.WAITING_FOR_SPOT, detail, look.job.waiting_since, from_)


def _why(rule: Rule, choice: Choice) -> str:
    kind = choice.offer.key.capacity_type
    if kind is CapacityType.RESERVED:
        return "reserved capacity is free, and paid for anyway"
    if rule.policy is Policy.PREPROCESSING:
        return f"the smallest that fits, {kind} at ${choice.cost:.2f}/h"
    if rule.policy is Policy.CHEAPEST:
        return f"the cheapest, {kind} at ${choice.price:.2f}/h"
    return f"{kind} at ${choice.cost:.2f} an hour of progress"


def _is_broke(look: Appraiser) -> bool:
    """Whether nothing that is for sale could be started on what the cap leaves, now or later."""
    if look.job.money_left is None:
        return False
    priced = [
        offer
        for offer in look.market.fitting(look.job.needs)
        if offer.key.capacity_type is CapacityType.RESERVED or offer.price is not None
    ]
    usable = [offer for offer in priced if offer.key.capacity_type not in look.closed]
    return bool(usable) and not any(
        offer.key.capacity_type is CapacityType.RESERVED or look.pays(offer) for offer in usable
    )


def _review(look: Appraiser, placement: Placement) -> Decision:
    """A job that runs: over when its money is, moved when that pays by a margin, else left alone."""
    job, rule = look.job, look.rule
    offer = look.market.get(placement.key)
    if offer is None:
        return Stay("what it runs on is no longer listed")
    current = look.choice(offer)
    if job.money_left is not None and current.price * job.step.total_seconds() / 3600 > job.money_left:
        return Stop("max_cost leaves nothing for another step")
    if not rule.moves or not job.resumes or current.price == 0.0:
        return Stay("it runs")
    found = _search(look)
    paying = [
        (saving, choice) for _, choice in found.best if (saving := _saving(look, current, choice)) is not None
    ]
    if not paying:
        return Stay("no other offer repays a move")
    saving, best = max(paying, key=lambda pair: pair[0])
    held = _held_back(rule, job)
    if held is not None:
        return Stay(f"a move would save ${saving:.2f}, but {held}")
    offers = (best.offer, *(choice.offer for _, choice in paying if choice is not best))
    return Move(offers, f"a move to {best.offer.key.capacity_type} saves ${saving:.2f}")


def _held_back(rule: Rule, job: Job) -> str | None:
    if job.ran < rule.min_dwell:
        return f"it has run for less than {rule.min_dwell.total_seconds() / 60:g} min"
    if job.moves >= rule.max_moves:
        return f"it was moved {job.moves} times already"
    if job.vain_moves >= MOST_VAIN_MOVES:
        return f"{job.vain_moves} moves of it came to nothing"
    return None


def _saving(look: Appraiser, current: Choice, option: Choice) -> float | None:
    """USD that a move saves on the work that is left; None where it does not repay itself by a margin.

    Where nobody knows how much is left, as much as has been done: what ran long is expected to run long.
    """
    job, rule = look.job, look.rule
    if option.offer.key == current.offer.key:
        return None
    left = (job.work_left if job.work_left is not None else job.ran).total_seconds()
    if left < NEAR_THE_END_RESTARTS * look.restart or option.cost >= current.cost:
        return None
    hours = min(left, option.lasts) / 3600
    gross = (current.price - option.price) * hours
    cost = option.egress + option.price * look.restart / 3600
    net = gross - cost * (1 + MOVE_MARGIN)
    return net if net > 0 and net >= rule.min_saving * current.price * hours else None


def _price(offer: Offer) -> float:
    return UNPRICED if offer.price is None else offer.price
