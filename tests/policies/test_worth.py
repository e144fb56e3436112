"""What slack and work are worth to a job that may yet run on spot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.worth import Source, Worth, worth

HOUR = 3600.0
ON_DEMAND = 3.0


def source(price: float = 1.0, life: float = 5.0, outage: float = 1.0, chance: float = 0.8) -> Source:
    """Lives and outages in hours, of which four spells were seen."""
    return Source(price, 0.0, life * HOUR, outage * HOUR, chance, 4.0)


def hours(slack: float, *sources: Source, work: float = 40.0, restart: float = 0.2) -> Worth:
    return worth(sources, ON_DEMAND, slack=slack * HOUR, work=work * HOUR, restart=restart * HOUR, step=600.0)


def test_without_spot_neither_is_worth_anything() -> None:
    assert hours(5) == hours(5, source(price=3.5)) == Worth(0.0, 0.0)


def test_more_slack_than_any_outage_takes_is_worth_nothing_and_work_what_spot_saves() -> None:
    found = hours(2000, source(price=1.0, life=40, chance=0.99))
    assert found.slack == 0
    assert 1.9 < found.work < ON_DEMAND - 1.0


def test_slack_that_is_all_that_keeps_the_job_off_on_demand_is_worth_many_hours_of_it() -> None:
    assert hours(1, source()).slack > 3 * ON_DEMAND


def test_where_slack_is_short_and_spot_is_not_work_is_worth_little() -> None:
    assert hours(0.5, source()).work < 0.5 < hours(30, source()).work


def test_zones_that_stand_in_for_each_other_make_slack_cheaper() -> None:
    assert hours(6, *[source()] * 5).slack < hours(6, source()).slack


def test_a_steady_zone_beside_a_fickle_one_makes_work_worth_more() -> None:
    fickle, steady = (
        source(price=0.5, life=0.5, outage=3, chance=0.2),
        source(price=2.0, life=40, chance=0.95),
    )
    assert hours(10, fickle, steady).work > hours(10, fickle).work + 0.5


def test_egress_is_taken_off_what_work_saves() -> None:
    far = Source(1.0, 4.0, 5 * HOUR, HOUR, 0.8, 4.0)
    assert hours(60, far).work < hours(60, source()).work


sources = st.builds(
    Source,
    price=st.floats(0.1, 4),
    egress=st.sampled_from([0.0, 1.0]),
    life=st.floats(60, 2e5),
    outage=st.floats(60, 2e5),
    chance=st.floats(0.01, 0.99),
    spells=st.floats(1, 9),
)


@given(
    st.lists(sources, max_size=5),
    st.floats(0, 100),
    st.floats(0, 100),
    st.floats(0.1, 100),
    st.just(0.0) | st.floats(0.01, 2),
)
def test_the_more_slack_the_less_an_hour_of_it_is_worth_and_the_more_an_hour_of_work(
    offered: list[Source], one: float, other: float, work: float, restart: float
) -> None:
    little, much = (hours(slack, *offered, work=work, restart=restart) for slack in sorted((one, other)))
    assert little.slack >= much.slack - 1e-6 * little.slack
    assert little.work <= much.work + 1e-6
    assert much.slack >= 0
    assert 0 <= much.work + 1e-9 <= ON_DEMAND


@pytest.mark.parametrize("restart", [0.0, 30.0])
def test_restarts_of_no_time_and_longer_than_the_spells_are_no_fault(restart: float) -> None:
    found = hours(3, source(life=0.1), restart=restart)
    assert found.slack >= 0
