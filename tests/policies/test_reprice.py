"""A log is enough to price a run again, by code that shares nothing with the replay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from policies.backtest.figures import document
from policies.backtest.policies import NAMES, run
from policies.backtest.problem import parse
from policies.backtest.reprice import FalseLogError, reprice
from tests.policies.markets import market, markets, zone


@pytest.mark.parametrize("policy", NAMES)
@settings(max_examples=25, deadline=None)
@given(problem=markets())
def test_every_policy_is_on_time_and_its_log_prices_to_the_cent(policy: str, problem: dict[str, Any]) -> None:
    told = document(run(parse(problem), policy), policy, log=True)
    again = reprice(problem, told["log"])
    assert again == pytest.approx({key: told[key] for key in again}, abs=0.005)
    assert told["met_deadline"]


LOG = [
    {"tick": 0, "probes": [], "tries": [0], "mode": "spot", "zone": 0, "launched": True},
    {"tick": 1, "probes": [], "tries": [], "mode": "spot", "zone": 0, "launched": False},
    {"tick": 2, "probes": [], "tries": [0], "mode": "idle", "zone": None, "launched": False},
]


def test_a_log_by_hand() -> None:
    told = reprice(market(zone("##.", spot=3.0), work=2), LOG[:2])
    assert (told["cost"], told["finish_seconds"], told["met_deadline"]) == (1.0, 1200, True)


@pytest.mark.parametrize(
    ("tick", "change"),
    [
        (0, {"launched": False}),
        (0, {"tries": []}),
        (1, {"tick": 5}),
        (1, {"mode": "on_demand"}),
        (1, {"zone": None}),
        (2, {"mode": "spot", "zone": 0, "launched": True}),
        (2, {"launched": True}),
    ],
)
def test_a_log_of_what_could_not_have_been_is_refused(tick: int, change: dict[str, Any]) -> None:
    false = [{**entry, **change} if entry["tick"] == tick else entry for entry in LOG]
    with pytest.raises(FalseLogError):
        reprice(market(zone("##."), work=3), false)


def test_a_log_that_goes_on_after_the_work_is_done_is_refused() -> None:
    with pytest.raises(FalseLogError, match="done before"):
        reprice(market(zone("##."), work=1), LOG)
