"""Jobs with a deadline under the rule of their class: on time, within the cap, and as the policy `deadline`
would have it on the whole market.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings

from policies import deadline, deciding
from policies.backtest.figures import on_demand_cost
from policies.backtest.problem import parse
from policies.backtest.replay import policy
from policies.backtest.simulation import simulate
from policies.model import (
    Decision,
    Job,
    Launch,
    Needs,
    ObservedMarket,
    Placement,
    Reason,
    SpotUse,
    Stay,
    Wait,
)
from policies.rule import Policy, Rule
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey
from tests.policies.markets import markets
from tests.policies.offers import NOW, StillMarket, job, offer, on_demand, seen

RULE = Rule(Policy.EXPLORATION, moves=True, min_dwell=timedelta(0), max_moves=10_000)
SPOT, ON_DEMAND = offer("east-a", 1.0), on_demand("east-a", 3.0)


def ruled(asked: Job, market: ObservedMarket, now: datetime) -> Decision:
    return deciding.decide(RULE, replace(asked, resumes=True), market, now)


def reserved(name: str = "cr-1") -> Offer:
    key = OfferKey("aws", "main", "east", "east-a", "t", CapacityType.RESERVED, name)
    return Offer(key, InstanceType("t", "T", 8, 32.0), None)


@settings(max_examples=100, deadline=None)
@given(markets())
def test_it_is_on_time_whenever_on_demand_could_be(document: dict[str, Any]) -> None:
    problem = parse(document)
    assert simulate(problem, policy(ruled, problem)).finish is not None


@settings(max_examples=100, deadline=None)
@given(markets())
def test_what_it_leaves_out_of_the_market_changes_no_run(document: dict[str, Any]) -> None:
    problem = parse(document)
    whole = simulate(problem, policy(deadline.decide, problem))
    assert simulate(problem, policy(ruled, problem)).bill.total == whole.bill.total


@settings(max_examples=60, deadline=None)
@given(markets())
def test_the_money_cap_is_never_passed(document: dict[str, Any]) -> None:
    problem = parse(document)
    cap = 0.7 * on_demand_cost(problem)
    assert simulate(problem, policy(ruled, problem, money=cap)).bill.total <= cap + 1e-6


def test_the_class_says_what_is_allowed_and_the_deadline_when() -> None:
    core = Rule(Policy.CORE, frozenset({CapacityType.RESERVED, CapacityType.ON_DEMAND}))
    market = StillMarket([SPOT, ON_DEMAND])
    decision = deciding.decide(core, job(10, 20), market, NOW)
    assert isinstance(decision, Launch)
    assert decision.offers == (ON_DEMAND,)
    told = deciding.explain(core, job(10, 20), market, NOW)
    assert {c.offer: c.reason for c in told}[SPOT] is Reason.SPOT_NOT_ALLOWED


def test_reserved_capacity_comes_first_and_is_not_left() -> None:
    core = Rule(Policy.CORE, frozenset({CapacityType.RESERVED, CapacityType.ON_DEMAND}), moves=True)
    market = StillMarket([ON_DEMAND, reserved()])
    decision = deciding.decide(core, job(10, 1), market, NOW)
    assert isinstance(decision, Launch)
    assert decision.offers == (reserved(),)
    stays = deciding.decide(core, job(10, 1, placement=Placement(reserved().key)), market, NOW)
    assert isinstance(stays, Stay)
    assert not stays.deadline_at_risk


def test_without_a_checkpoint_a_deadline_is_never_left_to_spot_unless_insisted_on() -> None:
    market = StillMarket([SPOT, ON_DEMAND])
    decision = deciding.decide(RULE, job(10, 20, resumes=False), market, NOW)
    assert isinstance(decision, Launch)
    assert decision.offers == (ON_DEMAND,)
    forced = deciding.decide(RULE, job(10, 20, resumes=False, spot=SpotUse.FORCE), market, NOW)
    assert isinstance(forced, Launch)
    assert forced.offers == (SPOT,)


def test_a_market_that_sells_nothing_fitting_stops_no_job() -> None:
    decision = deciding.decide(RULE, job(10, 20), StillMarket([]), NOW)
    assert isinstance(decision, Wait)
    assert decision.deadline_at_risk


def test_thousands_of_offers_give_the_choice_of_the_few_that_matter() -> None:
    many = [offer(f"east-{n:04d}a", 1.0 + n / 1000) for n in range(3000)]
    tried = {many[5].key: seen(True, 9), many[7].key: seen(False, 2, losses=3.0)}
    market = StillMarket([*many, ON_DEMAND], evidence=tried)
    asked = job(10, 5, needs=Needs())
    assert deciding.decide(RULE, asked, market, NOW) == deadline.decide(asked, market, NOW)
