"""The policy `deadline`: the least expected cost, and never late while on-demand could still be on time.

The rule, with its reasons, is in docs/policies.md. In short, per look at the market:

* Spot or waiting is chosen only where on-demand could still finish if it brought nothing (`Course.safe`).
* An hour of slack and an hour of work have a worth: what they can be expected to save (`policies.worth`).
* An offer costs what an hour of *progress* on it costs: price over the spell it is expected to last, plus
  restart, egress and the slack that the launch takes, over the progress made in it (`Course.rate`).
* Without capacity the job takes the best offer that is no dearer than the best of those it could wait for,
  the wait priced at what slack is worth, or bridges the outage on on-demand if that costs less.
* A running job moves only if saving × time beats restart, egress and the slack that the move takes.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from policies import cheapest
from policies.course import Course, Option, course_of
from policies.model import (
    MAX_RANKED,
    Candidate,
    Decision,
    Job,
    Launch,
    Move,
    ObservedMarket,
    Reason,
    Stay,
    Stop,
    Wait,
)
from providers.vocabulary import Offer

AMPLE_OF_WORK = 0.15
MOVE_MARGIN = 0.3
NEAR_THE_END_RESTARTS = 5.0

_Settled = Launch | Move | Stay | Stop | Wait


def decide(job: Job, market: ObservedMarket, now: datetime) -> Decision:
    """What to do now. Launches and moves list offers in the order to try; ask again if none is granted."""
    course = course_of(job, market, now)
    if course is None:
        return cheapest.decide(job, market, now)
    decision = _decide(course)
    return replace(decision, deadline_at_risk=True) if course.at_risk else decision


def explain(job: Job, market: ObservedMarket, now: datetime) -> list[Candidate]:
    """Every offer: those that would be tried now in order, then those it would rather wait for or not take,
    then the others with the reason.
    """
    course = course_of(job, market, now)
    if course is None:
        return cheapest.explain(job, market, now)
    decision = _decide(course)
    chosen = decision.offers if isinstance(decision, Launch | Move) else ()
    ranked = [Candidate(offer, rank) for rank, offer in enumerate(chosen, start=1)]
    taken = {offer.key for offer in chosen}
    open_ = [option for option in course.options if option.open and option.offer.key not in taken]
    passed = [
        Candidate(option.offer, None, Reason.NOT_WORTH_IT, f"${option.rate:.2f} an hour of progress")
        for option in sorted(open_, key=Option.order)
    ]
    return [*ranked, *passed, *course.refused]


def _decide(course: Course) -> _Settled:
    if course.broke:
        return Stop("the money cap leaves nothing for another step")
    if course.current is None and course.placed and course.safe_to_wait:
        return Stay("what it runs on is no longer listed, and nothing presses")
    if course.current is None:
        return _begin(course)
    return _go_on(course, course.current)


def _begin(course: Course) -> _Settled:
    """Nothing runs: take the best offer, wait for a better one, or bridge the time on on-demand."""
    may_wait = course.safe_to_wait
    good = [o for o in course.spot if o.rate < course.fallback and (may_wait or o.open)]
    ready = [o for o in good if o.open and course.may_hold(o)]
    closed = [o for o in good if not o.open]
    limit = _reservation_price(course, good)
    spot = [o for o in ready if course.rate(o) <= limit * (1 + 1e-9)]
    if spot:
        return Launch(_offers(spot), f"spot at ${spot[0].rate:.2f} an hour of progress")
    if closed and _waits(course, closed):
        return Wait(None, f"{course.slack / 3600:.1f} h of slack: waiting is cheaper", _counts(course))
    on_demand = course.open_on_demand
    if on_demand:
        return Launch(_offers(on_demand), "on-demand: dearer than spot, but cheaper than to wait for it")
    late = [o for o in course.spot if o.open and course.affords(o)]
    if late:
        return Launch(_offers(late), "on-demand cannot be had: any spot")
    return Wait(None, "neither spot nor on-demand can be tried now", _counts(course))


def _reservation_price(course: Course, options: Iterable[Option]) -> float:
    """USD an hour of progress: the best that can be had, an outage included where it must be waited for."""
    outages = ((o, 0.0 if o.open else _outage_cost(course, o.outage)) for o in options)
    return min((course.rate(o) + 3600 * cost / o.progress for o, cost in outages), default=math.inf)


def _outage_cost(course: Course, outage: float) -> float:
    return min(course.wait_cost(outage), course.bridge_cost(outage))


def _waits(course: Course, closed: Iterable[Option]) -> bool:
    """Whether an outage of all of these is waited out rather than bridged on on-demand.

    Slack is spent before work: waiting and bridging can cost the same, and what is done on on-demand is gone
    if more spot comes than expected. Where slack is left for one launch only, waiting is free until that
    launch could no longer be made.
    """
    if course.slack < 2 * course.restart:
        return course.slack - course.step >= course.restart
    if course.slack > AMPLE_OF_WORK * course.work + course.restart:
        return True
    outage = 1 / sum(1 / option.outage for option in closed)
    return course.wait_cost(outage) <= course.bridge_cost(outage)


def _go_on(course: Course, current: Option) -> _Settled:
    """Something runs: stay, unless it is no longer safe or another place repays the move."""
    if not course.affords(current):
        return Stop("the money cap leaves nothing for another step of what runs")
    if current.is_spot and not course.may_hold(current):
        return Launch(_offers(course.open_on_demand), "on-demand: the slack, or the money, is used up")
    better = [
        option
        for option in course.spot
        if option.open and option.rate < course.fallback and _repays(course, current, option)
    ]
    if better:
        return Move(_offers(better), f"${current.price - min(o.price for o in better):.2f}/h cheaper")
    return Stay("on the best that is worth it" if current.is_spot else "no spot that repays the move")


def _repays(course: Course, current: Option, option: Option) -> bool:
    """Whether leaving for another place saves more than it costs."""
    near_the_end = course.work < NEAR_THE_END_RESTARTS * course.restart
    if near_the_end or option.price >= current.price or not course.may_hold(option):
        return False
    saving = (current.price - option.price) * option.lasts / 3600
    unworked = (course.fallback - course.worth.work) * course.restart / 3600
    launch = option.egress + unworked + course.launch_worth
    if current.is_spot:
        return saving > launch * (1 + MOVE_MARGIN)
    # There and back again: on-demand would be launched once more.
    back = course.fallback * course.restart / 3600 + course.launch_worth
    return course.slack >= course.restart and saving > launch + back


def _offers(options: Iterable[Option]) -> tuple[Offer, ...]:
    return tuple(option.offer for option in sorted(options, key=Option.order)[:MAX_RANKED])


def _counts(course: Course) -> dict[str, int]:
    return dict(Counter(str(candidate.reason) for candidate in course.refused))
