"""The scheduler does what policies decide: moves, stops, and raises the alarm about a deadline."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import Session

from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType
from service.attempts.model import Attempt
from service.jobs.repository import costs_usd
from service.settings import Settings
from service.states import AttemptState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench

ON_DEMAND = CapacityType.ON_DEMAND
SPOT = offer("gcp", 10.0)
CHECKPOINT = {"path": "/ckpt", "to": "storage"}
QUICK: dict[str, Any] = {"policy": "exploration", "min_dwell": 600, "hold": 120}


def configure(bench: Bench, **settings: Any) -> None:
    given = {"routes": [QUICK], **settings}
    bench.settings = Settings.model_validate({"times": {"boot": 600}, **given})
    bench.ctx.settings = bench.settings


@pytest.fixture
def two(make_bench: MakeBench, clock: FakeClock) -> Bench:
    """On-demand at aws, spot at gcp for a tenth, at first without stock."""
    made = make_bench(
        aws=cloud(clock, offer("aws", 100.0, capacity_type=ON_DEMAND)),
        gcp=cloud(clock, SPOT, capacity=0),
    )
    configure(made)
    return made


def long_job(bench: Bench, **fields: Any) -> str:
    job_id = bench.submit_job(**{"duration_seconds": 72 * 3600, "checkpoint": CHECKPOINT, **fields})
    bench.run_until(job_id, JobState.RUNNING)
    return job_id


def made(bench: Bench, job_id: str) -> list[Attempt]:
    """The job's attempts that got capacity: spot is asked for first, and refused."""
    return [attempt for attempt in bench.attempts(job_id) if attempt.reason != "refused"]


def restock(bench: Bench) -> None:
    bench.clouds["gcp"].set_capacity(SPOT.key, None)


def test_a_job_on_on_demand_moves_to_spot_when_that_pays(two: Bench) -> None:
    job_id = long_job(two)
    assert two.live_attempt(job_id).capacity_type is ON_DEMAND
    restock(two)
    two.pass_time(3600)
    old, new = made(two, job_id)
    assert (old.reason, old.drain_reason) == ("moved", "moved")
    assert (new.account, new.state, new.replaces) == ("gcp", AttemptState.RUNNING, old.id)
    assert two.job(job_id).state is JobState.RUNNING
    assert len(two.alive()) == 1
    assert two.job(job_id).retries_used == {}, "a move uses up no try"


def test_PLA_04_the_old_instance_runs_on_until_its_replacement_is_ready(two: Bench) -> None:
    job_id = long_job(two)
    restock(two)
    while len(two.live_attempts(job_id)) < 2:
        two.pass_time(5)
    old, new = made(two, job_id)
    assert new.state in (AttemptState.PLANNED, AttemptState.LAUNCHING, AttemptState.BOOTING)
    assert old.state is AttemptState.RUNNING
    assert two.job(job_id).epoch == old.epoch
    while made(two, job_id)[0].state is AttemptState.RUNNING:
        assert two.job(job_id).epoch == old.epoch
        two.pass_time(5)
    ready = made(two, job_id)[1]
    assert ready.may_start_at is None or made(two, job_id)[0].ended_at is not None


@pytest.mark.parametrize(("how", "seconds"), [("refused", 1000), ("never boots", 1500)])
def test_PLA_04_if_the_replacement_fails_the_old_attempt_goes_on(
    two: Bench, how: str, seconds: float
) -> None:
    job_id = long_job(two)
    restock(two)
    if how == "refused":
        two.clouds["gcp"].fail("launch", ProviderError(ErrorKind.CAPACITY, "no capacity"), times=1)
    else:
        two.clouds["gcp"].boot_seconds = 10_000
    two.pass_time(seconds)
    assert made(two, job_id)[0].state is AttemptState.RUNNING
    vain = [attempt.reason for attempt in two.attempts(job_id) if attempt.replaces]
    assert vain[0] == ("refused" if how == "refused" else "boot_failed")
    assert two.job(job_id).state is JobState.RUNNING
    assert two.job(job_id).retries_used == {}


def test_LIF_10_replacements_that_never_get_ready_are_one_at_a_time_and_few(two: Bench) -> None:
    job_id = long_job(two)
    restock(two)
    two.clouds["gcp"].boot_seconds = 100_000
    for _ in range(100):
        two.pass_time(120)
        assert len(two.alive()) <= 2
        assert len(two.live_attempts(job_id)) <= 2
    vain = [
        attempt for attempt in two.attempts(job_id) if attempt.replaces and attempt.reason == "boot_failed"
    ]
    assert 1 <= len(vain) <= 2, "after some moves that came to nothing the job is left where it is"
    assert made(two, job_id)[0].state is AttemptState.RUNNING
    assert len(two.alive()) == 1


def test_a_preemption_while_a_move_is_under_way_makes_the_move_the_replacement(two: Bench) -> None:
    configure(two, routes=[{**QUICK, "capacity_types": ["spot", "on_demand"]}])
    job_id = long_job(two)
    restock(two)
    while len(two.live_attempts(job_id)) < 2:
        two.pass_time(5)
    preempt_first(two, job_id)
    two.run_until(job_id, JobState.RUNNING)
    two.pass_time(300)
    assert [a.account for a in made(two, job_id)] == ["aws", "gcp"]
    assert two.live_attempt(job_id).account == "gcp"


