"""A running job with a deadline whose own offer is no longer listed, or has no price that it would pay."""

from __future__ import annotations

from datetime import timedelta

import pytest

from policies.deciding import decide
from policies.model import Launch, Placement, Stay, Stop
from policies.rule import Rule
from providers.vocabulary import Offer
from tests.policies.offers import NOW, StillMarket, job, offer, on_demand

OTHER = on_demand("us-1b", 3.0)


def decided(here: Offer, *listed: Offer, slack: float, **more: object) -> object:
    one = job(10, slack, placement=Placement(here.key), ran=timedelta(hours=5), **more)
    return decide(Rule(), one, StillMarket(listed), NOW)


@pytest.mark.parametrize("slack", [5.0, 0.001, -1.0])
@pytest.mark.parametrize("money", [None, 1000.0])
@pytest.mark.parametrize("here", [on_demand("us-1a", None), offer("us-1a", None)], ids=str)
def test_a_job_is_not_stopped_because_the_price_of_what_it_runs_on_is_not_known(
    here: Offer, slack: float, money: float | None
) -> None:
    assert isinstance(decided(here, here, slack=slack, money_left=money), Stay)


@pytest.mark.parametrize("slack", [5.0, 0.001, -1.0])
def test_a_job_without_a_cap_is_not_stopped_because_its_spot_price_passed_max_price(slack: float) -> None:
    here = offer("us-1a", 9.0)
    assert isinstance(decided(here, here, slack=slack, max_price=5.0), Stay)


@pytest.mark.parametrize("slack", [5.0, 0.001, -1.0])
@pytest.mark.parametrize("price", [None, 9.0])
def test_a_job_on_on_demand_is_not_moved_because_its_price_is_not_known_or_rose(
    slack: float, price: float | None
) -> None:
    here = on_demand("us-1a", price)
    assert isinstance(decided(here, here, OTHER, slack=slack, max_price=5.0), Stay)


def test_a_job_on_on_demand_that_is_no_longer_listed_is_left_alone() -> None:
    assert isinstance(decided(on_demand("us-1a", 3.0), OTHER, slack=0.001), Stay)


def test_a_job_on_spot_that_is_no_longer_listed_goes_to_on_demand_in_time() -> None:
    assert isinstance(decided(offer("us-1a", 1.0), OTHER, slack=0.001), Launch)


def test_a_job_whose_cap_pays_for_no_step_of_anything_is_stopped() -> None:
    here = offer("us-1a", 1.0)
    assert isinstance(decided(here, here, OTHER, slack=5.0, money_left=0.001), Stop)
