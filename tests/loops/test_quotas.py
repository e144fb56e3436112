"""Quotas: what is known to be too small is not tried, the unknown is, a limit that moves starts jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from policies.deciding import explain
from policies.model import Reason
from policies.rule import Rule
from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryCloud
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Scope
from service.jobs.progress import Progress
from service.jobs.view import policy_job
from service.market.snapshot import snapshot
from service.quotas.headroom import Drawn, Headroom
from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import cloud, offer
from tests.loops.conftest import MakeBench

SPOT = CapacityType.SPOT


def limited(clock: FakeClock, vcpus: int) -> MemoryCloud:
    """A cloud with stock and a quota of so many vCPUs; a node has 96."""
    made = cloud(clock, offer("aws", 10.0))
    made.market.set_quota("aws-1", "H100", SPOT, vcpus)
    return made


def test_an_offer_whose_quota_is_known_to_be_too_small_is_not_tried(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=limited(clock, 95), gcp=cloud(clock, offer("gcp", 11.0)))
    job_id = bench.submit_job()
    bench.turn()
    assert bench.live_attempt(job_id).account == "gcp"
    assert bench.clouds["aws"].launches == []


def test_the_explanation_says_what_would_help(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=limited(clock, 64))
    job_id = bench.submit_job()
    bench.turn()
    job, now = bench.job(job_id), clock.now()
    market = bench.database.read(lambda session: snapshot(session, now))
    asked = policy_job(job, bench.settings, Progress(timedelta(0)))
    (candidate,) = explain(Rule(), asked, market, now)
    assert candidate.reason is Reason.BLOCKED
    assert "64 of 64 vCPU free, 96 needed; 32 more in aws-1 would do" in candidate.detail


def test_what_is_under_way_counts_so_that_no_snapshot_can_oversell(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=limited(clock, 2 * 96))
    jobs = [bench.submit_job(f"job-{n}") for n in range(5)]
    bench.pass_time(300)
    assert len(bench.clouds["aws"].launches) == 2, "no launch was sent that had to be refused"
    assert [bench.job(job_id).state for job_id in jobs].count(JobState.RUNNING) == 2


def test_a_limit_that_moves_starts_the_jobs_that_waited_for_it(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=limited(clock, 0))
    job_id = bench.submit_job()
    bench.pass_time(1500)
    assert bench.attempts(job_id) == []
    bench.clouds["aws"].market.set_quota("aws-1", "H100", SPOT, 96)
    bench.pass_time(bench.settings.times.poll_quotas * 1.1 + 60)
    assert bench.live_attempt(job_id).account == "aws"
    assert len(bench.events("quota_moved")) == 1


def test_what_cannot_be_read_refuses_nothing(make_bench: MakeBench, clock: FakeClock) -> None:
    aws = limited(clock, 0)
    aws.fail("quotas", ProviderError(ErrorKind.AUTH, "not allowed"), times=None)
    aws.market.set_quota("aws-1", "H100", SPOT, None)
    bench = make_bench(aws=aws)
    job_id = bench.submit_job()
    bench.turn()
    assert bench.live_attempt(job_id).account == "aws"


def test_a_refusal_for_quota_has_the_quotas_read_again_at_once(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    aws = limited(clock, 96)
    bench = make_bench(aws=aws)
    aws.market.set_quota("aws-1", "H100", SPOT, 0)
    job_id = bench.submit_job()
    bench.turn()
    assert bench.attempts(job_id)[0].error_kind == "quota"
    assert [event.at for event in bench.events("quota_moved")] == [clock.now()]


NOW = FakeClock().now()
A_QUOTA = Quota(
    "q", "H100 spot", "aws-1", QuotaUnit.VCPU, 192, 96, (Scope(family="H100"),), FakeClock().now()
)


@pytest.mark.parametrize(
    "unknown",
    [
        replace(A_QUOTA, limit=None),
        replace(A_QUOTA, usage=None),
        replace(A_QUOTA, read_at=NOW - timedelta(hours=2)),
    ],
    ids=["limit", "usage", "old"],
)
def test_unknown_is_never_zero(unknown: Quota) -> None:
    assert Headroom([unknown], [], NOW).shortage(offer("aws", 1.0), 100) is None


def test_a_limit_of_zero_leaves_nothing_whatever_its_usage() -> None:
    nothing = replace(A_QUOTA, limit=0, usage=None)
    assert Headroom([nothing], [], NOW).shortage(offer("aws", 1.0), 1) is not None


def test_each_unit_counts_its_own_thing() -> None:
    for unit, limit in ((QuotaUnit.VCPU, 96 * 2), (QuotaUnit.GPU, 8 * 2), (QuotaUnit.INSTANCE, 2)):
        room = Headroom([replace(A_QUOTA, unit=unit, limit=limit, usage=0)], [], NOW)
        assert room.shortage(offer("aws", 1.0), 2) is None
        short = room.shortage(offer("aws", 1.0), 3)
        assert short is not None
        assert short.missing * 2 == limit


def test_a_launch_after_the_reading_is_taken_off_and_one_before_it_is_not() -> None:
    one = offer("aws", 1.0)
    after, before = Drawn(one, NOW + timedelta(seconds=5)), Drawn(one, NOW - timedelta(minutes=10))
    assert Headroom([A_QUOTA], [before], NOW).shortage(one, 1) is None
    assert Headroom([A_QUOTA], [after], NOW).shortage(one, 1) is not None


def test_a_quota_in_gpus_does_not_gate_what_has_none() -> None:
    cpu = offer("aws", 1.0, type_=InstanceType("cpu", "H100", 8, 32))
    gpu = offer("aws", 1.0, type_=InstanceType("gpu", "H100", 8, 32, Accelerator("L4", 1, 24)))
    room = Headroom([replace(A_QUOTA, unit=QuotaUnit.GPU, limit=0, usage=0)], [], NOW)
    assert room.shortage(cpu, 1) is None
    assert room.shortage(gpu, 1) is not None


def test_the_largest_shortage_is_named() -> None:
    small = replace(A_QUOTA, key="small", name="small", limit=100, usage=0)
    smaller = replace(A_QUOTA, key="smaller", name="smaller", limit=10, usage=0)
    short = Headroom([small, smaller], [], NOW).shortage(offer("aws", 1.0), 2)
    assert short is not None
    assert short.quota.name == "smaller"