def preempt_first(bench: Bench, job_id: str) -> None:
    (node,) = bench.nodes(made(bench, job_id)[0])
    bench.clouds[node.account].kill(node.provider_id or "")


def test_no_move_without_a_checkpoint(two: Bench) -> None:
    job_id = long_job(two, checkpoint=None, duration_seconds=3 * 3600)
    restock(two)
    two.pass_time(3600)
    assert len(made(two, job_id)) == 1


def test_no_move_near_the_end(two: Bench) -> None:
    job_id = long_job(two, duration_seconds=900)
    restock(two)
    two.pass_time(1200)
    assert len(made(two, job_id)) == 1


def test_PLA_03_prices_that_cross_every_minute_move_nobody(make_bench: MakeBench, clock: FakeClock) -> None:
    here, there = offer("aws", 10.0), offer("gcp", 10.1)
    bench = make_bench(aws=cloud(clock, here), gcp=cloud(clock, there))
    configure(bench)
    job_id = long_job(bench)
    for minute in range(90):
        bench.clouds["gcp"].market.set_price(there.key, 9.9 if minute % 2 else 10.1)
        bench.pass_time(60)
    assert len(made(bench, job_id)) == 1


def test_PLA_03_no_two_moves_within_the_minimum_dwell_and_the_log_says_so(two: Bench) -> None:
    configure(two, routes=[{**QUICK, "min_dwell": 7200}])
    job_id = long_job(two)
    restock(two)
    two.pass_time(3600)
    assert len(made(two, job_id)) == 1
    (told,) = two.events("job_stays")
    assert "it has run for less than 120 min" in told.message
    two.pass_time(4500)
    assert made(two, job_id)[0].reason == "moved"


def test_a_job_with_a_cap_is_stopped_before_the_cap_is_passed(two: Bench) -> None:
    job_id = long_job(two, max_cost=50.0)
    two.run_until(job_id, JobState.FAILED, within=3600)
    two.pass_time(300)
    assert two.job(job_id).reason == "max_cost"
    assert two.alive() == []
    assert 40 <= spent(two, job_id) <= 50


def spent(bench: Bench, job_id: str) -> float:
    def read(session: Session) -> float:
        return costs_usd(session, [job_id], bench.clock.now())[job_id]

    return bench.database.read(read)


def test_a_job_whose_cap_pays_for_no_start_fails_with_that_reason(two: Bench) -> None:
    job_id = two.submit_job(max_cost=0.5)
    two.run_until(job_id, JobState.FAILED)
    assert two.job(job_id).reason == "max_cost"
    assert made(two, job_id) == []


def test_a_cap_stops_a_job_that_is_still_booting(two: Bench) -> None:
    two.agents = lambda: None  # type: ignore[method-assign]
    job_id = two.submit_job(max_cost=12.0)
    two.run_until(job_id, JobState.FAILED, within=1200)
    two.pass_time(300)
    assert (two.job(job_id).reason, two.alive()) == ("max_cost", [])
    assert spent(two, job_id) <= 12.0


def test_a_deadline_that_on_demand_cannot_meet_is_at_risk_at_once(two: Bench) -> None:
    job_id = two.submit_job(
        duration_seconds=7200, deadline=two.clock.now() + timedelta(hours=1), checkpoint=CHECKPOINT
    )
    two.turn()
    assert two.job(job_id).deadline_at_risk
    assert len(two.events("deadline_at_risk")) == 1
    two.pass_time(600)
    assert len(two.events("deadline_at_risk")) == 1, "said once"


def test_where_cap_and_deadline_cannot_both_hold_the_cap_wins_and_the_risk_is_told(two: Bench) -> None:
    two.clouds["gcp"].set_capacity(SPOT.key, None)
    job_id = two.submit_job(
        duration_seconds=3600,
        deadline=two.clock.now() + timedelta(hours=3),
        max_cost=20.0,
        checkpoint=CHECKPOINT,
    )
    two.turn()
    assert two.job(job_id).deadline_at_risk
    two.run_until(job_id, JobState.RUNNING)
    assert two.live_attempt(job_id).account == "gcp"
    two.pass_time(2 * 3600)
    assert spent(two, job_id) <= 20.0


def test_a_job_with_slack_waits_for_spot_and_takes_on_demand_in_time(two: Bench) -> None:
    job_id = two.submit_job(
        duration_seconds=3600, deadline=two.clock.now() + timedelta(hours=3), checkpoint=CHECKPOINT
    )
    two.pass_time(600)
    assert two.attempts(job_id)[-1].account == "gcp", "only spot is tried"
    two.run_until(job_id, JobState.RUNNING, within=3 * 3600)
    two.pass_time(120)
    attempt = two.live_attempt(job_id)
    assert attempt.account == "aws"
    deadline = two.job(job_id).deadline
    assert attempt.running_at is not None
    assert deadline is not None
    assert attempt.running_at + timedelta(hours=1) <= deadline


def test_core_is_never_put_on_spot_unless_its_rule_says_so(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 100.0, capacity_type=ON_DEMAND)), gcp=cloud(clock, SPOT))
    first = bench.submit_job("a", **{"class": "core"})
    bench.turn()
    configure(bench, routes=[{"policy": "core", "capacity_types": ["reserved", "spot"]}])
    second = bench.submit_job("b", **{"class": "core"})
    bench.turn()
    assert [a.account for a in bench.attempts(first)] == ["aws"]
    assert [a.account for a in bench.attempts(second)] == ["gcp"]
