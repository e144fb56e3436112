"""What an offer is worth to a job without a deadline: USD an hour of progress, and why it may not be used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from policies.estimates import Estimate, estimate
from policies.fit import affordable, permitted
from policies.model import Block, Candidate, Job, Place, Reason
from policies.observed import IndexedMarket
from policies.rule import Policy, Rule, refused_capacity
from providers.vocabulary import CapacityType, Offer

HORIZON = 24 * 3600.0
"""Seconds over which an offer is appraised where nobody knows how much work is left."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An offer that the job may use. `price` in USD an hour for all nodes as billed from now on (reserved
    capacity is paid for anyway), `cost` USD an hour of progress, `lasts` seconds that it is expected to stay.
    """

    offer: Offer
    price: float
    egress: float
    cost: float
    lasts: float
    chance: float


class Appraiser:
    """One job's look at one market. Remembers what is the same for many offers."""

    def __init__(self, rule: Rule, job: Job, market: IndexedMarket, now: datetime) -> None:
        self.rule, self.job, self.market, self.now = rule, job, market, now
        self.closed = refused_capacity(rule, job)
        self.restart = job.restart.total_seconds()
        self.work = max(job.work_left.total_seconds(), 1.0) if job.work_left is not None else HORIZON
        self._nodes = job.needs.nodes
        self._egress: dict[Place, float] = {}
        self._by_kind: dict[CapacityType, tuple[Reason, str] | None] = {}
        self._untried = self._spell(market.prior)
        self._picky = bool(job.allow or job.deny)

    def refusal(self, offer: Offer) -> tuple[Reason, str] | None:
        """Why the job may not use an offer that fits it, whatever the hour."""
        key = offer.key
        found = self.closed.get(key.capacity_type) or self._not_permitted(offer)
        if found is not None:
            return found
        if key.capacity_type is CapacityType.RESERVED:
            return None
        found = affordable(self.job, offer)
        if found is None and not self.pays(offer):
            left = self.job.money_left or 0.0
            return Reason.MAX_COST, f"max_cost leaves ${max(0.0, left):.2f}, too little to get going"
        return found

    def _not_permitted(self, offer: Offer) -> tuple[Reason, str] | None:
        """By the job's own word. Where it names no places, the same for all of a capacity type."""
        if self._picky:
            return permitted(self.job, offer)
        kind = offer.key.capacity_type
        if kind not in self._by_kind:
            self._by_kind[kind] = permitted(self.job, offer)
        return self._by_kind[kind]

    def pays(self, offer: Offer) -> bool:
        """Whether the cap allows a start and a step of it: less would be money for nothing."""
        left = self.job.money_left
        if left is None:
            return True
        price = self._price(offer)
        hours = (self.restart + self.job.step.total_seconds()) / 3600
        return price * hours + self.egress_to(offer) <= left

    def choice(self, offer: Offer) -> Choice:
        """An offer appraised."""
        price, egress = self._price(offer), self.egress_to(offer)
        if offer.key.capacity_type is not CapacityType.SPOT:
            cost = price + egress * 3600 / max(self.work, self.restart)
            return Choice(offer, price, egress, self._ranked(offer, cost), self.work, 1.0)
        evidence = self.market.evidence.get(offer.key)
        paid, progress, lasts, chance = (
            self._untried
            if evidence is None
            else self._spell(estimate(evidence, self.market.prior, self.now))
        )
        cost = (price * paid + egress * 3600) / progress
        return Choice(offer, price, egress, self._ranked(offer, cost), lasts, chance)

    def block(self, offer: Offer) -> Block | None:
        """What keeps it from being tried now."""
        return self.market.block_of(offer, self.now, self.job.image, self._nodes)

    def blocked(self, offer: Offer) -> Candidate | None:
        """Why it cannot be tried now."""
        block = self.block(offer)
        if block is None:
            return None
        detail = ": ".join(text for text in (block.kind, block.code, block.message) if text)
        return Candidate(offer, None, Reason.BLOCKED, detail, block.since, block.until)

    def _ranked(self, offer: Offer, cost: float) -> float:
        """The policy `cheapest` goes by the price alone."""
        return self._price(offer) if self.rule.policy is Policy.CHEAPEST else cost

    def _price(self, offer: Offer) -> float:
        if offer.key.capacity_type is CapacityType.RESERVED:
            return 0.0
        return (offer.price or 0.0) * self._nodes

    def egress_to(self, offer: Offer) -> float:
        """USD for reading the checkpoint there."""
        key = offer.key
        place = (key.provider, key.region, key.zone)
        found = self._egress.get(place)
        if found is None:
            found = self._egress[place] = self.job.egress.get(place, 0.0)
        return found

    def _spell(self, expected: Estimate) -> tuple[float, float, float, float]:
        """Seconds paid, seconds of progress in them, seconds it lasts, and the chance to have it."""
        paid = expected.life.within(self.work + self.restart)
        progress = max(paid - expected.life.within(self.restart), 1e-9)
        return paid, progress, expected.life.within(self.work), expected.chance
