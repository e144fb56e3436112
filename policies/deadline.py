"""The policy `deadline`: the least expected cost, and never late while on-demand could still be on time.

The rule, with its reasons, is in docs/policies.md. In short, per look at the market:

* Spot or waiting is chosen only where on-demand could still finish if it brought nothing (`Course.safe`).
* An offer costs what an hour of *progress* on it costs: price over the spell it is expected to last, plus
  restart and egress, over the progress made in it (`Option.rate`).
* Without capacity the job takes the best offer that is no dearer than the best of those it could wait for,
  the wait priced by what slack is worth, which grows as slack shrinks. At the reserve it waits no more.
* A running job moves only if saving × time beats restart, egress and the slack that the move burns.
"""

from __future__ import annotations

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

WAIT_WORTH = 0.4
SLACK_AMPLE, SLACK_SCARCE, SCARCITY_POWER = 0.5, 0.05, 1.5
RESERVE_OF_WORK, RESERVE_RESTARTS = 0.15, 1.0
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
    """Nothing runs: take the best offer, or wait for a better one."""
    may_wait = bool(course.spot) and course.slack > _reserve(course) and course.safe_to_wait
    limit = _reservation_price(course) if may_wait else course.fallback
    spot = [o for o in course.spot if o.open and o.rate <= limit * (1 + 1e-9) and course.may_hold(o)]
    if spot:
        return Launch(_offers(spot), f"spot at up to ${limit:.2f} an hour of progress")
    if may_wait:
        return Wait(None, f"{course.slack / 3600:.1f} h of slack: waiting is cheaper", _counts(course))
    on_demand = course.open_on_demand
    if on_demand:
        return Launch(_offers(on_demand), "on-demand: the slack that is left is kept in reserve")
    late = [o for o in course.spot if o.open and course.affords(o)]
    if late:
        return Launch(_offers(late), "on-demand cannot be had: any spot")
    return Wait(None, "neither spot nor on-demand can be tried now", _counts(course))


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


def _reserve(course: Course) -> float:
    """Seconds of slack that are not spent on waiting: without them a job on on-demand could not use spot
    that comes back, as going there and back takes two restarts.
    """
    return RESERVE_OF_WORK * course.work + RESERVE_RESTARTS * course.restart


def _scarcity(course: Course) -> float:
    """From 0 (slack enough for anything) to 1 (none to spare)."""
    share = course.slack / course.work
    scarce = (SLACK_AMPLE - share) / (SLACK_AMPLE - SLACK_SCARCE)
    return float(min(1.0, max(0.0, scarce)) ** SCARCITY_POWER)


def _reservation_price(course: Course) -> float:
    """USD an hour of progress: the best that could be had by waiting, the wait included."""
    best = min((option.rate for option in course.spot), default=course.fallback)
    worth = WAIT_WORTH * max(0.0, course.fallback - best) * _scarcity(course)
    waits = (
        option.rate + (0.0 if option.open else worth * option.outage / max(option.lasts, course.step))
        for option in course.spot
    )
    return min((*waits, course.fallback))


def _repays(course: Course, current: Option, option: Option) -> bool:
    """Whether leaving for another place saves more than it costs."""
    near_the_end = course.work < NEAR_THE_END_RESTARTS * course.restart
    if near_the_end or option.price >= current.price or not course.may_hold(option):
        return False
    restart, hours = course.restart / 3600, option.lasts / 3600
    saving = (current.price - option.price) * hours
    if not current.is_spot:
        # There and back again: both restarts are made up for on on-demand, and take slack.
        back = option.egress + 2 * restart * course.fallback
        return course.slack >= course.restart and saving > back
    premium = max(0.0, course.fallback - option.price)
    cost = option.egress + restart * (option.price + _scarcity(course) * premium)
    return saving > cost * (1 + MOVE_MARGIN)


def _offers(options: Iterable[Option]) -> tuple[Offer, ...]:
    return tuple(option.offer for option in sorted(options, key=Option.order)[:MAX_RANKED])


def _counts(course: Course) -> dict[str, int]:
    return dict(Counter(str(candidate.reason) for candidate in course.refused))
