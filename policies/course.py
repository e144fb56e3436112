"""A job under way against its deadline and money cap, and what each offer means for it. Times in seconds,
money in USD, prices an hour and for all nodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from policies.estimates import Estimate, estimate, prior_of
from policies.fit import affordable, fits, permitted
from policies.model import Candidate, Job, ObservedMarket, Reason, key_order
from policies.worth import Source, Worth, worth
from providers.vocabulary import CapacityType, Offer

SURE = 0.01  # no zone is counted on, or out, more surely than this
SPOT_ONLY_FALLBACK = 2.0
ROUNDING = 6e-7  # of durations, which are kept in microseconds


@dataclass(frozen=True, slots=True)
class Option:
    """An offer as it stands to the job.

    `rate` is USD an hour of progress, restart and egress included, over the time that it is expected to last;
    `lasts` that time, within the work left; `outage` the wait for it where it is not `open`.
    """

    offer: Offer
    price: float
    egress: float
    open: bool
    pending: float
    rate: float
    lasts: float
    outage: float
    chance: float
    progress: float
    source: Source | None = None

    @property
    def is_spot(self) -> bool:
        """Whether it can be lost."""
        return self.offer.key.capacity_type is CapacityType.SPOT

    def order(self) -> tuple[float, float, float, tuple[str, ...]]:
        """Best first; a total order."""
        return (self.rate, -self.chance, self.price, key_order(self.offer.key))


@dataclass(frozen=True)
class Course:
    """What is left of the work, the time and the money, and the offers that the job may use.

    `current` is None with `placed` where what it runs on is no longer for sale. `fallback` is USD an hour of
    progress for finishing without luck: the cheapest on-demand.
    """

    work: float
    time: float
    restart: float
    step: float
    money: float | None
    placed: bool
    current: Option | None
    options: tuple[Option, ...]
    refused: tuple[Candidate, ...]
    fallback: float

    @property
    def slack(self) -> float:
        """Seconds that could be lost and on-demand would still finish."""
        return self.time - self.work - self.restart

    @cached_property
    def spot(self) -> tuple[Option, ...]:
        """Spot offers other than the one it runs on."""
        return tuple(o for o in self.options if o.is_spot and not self._is_current(o))

    @cached_property
    def open_on_demand(self) -> tuple[Option, ...]:
        """On-demand that can be asked for, and paid to the end: half a job is worth nothing."""
        open_ = (o for o in self.options if o.open and not o.is_spot)
        return tuple(o for o in open_ if self._pays(self._to_the_end(o, self.work)))

    @property
    def at_risk(self) -> bool:
        """Whether on-demand could no longer finish in time and within the cap."""
        current = self.current
        if current is not None and (not current.is_spot or self.work + current.pending <= self.step):
            left = self.work + current.pending
            return left > self.time or not self._pays(self._billed(left) * current.price)
        return self.slack < 0 or not self.open_on_demand

    @property
    def broke(self) -> bool:
        """Whether nothing for sale can be paid for a step. Prices that are not known prove nothing."""
        return bool(self.options) and not any(self.affords(o) for o in self.options)

    def affords(self, option: Option) -> bool:
        """Whether the cap allows one step of it."""
        return self._pays(option.price * self.step / 3600 + option.egress)

    @property
    def safe_to_wait(self) -> bool:
        """Whether a step with nothing running leaves time to finish on on-demand."""
        return self.slack >= self.step

    def safe(self, pending: float) -> bool:
        """Whether on-demand could finish in time if a launch were lost as soon as its restart is over.

        The whole restart counts, not just the next step of it: what cannot get through it is not begun.
        """
        return self.slack >= pending - ROUNDING or self.work + pending <= self.step

    def may_hold(self, option: Option) -> bool:
        """Whether one step of it leaves time, and money, to finish on on-demand if it is lost right after.

        Where on-demand cannot be had anyway, only whether the cap allows the step.
        """
        if not self.affords(option):
            return False
        if not self.open_on_demand:  # on on-demand that could not be had again, there is something to lose
            return self.current is None or self.current.is_spot
        if not self.safe(option.pending):
            return False
        left = self.work - max(0.0, self.step - option.pending)
        if self.money is None or left <= 0:
            return True
        spent = option.price * self.step / 3600 + option.egress
        return spent + self._finish_from(option, left) <= self.money + 1e-9

    @cached_property
    def worth(self) -> Worth:
        """Of slack and of work."""
        sources = [o.source for o in self.options if o.source is not None]
        return worth(
            sources, self.fallback, slack=self.slack, work=self.work, restart=self.restart, step=self.step
        )

    @property
    def launch_worth(self) -> float:
        """USD that the slack which a launch takes is worth."""
        return self.worth.slack * self.restart / 3600

    def rate(self, option: Option) -> float:
        """USD an hour of progress, the slack that the launch takes included."""
        return option.rate + self.launch_worth * 3600 / option.progress

    def wait_cost(self, outage: float) -> float:
        """USD for an outage without anything running."""
        return self.worth.slack * outage / 3600

    def bridge_cost(self, outage: float) -> float:
        """USD for an outage on on-demand: its launch, and work that cannot be done on spot any more.

        Infinite where slack is left for one launch only, so that on-demand would have to be for good.
        """
        if self.slack < 2 * self.restart:
            return math.inf
        lost = self.worth.work * max(0.0, outage - self.restart) + self.fallback * self.restart
        return lost / 3600 + self.launch_worth

    def _is_current(self, option: Option) -> bool:
        return self.current is not None and option.offer.key == self.current.offer.key

    def _billed(self, seconds: float) -> float:
        """Hours that are billed for seconds."""
        return math.ceil(seconds / self.step - 1e-9) * self.step / 3600

    def _to_the_end(self, option: Option, work: float) -> float:
        return option.egress + option.price * self._billed(work + self.restart)

    def _finish_from(self, option: Option, work: float) -> float:
        """USD to finish on on-demand from where an option has taken the checkpoint. What moving it on from a
        new place costs is not known, so there only that place's own on-demand counts.
        """
        if self._is_current(option):
            return min(self._to_the_end(o, work) for o in self.open_on_demand)
        place = option.offer.key
        own = [
            o
            for o in self.open_on_demand
            if (o.offer.key.region, o.offer.key.zone) == (place.region, place.zone)
        ]
        return min((o.price * self._billed(work + self.restart) for o in own), default=math.inf)

    def _pays(self, bill: float) -> bool:
        return self.money is None or bill <= self.money + 1e-9


def course_of(job: Job, market: ObservedMarket, now: datetime) -> Course | None:
    """None for a job without a deadline, or of which nobody knows how much work is left."""
    if job.deadline is None or job.work_left is None:
        return None
    work = max(job.work_left.total_seconds(), 1e-6)
    restart = job.restart.total_seconds()
    prior = prior_of(market)
    options, refused = [], []
    for offer in market.offers:
        refusal = _refusal(job, offer)
        if refusal is not None:
            refused.append(refusal)
            continue
        blocked = _blocked(job, market, offer, now)
        if blocked is not None:
            refused.append(blocked)
        expected = estimate(market.evidence.get(offer.key), prior, now)
        options.append(_option(job, offer, expected, blocked is None, work, restart))
    on_demand = [o.rate for o in options if not o.is_spot]
    dearest = max((o.price for o in options), default=0.0)
    placed = job.placement.key if job.placement else None
    return Course(
        work=work,
        time=(job.deadline - now).total_seconds(),
        restart=restart,
        step=job.step.total_seconds(),
        money=job.money_left,
        placed=placed is not None,
        current=next((o for o in options if o.offer.key == placed), None),
        options=tuple(options),
        refused=tuple(refused),
        fallback=min(on_demand, default=SPOT_ONLY_FALLBACK * dearest),
    )


def _refusal(job: Job, offer: Offer) -> Candidate | None:
    """Why the job can never use an offer."""
    refusal = fits(job.needs, offer.type) or permitted(job, offer) or affordable(job, offer)
    if refusal is None and offer.key.capacity_type is CapacityType.RESERVED:
        refusal = Reason.RESERVED_NOT_ALLOWED, "reserved capacity is not used by the policy `deadline`"
    return None if refusal is None else Candidate(offer, reason=refusal[0], detail=refusal[1])


def _blocked(job: Job, market: ObservedMarket, offer: Offer, now: datetime) -> Candidate | None:
    """Why an offer cannot be asked for now. Where the job runs nothing needs asking."""
    if job.placement is not None and offer.key == job.placement.key:
        return None
    block = market.block_of(offer, now, job.image, job.needs.nodes)
    if block is None:
        return None
    detail = ": ".join(text for text in (block.kind, block.code, block.message) if text)
    return Candidate(offer, None, Reason.BLOCKED, detail, block.since, block.until)


def _option(job: Job, offer: Offer, expected: Estimate, open_: bool, work: float, restart: float) -> Option:
    key = offer.key
    here = job.placement is not None and job.placement.key == key
    pending = job.placement.pending.total_seconds() if here and job.placement else restart
    egress = 0.0 if here else job.egress.get((key.provider, key.region, key.zone), 0.0)
    price = (offer.price or 0.0) * job.needs.nodes
    if key.capacity_type is not CapacityType.SPOT:
        rate = price + egress * 3600 / max(work, restart)
        return Option(offer, price, egress, open_, pending, rate, work, 0.0, 1.0, work)
    life, outage = expected.life, max(expected.outage.typical, 1.0)
    paid = life.within(work + pending)
    progress = max(paid - pending, 1e-9)
    rate = (price * paid + egress * 3600) / progress
    lasts = max(life.within(work), 1.0)
    unsure = min(max(expected.chance, SURE), 1 - SURE)
    source = Source(price, egress, lasts, outage, unsure, life.ends)
    return Option(
        offer, price, egress, open_, pending, rate, lasts, outage, expected.chance, progress, source
    )
