"""The replay of a recorded market: what happens in a tick, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from policies.backtest.problem import ProblemError, parse
from policies.backtest.simulation import Act, Mode, RuleError, Run, Simulation, simulate
from tests.policies.markets import market, zone

HOUR = 3600 / 600  # ticks


def replay(document: dict[str, Any], act: Act) -> Run:
    return simulate(parse(document), act)


def spot_in(*zones: int) -> Act:
    """Ask these zones whenever the job runs on nothing."""

    def act(state: Simulation) -> None:
        if state.mode is Mode.IDLE:
            for number in zones:
                if state.try_spot(number):
                    break

    return act


def test_a_tick_is_billed_whole_at_its_price_and_lost_capacity_ends_it() -> None:
    run = replay(market(zone("##.##", [1.0, 2.0, 9.0, 4.0, 8.0]), work=3), spot_in(0))
    assert run.bill.total == pytest.approx((1 + 2 + 4) / HOUR)
    assert [entry.mode for entry in run.log] == ["spot", "spot", "idle", "spot"]
    assert (run.launches, run.moves, run.finish) == (2, 0, 4 * 600)


def test_a_restart_is_paid_and_makes_no_progress() -> None:
    run = replay(market(zone("#####"), work=2, restart_seconds=900), spot_in(0))
    assert run.done == pytest.approx((0, 300, 900, 1200))
    assert run.bill.spot == pytest.approx(4 / HOUR)


def test_a_launch_during_a_restart_replaces_it() -> None:
    def act(state: Simulation) -> None:
        if state.tick < 2:
            state.try_spot(state.tick)

    run = replay(market(zone("######"), zone("######", name="b"), work=2, restart_seconds=900), act)
    assert run.done == pytest.approx((0, 0, 300, 900, 1200))


def test_the_checkpoint_pays_for_each_move_but_not_for_the_first_launch() -> None:
    run = replay(market(zone("#..#"), zone(".##.", name="b"), work=4, egress=2.5), spot_in(0, 1))
    assert (run.bill.egress, run.moves) == (5.0, 2)


def test_a_probe_costs_a_minute_where_there_is_capacity_and_nothing_elsewhere() -> None:
    answers: list[bool] = []

    def act(state: Simulation) -> None:
        answers.extend(state.probe(number) for number in (0, 1))
        state.start_on_demand(0)

    run = replay(market(zone("#", spot=6.0), zone(".", name="b"), work=1), act)
    assert answers == [True, False]
    assert run.bill.probes == pytest.approx(6.0 * 60 / 3600)


def test_a_probe_of_where_the_job_runs_is_free() -> None:
    def act(state: Simulation) -> None:
        state.try_spot(0)
        assert state.probe(0)

    assert replay(market(zone("#"), work=1), act).bill.probes == 0


def test_a_refused_try_leaves_what_runs() -> None:
    def act(state: Simulation) -> None:
        state.try_spot(1) or state.try_spot(0)

    run = replay(market(zone("##"), zone("..", name="b"), work=2), act)
    assert (run.launches, [entry.tries for entry in run.log]) == (1, [[1, 0], [1, 0]])


def test_a_second_launch_in_a_tick_is_against_the_rules() -> None:
    def act(state: Simulation) -> None:
        state.try_spot(0)
        state.start_on_demand(0)

    with pytest.raises(RuleError):
        replay(market(zone("##"), work=2), act)


def test_work_that_is_not_done_by_the_deadline_is_late() -> None:
    run = replay(market(zone(".###"), work=4), spot_in(0))
    assert (run.finish, len(run.log)) == (None, 4)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"gap_seconds": 0}, "gap_seconds must be above 0"),
        ({"work_seconds": "much"}, "work_seconds must be a number of seconds, not 'much'"),
        ({"zones": []}, "zones must not be empty"),
        ({"egress": []}, "egress must be 1 rows of 1 dollars"),
        ({"deadline_seconds": 6000}, "capacity has 2 entries, 10 ticks are needed"),
    ],
)
def test_a_wrong_problem_says_which_field(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ProblemError, match=told):
        parse({**market(zone("##"), work=1), **change})
