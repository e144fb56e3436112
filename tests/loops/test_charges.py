"""What is booked agrees with what the clouds bill: from running to the start of the end."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlmodel import select

from providers.errors import ErrorKind, ProviderError
from service.attempts.model import Charge
from service.states import InstanceState, JobState
from tests.loops.bench import Bench
from tests.loops.test_main_job import preempt

NEAR = timedelta(seconds=4)


def charge(bench: Bench) -> Charge:
    (made,) = bench.database.read(lambda session: list(session.exec(select(Charge)).all()))
    return made


def ended(bench: Bench) -> datetime:
    """When the only instance began to end, by the cloud."""
    ((machine,),) = [one.created for one in bench.clouds.values() if one.created]
    assert machine.stopping_at is not None
    return machine.stopping_at


def lasting(bench: Bench) -> str:
    for one in bench.clouds.values():
        one.terminate_seconds = 300
    job_id = bench.submit_job(retry={"preempted": 0})
    bench.run_until(job_id, JobState.RUNNING)
    return job_id


def test_a_charge_starts_when_the_instance_runs(bench: Bench) -> None:
    lasting(bench)
    machine = bench.clouds["aws"].created[0]
    assert abs(charge(bench).starts - machine.running_at) <= NEAR


def test_a_charge_ends_when_the_end_was_accepted_not_when_it_is_proved(bench: Bench) -> None:
    job_id = lasting(bench)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    bench.turn()
    assert charge(bench).ends is None, "not proved yet"
    bench.pass_time(400)
    assert bench.instances(InstanceState.TERMINATED)
    booked = charge(bench).ends
    assert booked is not None
    assert abs(booked - ended(bench)) <= NEAR


def test_an_end_that_the_cloud_refuses_is_billed_on(bench: Bench) -> None:
    job_id = lasting(bench)
    bench.clouds["aws"].fail("terminate", ProviderError(ErrorKind.TRANSIENT, "later"), times=10)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    asked = bench.clock.now()
    bench.pass_time(900)
    booked = charge(bench).ends
    assert booked is not None
    assert booked - asked > timedelta(seconds=30)
    assert abs(booked - ended(bench)) <= NEAR


@pytest.mark.parametrize("notice", [0, 90])
def test_what_the_cloud_takes_back_is_charged_until_it_does(bench: Bench, notice: int) -> None:
    job_id = lasting(bench)
    node = preempt(bench, job_id, notice=notice)
    if notice:
        bench.notice(node, notice)
    for _ in range(60):
        bench.clock.advance(10)
        bench.turn()
    booked = charge(bench).ends
    assert booked is not None
    late = timedelta(seconds=0 if notice else 31)  # without a notice the next look at it finds out
    assert abs(booked - ended(bench)) <= NEAR + late


def test_a_clock_that_is_set_back_makes_no_negative_charge(bench: Bench) -> None:
    job_id = lasting(bench)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    bench.clock.jump(-3600)
    for _ in range(80):
        bench.wakes.add("lifecycle")
        bench.clock.advance(10)
        bench.turn()
    booked = charge(bench)
    assert booked.ends is not None
    assert booked.ends >= booked.starts


def test_a_booting_instance_is_asked_about_every_few_seconds(bench: Bench) -> None:
    """Though nothing else wakes anybody."""
    bench.submit_job()
    bench.turn()
    asked: list[datetime] = []
    provider = bench.ctx.providers["memory", "aws"]
    describe = provider.describe

    def noted(refs: object) -> object:
        asked.append(bench.clock.now())
        return describe(refs)  # type: ignore[arg-type]

    provider.describe = noted  # type: ignore[assignment, method-assign]
    bench.pass_time(14)
    assert len(asked) >= 4


def test_spot_is_charged_at_the_price_in_force(bench: Bench) -> None:
    lasting(bench)
    first = charge(bench)
    for price in (12.0, None, 12.0):
        cloud = bench.clouds["aws"]
        cloud.market.set_price(bench.live_attempt(first.job_id).offer_key, price)
        bench.pass_time(600)
    spans = bench.database.read(lambda session: list(session.exec(select(Charge)).all()))
    before, after = sorted(spans, key=lambda span: span.starts)
    assert (before.price_micros, after.price_micros) == (10_000_000, 12_000_000)
    assert before.ends == after.starts
    assert after.ends is None, "an unknown price changes nothing"
