"""One job from submission to its end, and what it leaves behind."""

from __future__ import annotations

from datetime import timedelta

from prometheus_client import REGISTRY

from service.instances.model import Instance
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench

HOW = {"provider": "memory", "capacity_type": "spot"}


def test_a_job_runs_on_the_cheapest_offer_and_leaves_nothing_behind(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    attempt = bench.live_attempt(job_id)
    assert attempt.account == "aws"
    (node,) = bench.nodes(attempt)
    bench.exit(node, 0)
    assert bench.run_until(job_id, JobState.SUCCEEDED).reason == "succeeded"
    bench.pass_time(120)
    assert bench.alive() == []
    assert bench.instances(InstanceState.RUNNING, InstanceState.TERMINATING) == []


def test_when_the_cheapest_is_out_of_stock_the_next_is_tried_at_once(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    def launches() -> tuple[float, float]:
        names = ({"result": "capacity"}, {"result": "accepted"})
        counted = [REGISTRY.get_sample_value("corral_launches_total", {**HOW, **name}) for name in names]
        return counted[0] or 0, counted[1] or 0

    empty = cloud(clock, offer("aws", 10.0), capacity=0)
    bench = make_bench(aws=empty, gcp=cloud(clock, offer("gcp", 11.0)))
    refused, accepted = launches()
    job_id = bench.submit_job()
    bench.turn()
    first, second = bench.attempts(job_id)
    assert launches() == (refused + 1, accepted + 1)
    assert (first.account, first.reason, first.error_kind) == ("aws", "refused", "capacity")
    assert (second.account, second.state) == ("gcp", AttemptState.BOOTING)
    assert clock.now() == first.planned_at


def test_a_failing_job_is_not_tried_again_unless_its_spec_says_so(bench: Bench) -> None:
    job_id = bench.submit_job()
    other = bench.submit_job("again", retry={"failed": 1})
    for one in (job_id, other):
        bench.run_until(one, JobState.RUNNING)
        (node,) = bench.nodes(bench.live_attempt(one))
        bench.exit(node, 3)
    bench.pass_time(120)
    assert (bench.job(job_id).state, bench.job(job_id).reason) == (JobState.FAILED, "failed")
    assert "exit code 3" in (bench.job(job_id).detail or "")
    assert bench.job(other).state is JobState.RUNNING
    assert len(bench.attempts(other)) == 2


def test_max_duration_ends_a_job_and_is_counted_over_all_its_attempts(bench: Bench) -> None:
    job_id = bench.submit_job(max_duration_seconds=600)
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(300)
    preempt(bench, job_id)
    bench.run_until(job_id, JobState.FAILED, within=1000)
    job = bench.job(job_id)
    assert job.reason == "max_duration"
    ran = sum(
        (a.ended_at - a.running_at for a in bench.attempts(job_id) if a.ended_at and a.running_at),
        timedelta(),
    )
    assert timedelta(seconds=600) <= ran <= timedelta(seconds=680)


def test_max_price_keeps_a_job_off_dearer_offers(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)), gcp=cloud(clock, offer("gcp", None)))
    job_id = bench.submit_job(max_price=9.5)
    bench.pass_time(120)
    job = bench.job(job_id)
    assert job.state is JobState.QUEUED
    assert job.decision["counts"] == {"price_too_high": 1, "price_unknown": 1}
    assert all(not cloud.launches for cloud in bench.clouds.values())


def preempt(bench: Bench, job_id: str, notice: float = 0) -> Instance:
    """The cloud takes the job's instance back."""
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.clouds[node.account].preempt(node.provider_id or "", notice_seconds=notice)
    return node
