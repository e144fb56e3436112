"""The policy `deadline`, asked one question at a time."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import deadline
from policies.estimates import estimate, pooled
from policies.model import (
    Candidate,
    Decision,
    Job,
    Launch,
    Move,
    Needs,
    Placement,
    Reason,
    SpotUse,
    Stay,
    Stop,
    Wait,
)
from providers.vocabulary import CapacityType, Offer, OfferKey
from tests.policies.offers import NOW, StillMarket, job, offer, on_demand, seen

SPOT, OTHER = offer("east-a", 1.0), offer("west-a", 1.0)
DEARER = offer("west-a", 1.25)
ON_DEMAND = on_demand("east-a", 3.0)


def decide(asked: Job, *offers: Offer, blocked: tuple[Offer, ...] = (), **more: Any) -> Decision:
    market = StillMarket(offers, blocked=frozenset(o.key for o in blocked), **more)
    return deadline.decide(asked, market, NOW)


def first(decision: Decision) -> Offer:
    assert isinstance(decision, Launch | Move)
    return decision.offers[0]


def running(on: Offer, hours_pending: float = 0.0) -> dict[str, Any]:
    return {"placement": Placement(on.key, timedelta(hours=hours_pending))}


def test_spot_comes_before_on_demand() -> None:
    assert first(decide(job(10, 5), ON_DEMAND, SPOT)) == SPOT


def test_with_slack_it_waits_for_spot_to_come_back() -> None:
    assert isinstance(decide(job(10, 8), ON_DEMAND, SPOT, blocked=(SPOT,)), Wait)


def test_without_slack_it_goes_to_on_demand() -> None:
    assert first(decide(job(10, 0.5), ON_DEMAND, SPOT, blocked=(SPOT,))) == ON_DEMAND


def test_slack_for_one_launch_only_is_waited_through_until_that_launch_could_not_be_made() -> None:
    assert isinstance(decide(job(10, 0.15), ON_DEMAND, SPOT, blocked=(SPOT,)), Wait)
    assert first(decide(job(10, 0.11), ON_DEMAND, SPOT, blocked=(SPOT,))) == ON_DEMAND


def test_where_slack_is_scarce_the_zone_that_lasts_comes_before_the_cheaper_one() -> None:
    fickle = seen(True, 0.1, up_seconds=3600, losses=6, down_seconds=600, gains=6)
    known = {SPOT.key: fickle, DEARER.key: seen(True, 2, up_seconds=4 * 3600, losses=1)}
    assert first(decide(job(40, 60), ON_DEMAND, SPOT, DEARER, evidence=known)) == SPOT
    assert first(decide(job(40, 0.9), ON_DEMAND, SPOT, DEARER, evidence=known)) == DEARER


def test_an_outage_is_waited_out_while_slack_is_cheap_and_bridged_on_on_demand_when_it_is_dear() -> None:
    known = {SPOT.key: seen(False, 1, up_seconds=8 * 3600, losses=2, gains=2)}
    assert isinstance(decide(job(30, 3), ON_DEMAND, SPOT, blocked=(SPOT,), evidence=known), Wait)
    assert first(decide(job(30, 1), ON_DEMAND, SPOT, blocked=(SPOT,), evidence=known)) == ON_DEMAND


def test_a_move_for_the_same_saving_is_made_with_slack_and_not_without() -> None:
    cheaper = offer("west-a", 0.85)
    fickle = {o.key: seen(True, 3, up_seconds=12 * 3600, losses=3) for o in (SPOT, cheaper)}
    for slack, moves in ((30.0, True), (0.4, False)):
        on = job(20, slack, **running(SPOT))
        assert isinstance(decide(on, ON_DEMAND, SPOT, cheaper, evidence=fickle), Move) is moves


def test_at_the_last_moment_spot_is_left_alone_even_when_it_is_there() -> None:
    assert first(decide(job(10, 0), ON_DEMAND, SPOT)) == ON_DEMAND


def test_a_job_on_spot_goes_on_at_the_last_moment_while_it_makes_progress() -> None:
    assert isinstance(decide(job(10, 0, **running(SPOT)), ON_DEMAND, SPOT), Stay)


def test_a_restart_on_spot_is_given_up_when_it_could_make_the_job_late() -> None:
    late = job(10, 0, **running(SPOT, hours_pending=0.1))
    assert first(decide(late, ON_DEMAND, SPOT)) == ON_DEMAND


def test_on_on_demand_it_returns_to_spot_that_has_lasted() -> None:
    lasting = {SPOT.key: seen(True, 5)}
    on = job(10, 1, **running(ON_DEMAND))
    assert first(decide(on, ON_DEMAND, SPOT, evidence=lasting)) == SPOT


def test_on_on_demand_it_stays_when_spot_comes_and_goes() -> None:
    fickle = {SPOT.key: seen(True, 0.05, up_seconds=600, losses=6, down_seconds=3600, gains=6)}
    on = job(10, 1, **running(ON_DEMAND))
    assert isinstance(decide(on, ON_DEMAND, SPOT, evidence=fickle), Stay)


def test_it_stays_where_it_is_for_a_small_saving() -> None:
    cheaper = offer("west-a", 0.98)
    assert isinstance(decide(job(10, 8, **running(SPOT)), ON_DEMAND, SPOT, cheaper), Stay)


def test_it_moves_for_a_large_saving_with_slack() -> None:
    cheaper = offer("west-a", 0.5)
    assert first(decide(job(20, 15, **running(SPOT)), ON_DEMAND, SPOT, cheaper)) == cheaper


@pytest.mark.parametrize("change", [{"work": 0.3, "slack": 15.0}, {"work": 20.0, "slack": 0.02}])
def test_it_never_moves_near_the_end_or_without_slack(change: dict[str, float]) -> None:
    cheaper = offer("west-a", 0.5)
    assert isinstance(decide(job(**change, **running(SPOT)), ON_DEMAND, SPOT, cheaper), Stay)


def test_egress_counts_against_a_move() -> None:
    cheaper = offer("west-a", 0.5)
    dear = {("aws", "west-", "west-a"): 20.0}
    assert isinstance(decide(job(20, 15, **running(SPOT), egress=dear), ON_DEMAND, SPOT, cheaper), Stay)


def test_with_slack_it_waits_at_home_rather_than_pay_egress() -> None:
    dear = {("aws", "west-", "west-a"): 10.0}
    asked = job(10, 8, egress=dear)
    known = {SPOT.key: seen(False, 0.1, up_seconds=36000, losses=1)}
    assert isinstance(decide(asked, ON_DEMAND, SPOT, OTHER, blocked=(SPOT,), evidence=known), Wait)


def test_nodes_multiply_the_price_against_egress() -> None:
    cheaper = offer("west-a", 0.8)
    egress = {("aws", "west-", "west-a"): 3.0}
    alone = job(20, 15, **running(SPOT), egress=egress)
    assert isinstance(decide(alone, ON_DEMAND, SPOT, cheaper), Stay)
    gang = job(20, 15, **running(SPOT), egress=egress, needs=Needs(nodes=16))
    assert first(decide(gang, ON_DEMAND, SPOT, cheaper)) == cheaper


def test_spot_never_means_on_demand_and_spot_only_means_spot() -> None:
    assert first(decide(job(10, 9, spot=SpotUse.NEVER), ON_DEMAND, SPOT)) == ON_DEMAND
    assert first(decide(job(10, 0, spot=SpotUse.ONLY), ON_DEMAND, SPOT)) == SPOT


def test_where_on_demand_is_refused_too_late_a_spot_is_better_than_nothing() -> None:
    decision = decide(job(10, -1), ON_DEMAND, SPOT, blocked=(ON_DEMAND,))
    assert first(decision) == SPOT
    assert isinstance(decision, Launch)
    assert decision.deadline_at_risk


def test_a_cap_that_on_demand_would_pass_is_told_at_once() -> None:
    decision = decide(job(10, 5, money_left=12.0), ON_DEMAND, SPOT)
    assert first(decision) == SPOT
    assert isinstance(decision, Launch)
    assert decision.deadline_at_risk


def test_a_cap_with_nothing_left_stops_the_job() -> None:
    assert isinstance(decide(job(10, 5, money_left=0.001, **running(SPOT)), ON_DEMAND, SPOT), Stop)


def test_an_unlisted_offer_that_it_runs_on_is_no_reason_to_start_another() -> None:
    assert isinstance(decide(job(10, 5, **running(OTHER)), ON_DEMAND, SPOT), Stay)


def test_without_a_deadline_it_is_the_policy_cheapest() -> None:
    assert first(decide(job(10, 0, deadline=None), ON_DEMAND, SPOT)) == SPOT


def test_explain_lists_every_offer_with_its_rank_or_reason() -> None:
    unknown, dear = offer("west-b", None), offer("west-c", 2.9)
    market = StillMarket([ON_DEMAND, SPOT, OTHER, unknown, dear], blocked=frozenset([OTHER.key]))
    told: list[Candidate] = deadline.explain(job(10, 8), market, NOW)
    reasons = {candidate.offer: candidate.reason for candidate in told}
    assert told[0] == Candidate(SPOT, 1)
    assert reasons == {
        SPOT: None,
        OTHER: Reason.BLOCKED,
        unknown: Reason.PRICE_UNKNOWN,
        dear: Reason.NOT_WORTH_IT,
        ON_DEMAND: Reason.NOT_WORTH_IT,
    }


@st.composite
def situations(draw: st.DrawFn) -> tuple[Job, StillMarket]:
    """Any job, somewhere or nowhere, in a market of which something was seen."""
    prices = st.integers(1, 40).map(lambda tenths: tenths / 10)
    zones = [f"{region}-{letter}" for region in ("east", "west") for letter in "abc"]
    offers = [offer(name, draw(prices)) for name in zones if draw(st.booleans())]
    offers += [on_demand(name, draw(prices)) for name in zones[::2] if draw(st.booleans())]
    hours = st.floats(0, 10)
    evidence = {
        o.key: seen(draw(st.booleans()), draw(hours), losses=draw(st.integers(0, 5)))
        for o in offers
        if o.key.capacity_type is CapacityType.SPOT and draw(st.booleans())
    }
    blocked = frozenset(o.key for o in offers if draw(st.integers(0, 4)) == 0)
    more: dict[str, Any] = {
        "egress": {("aws", name[:-1], name): draw(st.sampled_from([0.0, 1.0, 9.0])) for name in zones},
        "money_left": draw(st.none() | st.floats(0, 100)),
    }
    placed: bool = draw(st.booleans())
    if offers and placed:
        on: Offer = draw(st.sampled_from(offers))
        more |= running(on, draw(st.sampled_from([0.0, 0.05])))
    return job(draw(st.floats(0.05, 40)), draw(st.floats(-1, 40)), **more), StillMarket(
        offers, evidence, blocked
    )


@settings(max_examples=200, deadline=None)
@given(situations())
def test_the_same_question_has_the_same_answer_in_any_order(asked: tuple[Job, StillMarket]) -> None:
    one, market = asked
    turned = StillMarket(market.offers[::-1], market.evidence, market.blocked)
    assert deadline.decide(one, market, NOW) == deadline.decide(one, market, NOW)
    again, turned_round = deadline.decide(one, market, NOW), deadline.decide(one, turned, NOW)
    assert getattr(again, "offers", again) == getattr(turned_round, "offers", turned_round)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_a_dominated_offer_is_never_chosen(asked: tuple[Job, StillMarket]) -> None:
    one, market = asked
    decision = deadline.decide(one, market, NOW)
    if not isinstance(decision, Launch | Move):
        return
    chosen = decision.offers[0]
    assert chosen.key not in market.blocked or (one.placement and one.placement.key == chosen.key)
    for rival in market.offers:
        if rival.key not in market.blocked and (not one.placement or rival.key != one.placement.key):
            assert not dominates(rival, chosen, one, market), (rival, chosen)


def dominates(rival: Offer, chosen: Offer, one: Job, market: StillMarket) -> bool:
    """Same capacity type; price and egress no higher, chance and lifetime no lower, one strictly better.

    Under a money cap the way home counts too: on-demand beside it, where moving on has a known price.
    """
    if rival.key.capacity_type is not chosen.key.capacity_type:
        return False
    beside = OfferKey(**{**asdict(rival.key), "capacity_type": CapacityType.ON_DEMAND})
    sold = any(o.key == beside and beside not in market.blocked for o in market.offers)
    if one.money_left is not None and not sold:
        return False
    ours, theirs = worth(rival, one, market), worth(chosen, one, market)
    return all(a >= b for a, b in zip(ours, theirs, strict=True)) and ours != theirs


def worth(of: Offer, one: Job, market: StillMarket) -> tuple[float, ...]:
    expected = estimate(market.evidence.get(of.key), pooled(market.evidence.values()), NOW)
    egress = one.egress[(of.key.provider, of.key.region, of.key.zone)]
    known = of.key.capacity_type is CapacityType.SPOT
    life = [expected.life.within(hours * 3600) for hours in (0.1, 1, 10, 100)] if known else []
    return (-(of.price or 0.0), -egress, *([expected.chance] if known else []), *life)


@settings(max_examples=200, deadline=None)
@given(situations())
def test_nothing_is_started_that_the_money_cap_does_not_cover(asked: tuple[Job, StillMarket]) -> None:
    one, market = asked
    decision = deadline.decide(one, market, NOW)
    if one.money_left is None or not isinstance(decision, Launch | Move):
        return
    for chosen in decision.offers:
        egress = one.egress[(chosen.key.provider, chosen.key.region, chosen.key.zone)]
        assert (chosen.price or 0.0) * one.step / timedelta(hours=1) + egress <= one.money_left + 1e-6
