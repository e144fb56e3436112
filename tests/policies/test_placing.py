"""The policies without a deadline, asked one question at a time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policies import placing
from policies.egress import CheckpointEgress, Home
from policies.model import Decision, GpuNeed, Job, Launch, Move, Needs, Placement, Reason, Stay, Stop, Wait
from policies.rule import DEFAULT_RULES, Policy, Rule
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey
from tests.policies.offers import NOW, StillMarket, job, offer, on_demand, seen

EXPLORATION = DEFAULT_RULES[Policy.EXPLORATION]
SPOT, ON_DEMAND = offer("east-a", 1.0), on_demand("west-a", 3.0)


def asked(**more: Any) -> Job:
    return job(10, 0, **{"deadline": None, **more})


def decide(rule: Rule, one: Job, *offers: Offer, **more: Any) -> Decision:
    return placing.decide(rule, one, StillMarket(offers, **more), NOW)


def chosen(decision: Decision) -> Offer:
    assert isinstance(decision, Launch | Move)
    return decision.offers[0]


def running(on: Offer, hours: float = 2.0, **more: Any) -> dict[str, Any]:
    return {"placement": Placement(on.key), "ran": timedelta(hours=hours), **more}


def card(name: str, memory: float, price: float) -> Offer:
    type_ = InstanceType(name, name, 8, 32.0, Accelerator(name, 1, memory))
    return Offer(OfferKey("aws", "main", "east", "east-a", name, CapacityType.SPOT), type_, price)


def test_PRI_01_a_price_that_is_unknown_never_wins() -> None:
    assert chosen(decide(EXPLORATION, asked(), offer("east-b", None), SPOT)) == SPOT


def test_PRI_11_spot_above_the_price_of_on_demand_is_not_chosen() -> None:
    dear, od_a, od_b = offer("east-a", 1.10), on_demand("east-a", 1.00), on_demand("east-b", 0.95)
    assert chosen(decide(EXPLORATION, asked(), dear, od_a, od_b)) == od_b


def test_PRI_02_reserved_capacity_is_not_taken_for_free_where_the_rule_does_not_name_it() -> None:
    key = OfferKey("aws", "main", "east", "east-a", "t", CapacityType.RESERVED, "cr-1")
    free = Offer(key, SPOT.type, 0.0)
    assert chosen(decide(EXPLORATION, asked(), free, SPOT)) == SPOT
    assert chosen(decide(DEFAULT_RULES[Policy.CORE], asked(), free, SPOT, ON_DEMAND)) == free


def test_PLA_01_where_every_pair_is_blocked_nothing_is_launched() -> None:
    blocked = frozenset({SPOT.key, ON_DEMAND.key})
    decision = decide(EXPLORATION, asked(), SPOT, ON_DEMAND, blocked=blocked)
    assert isinstance(decision, Wait)
    assert decision.counts == {"blocked": 2}
    assert decision.until is not None


def test_core_takes_on_demand_before_spot_even_where_its_rule_allows_both() -> None:
    rule = Rule(Policy.CORE, frozenset(CapacityType))
    assert chosen(decide(rule, asked(), SPOT, ON_DEMAND)) == ON_DEMAND
    assert chosen(decide(rule, asked(), SPOT, ON_DEMAND, blocked=frozenset({ON_DEMAND.key}))) == SPOT


def test_preprocessing_takes_the_smallest_that_fits_though_a_larger_is_cheaper() -> None:
    small, large = card("T4", 16, 0.5), card("H100", 80, 0.4)
    rule = DEFAULT_RULES[Policy.PREPROCESSING]
    assert chosen(decide(rule, asked(needs=Needs(GpuNeed(1))), large, small)) == small
    assert chosen(decide(rule, asked(), large, small, SPOT)) == SPOT, "a job without GPUs gets none"


def test_exploration_waits_for_spot_then_pays() -> None:
    rule = Rule(Policy.EXPLORATION, spot_wait=timedelta(minutes=10))
    dry: dict[str, Any] = {"blocked": frozenset({SPOT.key})}
    assert isinstance(decide(rule, asked(), SPOT, ON_DEMAND, **dry), Wait)
    late = asked(waiting_since=NOW - timedelta(minutes=11))
    assert chosen(decide(rule, late, SPOT, ON_DEMAND, **dry)) == ON_DEMAND
    assert chosen(decide(rule, asked(), ON_DEMAND)) == ON_DEMAND, "where no spot is sold it waits for none"


def test_egress_makes_the_nearer_offer_the_cheaper() -> None:
    far = Offer(OfferKey("gcp", "main", "us", "us-a", "t", CapacityType.SPOT), SPOT.type, 0.9)
    far_away = asked(work_left=timedelta(hours=2), egress=CheckpointEgress(Home("aws", "east"), 100.0))
    assert chosen(decide(EXPLORATION, far_away, SPOT, far)) == SPOT
    assert chosen(decide(EXPLORATION, asked(), SPOT, far)) == far


def test_losses_cost_a_place_its_rank() -> None:
    cheap = offer("east-b", 0.95)
    shaky = {cheap.key: seen(True, 0.1, losses=20.0)}
    assert chosen(decide(EXPLORATION, asked(), SPOT, cheap)) == cheap
    assert chosen(decide(EXPLORATION, asked(), SPOT, cheap, evidence=shaky)) == SPOT


def test_a_job_on_on_demand_moves_to_spot_only_if_it_resumes_and_enough_is_left() -> None:
    assert chosen(decide(EXPLORATION, asked(**running(ON_DEMAND)), SPOT, ON_DEMAND)) == SPOT
    assert isinstance(decide(EXPLORATION, asked(**running(ON_DEMAND), resumes=False), SPOT, ON_DEMAND), Stay)
    ending = asked(**running(ON_DEMAND), work_left=timedelta(minutes=20))
    assert isinstance(decide(EXPLORATION, ending, SPOT, ON_DEMAND), Stay)
    fresh = asked(**running(ON_DEMAND, hours=0.1))
    decision = decide(EXPLORATION, fresh, SPOT, ON_DEMAND)
    assert isinstance(decision, Stay)
    assert "less than 30 min" in decision.why
    restless = asked(**running(ON_DEMAND, moves=20))
    assert isinstance(decide(EXPLORATION, restless, SPOT, ON_DEMAND), Stay)


def test_a_cap_is_kept_by_stopping_and_by_not_starting() -> None:
    assert isinstance(decide(EXPLORATION, asked(money_left=0.01), SPOT, ON_DEMAND), Stop)
    assert isinstance(decide(EXPLORATION, asked(money_left=0.01, **running(SPOT)), SPOT), Stop)
    told = placing.explain(EXPLORATION, asked(money_left=0.2), StillMarket([SPOT, ON_DEMAND]), NOW)
    assert {c.offer: c.reason for c in told} == {SPOT: None, ON_DEMAND: Reason.MAX_COST}


def test_nothing_known_yet_is_no_reason_to_stop_a_job_with_a_cap() -> None:
    assert isinstance(decide(EXPLORATION, asked(money_left=1.0)), Wait)


prices = st.one_of(st.none(), st.integers(1, 60).map(lambda tenths: tenths / 10))


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Job, StillMarket, Rule]:
    """Any job without a deadline, in a market of which something was seen."""
    kinds = st.sampled_from([CapacityType.SPOT, CapacityType.ON_DEMAND])
    offers = [offer(f"east-{letter}", draw(prices), draw(kinds)) for letter in "abcdefgh"]
    blocked = frozenset(one.key for one in offers if draw(st.integers(0, 3)) == 0)
    evidence = {one.key: seen(draw(st.booleans()), 2.0) for one in offers if draw(st.booleans())}
    more: dict[str, Any] = {}
    if draw(st.booleans()):
        more["money_left"] = draw(st.floats(0, 5))
    if draw(st.booleans()):
        more |= running(draw(st.sampled_from(offers)))
    rule = DEFAULT_RULES[draw(st.sampled_from(list(Policy)))]
    return asked(**more), StillMarket(offers, evidence=evidence, blocked=blocked), rule


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_the_same_question_has_the_same_answer(crowd: tuple[Job, StillMarket, Rule]) -> None:
    one, market, rule = crowd
    assert placing.decide(rule, one, market, NOW) == placing.decide(rule, one, market, NOW)


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_a_dominated_offer_is_never_chosen(crowd: tuple[Job, StillMarket, Rule]) -> None:
    """Of two alike in all but price, the dearer is not the first choice."""
    one, market, rule = crowd
    decision = placing.decide(rule, one, market, NOW)
    if not isinstance(decision, Launch):
        return
    best = decision.offers[0]
    assert best.price is not None
    for other in market.offers:
        alike = other.key.capacity_type == best.key.capacity_type and not (
            {other.key, best.key} & market.evidence.keys()
        )
        if alike and other.key not in market.blocked and other.price is not None:
            assert best.price <= other.price


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_what_is_chosen_is_open_allowed_and_within_the_cap(crowd: tuple[Job, StillMarket, Rule]) -> None:
    one, market, rule = crowd
    decision = placing.decide(rule, one, market, NOW)
    if not isinstance(decision, Launch | Move):
        return
    hours = (one.restart + one.step).total_seconds() / 3600
    for each in decision.offers:
        assert each.key not in market.blocked
        assert each.key.capacity_type in rule.capacity_types
        assert each.price is not None
        assert one.money_left is None or each.price * hours <= one.money_left


@settings(max_examples=200, deadline=None)
@given(crowds())
def test_explain_agrees_with_what_is_done(crowd: tuple[Job, StillMarket, Rule]) -> None:
    one, market, rule = crowd
    decision = placing.decide(rule, one, market, NOW)
    told = placing.explain(rule, one, market, NOW)
    assert {candidate.offer for candidate in told} == set(market.offers)
    if isinstance(decision, Launch):
        assert tuple(c.offer for c in told if c.reason is None)[: len(decision.offers)] == decision.offers
