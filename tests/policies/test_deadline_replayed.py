"""The policy `deadline` over whole jobs in made-up markets: on time, within its cap, and no churn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies import deadline
from policies.backtest.figures import on_demand_cost
from policies.backtest.policies import run
from policies.backtest.problem import Problem, parse
from policies.backtest.replay import policy
from policies.backtest.simulation import Run, simulate
from policies.model import Decision, Job, Launch, ObservedMarket, Probe, Wait
from providers.vocabulary import CapacityType
from tests.policies.markets import market, markets, zone


def capped(problem: Problem, money: float) -> Run:
    return simulate(problem, policy(deadline.decide, problem, money=money))


@settings(max_examples=200, deadline=None)
@given(markets())
def test_it_is_on_time_whenever_on_demand_could_be(document: dict[str, Any]) -> None:
    assert run(parse(document), "deadline").finish is not None


@settings(max_examples=150, deadline=None)
@given(markets(), st.floats(0, 2))
def test_the_money_cap_is_never_passed(document: dict[str, Any], share: float) -> None:
    problem = parse(document)
    cap = share * on_demand_cost(problem)
    assert capped(problem, cap).bill.total <= cap + 1e-6


@settings(max_examples=150, deadline=None)
@given(markets())
def test_a_cap_that_on_demand_just_keeps_is_kept_and_the_job_is_on_time(document: dict[str, Any]) -> None:
    problem = parse(document)
    cap = on_demand_cost(problem)
    played = capped(problem, cap)
    assert played.bill.total <= cap + 1e-6
    assert played.finish is not None


@settings(max_examples=50, deadline=None)
@given(markets())
def test_the_same_market_gives_the_same_run(document: dict[str, Any]) -> None:
    problem = parse(document)
    assert run(problem, "deadline") == run(problem, "deadline")


@settings(max_examples=50, deadline=None)
@given(markets())
def test_it_asks_for_no_probes(document: dict[str, Any]) -> None:
    problem = parse(document)
    assert run(problem, "deadline") == run(problem, "deadline", probes=False)


def test_steady_spot_is_one_launch() -> None:
    played = run(parse(market(zone("#" * 60), work=40, restart_seconds=720)), "deadline")
    assert (played.launches, played.bill.on_demand) == (1, 0)


def test_flickering_spot_without_slack_is_left_alone() -> None:
    document = market(zone("#." * 60), work=112, restart_seconds=720)
    played = run(parse(document), "deadline")
    assert played.launches <= 8  # of sixty spells
    assert played.bill.total <= 1.05 * on_demand_cost(parse(document))


def test_a_short_outage_is_waited_out_with_slack() -> None:
    drawn = "#" * 30 + ".." + "#" * 60
    played = run(parse(market(zone(drawn), work=45, restart_seconds=720)), "deadline")
    assert played.bill.on_demand == 0


def test_hidden_spot_that_was_fickle_once_is_tried_again() -> None:
    drawn = "#..#.#..#.#..#" + "." * 20 + "#" * 400
    played = run(parse(market(zone(drawn), work=350, restart_seconds=720)), "deadline")
    assert played.bill.spot > played.bill.on_demand


def test_probes_that_are_asked_for_are_paid_and_learnt_from_unless_forbidden() -> None:
    looked: list[int] = []

    def probing(job: Job, seen: ObservedMarket, now: object) -> Decision:
        spot = [o for o in seen.offers if o.key.capacity_type is CapacityType.SPOT]
        unknown = tuple(o for o in spot if o.key not in seen.evidence)
        looked.append(len(unknown))
        if unknown:
            return Probe(unknown, "to know")
        known = tuple(o for o in spot if seen.evidence[o.key].available)
        return Launch(known, "there it is") if known and job.placement is None else Wait(None, "")

    problem = parse(market(zone("....", name="a"), zone("####", name="b", spot=6.0), work=2))
    played = simulate(problem, policy(probing, problem))
    assert played.bill.probes == pytest.approx(0.1)
    assert played.log[0].tries == [1]
    blind = simulate(problem, policy(probing, problem, probes=False))
    assert (blind.bill.total, blind.finish) == (0, None)
