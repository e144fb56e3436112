"""Waiting: nobody storms an empty zone, everybody starts as soon as it is worth it, in order."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from sqlmodel import Session

from policies.deciding import explain
from policies.model import Reason
from policies.rule import Rule
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, Scope
from service.jobs.model import Job
from service.jobs.progress import Progress
from service.jobs.view import policy_job
from service.market.blocks import heed_signal
from service.market.snapshot import snapshot
from service.states import AttemptState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench


@pytest.fixture
def dry(make_bench: MakeBench, clock: FakeClock) -> Bench:
    """Two clouds without stock."""
    return make_bench(
        aws=cloud(clock, offer("aws", 10.0), capacity=0), gcp=cloud(clock, offer("gcp", 11.0), capacity=0)
    )


def launches(bench: Bench, account: str) -> list[datetime]:
    return [call.at for call in bench.clouds[account].launches]


def test_out_of_stock_everywhere_the_job_waits_and_explains_each_candidate(dry: Bench) -> None:
    job_id = dry.submit_job()
    dry.turn()
    job, now = dry.job(job_id), dry.clock.now()
    assert job.state is JobState.QUEUED
    market = dry.database.read(lambda session: snapshot(session, now))
    candidates = explain(Rule(), policy_job(job, dry.settings, Progress(timedelta(0))), market, now)
    assert [(c.offer.key.account, c.reason) for c in candidates] == [
        ("aws", Reason.BLOCKED),
        ("gcp", Reason.BLOCKED),
    ]
    for candidate in candidates:
        assert candidate.since == now
        assert candidate.until is not None
        assert timedelta(minutes=3) <= candidate.until - now <= timedelta(minutes=3.3)
        assert "capacity" in candidate.detail


def test_however_many_jobs_wait_one_create_is_sent_per_scope_and_lifetime(dry: Bench) -> None:
    jobs = [dry.submit_job(f"job-{n}") for n in range(25)]
    dry.pass_time(3600)
    for account in ("aws", "gcp"):
        sent = launches(dry, account)
        gaps = [(b - a).total_seconds() for a, b in pairwise(sent)]
        lifetimes = [min(180 * 2**n, 1800) for n in range(len(gaps))]
        assert len(sent) >= 4
        for gap, lifetime in zip(gaps, lifetimes, strict=True):
            assert lifetime <= gap <= lifetime * 1.1 + 5, (gap, lifetime)
    assert {dry.job(job_id).state for job_id in jobs} == {JobState.QUEUED}


def test_a_job_starts_within_two_seconds_of_the_end_of_its_block(dry: Bench) -> None:
    job_id = dry.submit_job()
    dry.turn()
    dry.clouds["aws"].set_capacity(offer("aws", 10.0).key, 1)
    while not dry.live_attempts(job_id):
        dry.clock.advance(1)
        dry.turn()
    waited = dry.live_attempt(job_id).planned_at - dry.job(job_id).submitted_at
    assert timedelta(minutes=3) <= waited <= timedelta(minutes=3.3, seconds=2)


def test_a_success_in_the_same_scope_starts_the_others_at_once(dry: Bench) -> None:
    jobs = [dry.submit_job(f"job-{n}") for n in range(6)]
    dry.turn()
    dry.clouds["aws"].set_capacity(offer("aws", 10.0).key, None)
    while not any(dry.live_attempts(job_id) for job_id in jobs):
        dry.clock.advance(1)
        dry.turn()
    before = dry.clock.now()
    dry.turn()
    assert all(dry.live_attempts(job_id) for job_id in jobs)
    assert dry.clock.now() - before <= timedelta(seconds=2)


def test_a_vendors_signal_ends_a_first_block_at_once_but_not_a_repeated_one(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    first, second = offer("aws", 10.0), offer("aws", 11.0, zone="b")
    bench = make_bench(aws=cloud(clock, first, second, capacity=0))
    job_id = bench.submit_job()
    bench.turn()
    refused = ProviderError(
        ErrorKind.CAPACITY,
        "none here",
        scope=Scope(zone="aws-1b", instance_type="gpu-8", capacity_type=CapacityType.SPOT),
        available=(Scope(zone="aws-1a", instance_type="gpu-8", capacity_type=CapacityType.SPOT),),
    )
    later = bench.submit_job("later")
    bench.clouds["aws"].fail("launch", refused, times=None, scope=Scope(zone="aws-1b"))
    bench.pass_time(1800)
    tried = [call.request.offer.zone for call in bench.clouds["aws"].launches]
    assert bench.job(job_id).state is bench.job(later).state is JobState.QUEUED
    assert tried.count("aws-1a") <= 6, "two zones that name each other are not asked in turn without end"
    bench.clouds["aws"].set_capacity(first.key, 2)
    bench.pass_time(2000)
    assert bench.job(job_id).state is JobState.RUNNING


def test_a_vendors_signal_starts_a_waiting_job(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), capacity=0))
    job_id = bench.submit_job()
    bench.turn()
    bench.clouds["aws"].set_capacity(offer("aws", 10.0).key, 1)
    clock.advance(30)
    bench.turn()
    assert not bench.live_attempts(job_id)
    said = Scope("memory", "aws", "aws-1", "aws-1a", "gpu-8", capacity_type=CapacityType.SPOT)
    bench.database.write(lambda session: heed_signal(session, said, now=clock.now()))
    bench.ctx.wake("scheduler")
    bench.turn()
    assert bench.live_attempt(job_id).planned_at == clock.now()


def test_many_jobs_at_once_do_not_storm_a_zone_that_turns_out_empty(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), capacity=0))
    for n in range(50):
        bench.submit_job(f"job-{n}")
    bench.turn()
    assert len(launches(bench, "aws")) == 1


def test_many_jobs_at_once_all_start_where_there_is_stock(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    jobs = [bench.submit_job(f"job-{n}") for n in range(50)]
    bench.turn()
    assert all(bench.live_attempt(job_id).state is AttemptState.BOOTING for job_id in jobs)


def test_freed_capacity_goes_by_priority_then_age(dry: Bench) -> None:
    plain = []
    for n in range(3):
        plain.append(dry.submit_job(f"plain-{n}"))
        dry.clock.advance(1)
    urgent = dry.submit_job("urgent", priority=10)
    dry.turn()
    for one in ("aws", "gcp"):
        dry.clouds[one].set_capacity(offer(one, 1.0).key, 1)
    dry.pass_time(400)
    started = {job_id for job_id in (*plain, urgent) if dry.live_attempts(job_id)}
    assert started == {urgent, plain[0]}


def test_a_job_that_cannot_be_placed_holds_up_nobody(bench: Bench) -> None:
    bench.submit_job("huge", priority=100, resources={"gpu": {"name": ["H100"], "count": 16}})
    small = bench.submit_job("small")
    bench.turn()
    assert bench.live_attempt(small).state is AttemptState.BOOTING


def test_a_job_that_we_cannot_make_sense_of_holds_up_nobody(bench: Bench) -> None:
    odd = bench.submit_job("odd", priority=100)

    def spoil(session: Session) -> None:
        row = session.get_one(Job, odd)
        row.spec = {"name": "written by another version"}
        session.add(row)

    bench.database.write(spoil)
    plain = bench.submit_job("plain")
    bench.turn()
    assert bench.live_attempt(plain).state is AttemptState.BOOTING
    assert bench.job(odd).state is JobState.QUEUED


def test_spot_wait_is_kept_and_then_on_demand_is_taken(make_bench: MakeBench, clock: FakeClock) -> None:
    spot = offer("aws", 10.0)
    on_demand = offer("aws", 30.0, capacity_type=CapacityType.ON_DEMAND)
    aws = cloud(clock, spot, capacity=0)
    aws.sell(on_demand)
    bench = make_bench(aws=aws)
    patient = bench.submit_job("patient", spot={"use": "auto", "wait_seconds": 900})
    only = bench.submit_job("only", spot={"use": "only"})
    never = bench.submit_job("never", spot={"use": "never"})
    bench.turn()
    assert bench.live_attempt(never).capacity_type is CapacityType.ON_DEMAND
    bench.pass_time(890)
    assert not bench.live_attempts(patient)
    bench.pass_time(20)
    assert bench.live_attempt(patient).capacity_type is CapacityType.ON_DEMAND
    assert not bench.live_attempts(only)


def test_allow_and_deny_are_kept(bench: Bench) -> None:
    denied = bench.submit_job("denied", deny=["memory/aws-1"])
    allowed = bench.submit_job("allowed", allow=["memory/azure-1"])
    bench.turn()
    assert bench.live_attempt(denied).account == "gcp"
    assert bench.live_attempt(allowed).account == "azure"


def test_a_misspelt_image_keeps_nobody_else_waiting(bench: Bench) -> None:
    missing = ProviderError(
        ErrorKind.IMAGE_MISSING,
        "no such image",
        scope=Scope(region="aws-1", image="ami-typo"),
        code="NotFound",
    )
    bench.clouds["aws"].fail("prepare", missing, times=1)
    wrong = bench.submit_job("wrong", image="ami-typo")
    bench.turn()
    right = bench.submit_job("right")
    bench.turn()
    assert [a.account for a in bench.attempts(wrong)] == ["aws", "gcp"]
    assert bench.live_attempt(right).account == "aws"


def test_limits_max_instances_is_never_passed(bench: Bench) -> None:
    limits = bench.settings.limits.model_copy(update={"max_instances": 2})
    bench.ctx.settings = bench.settings.model_copy(update={"limits": limits})
    jobs = [bench.submit_job(f"job-{n}") for n in range(4)]
    bench.pass_time(60)
    assert len(bench.alive()) == 2
    waiting = [bench.job(job_id) for job_id in jobs if not bench.live_attempts(job_id)]
    assert len(waiting) == 2
    assert all("max_instances" in job.decision["why"] for job in waiting)
