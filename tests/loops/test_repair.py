"""Launches of unknown fate, accounts that are gone, clocks that are set: nothing is doubled or left."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryProvider
from service.attempts.ending import end_attempt
from service.attempts.model import Attempt
from service.attempts.outcome import Ended
from service.market.blocks import PREEMPTED
from service.market.model import BlockRow
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench
from tests.loops.simulation import SimulatedBench, WrongClock
from tests.loops.test_main_job import preempt

TWO: dict[str, Any] = {"resources": {"gpu": {"name": ["H100"], "count": 8}, "nodes": 2}}
BUSY = ProviderError(ErrorKind.THROTTLED, "slow down", code="RequestLimitExceeded")
QUOTA = ProviderError(ErrorKind.QUOTA, "what the first one took counts", code="QuotaExceeded")


def machines(bench: Bench) -> int:
    return sum(len(one.created) for one in bench.clouds.values())


def without(bench: Bench, account: str) -> None:
    """The settings are read again and no longer name an account."""
    bench.ctx.providers = {key: one for key, one in bench.ctx.providers.items() if key[1] != account}
    bench.ctx.wake("market")
    bench.ctx.wake("scheduler")


def returned(bench: Bench, account: str) -> None:
    adapter = MemoryProvider(account, [f"{account}-1"], bench.clock, bench.clouds[account])
    bench.ctx.providers = {**bench.ctx.providers, ("memory", account): adapter}
    bench.ctx.wake("market")


@pytest.mark.parametrize("refusal", [BUSY, QUOTA], ids=["throttled", "quota"])
def test_IDE_a_refusal_of_what_is_sent_again_says_nothing_about_the_first_time(
    bench: Bench, refusal: ProviderError
) -> None:
    aws = bench.clouds["aws"]
    aws.lag_seconds = 120
    aws.drop_reply()
    aws.fail("launch", refusal)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    assert machines(bench) == 1, "it was made the first time, and merely not shown yet"
    assert len(bench.attempts(job_id)) == 1


def test_IDE_what_is_left_of_a_gang_that_is_over_is_ended_though_nobody_could_see_it(bench: Bench) -> None:
    aws = bench.clouds["aws"]
    job_id = bench.submit_job(**TWO)
    aws.drop_reply()
    bench.turn()
    first, second = aws.created
    second.visible_at = bench.clock.now() + timedelta(seconds=200)
    aws.kill(first.provider_id)
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(600)
    assert second.over(bench.clock.now())
    assert not bench.events("orphan_found"), "it never was unknown to us"


def test_an_adopted_launch_that_is_taken_back_later_counts_as_preempted(bench: Bench) -> None:
    bench.clouds["aws"].drop_reply()
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    preempt(bench, job_id)
    bench.pass_time(120)
    assert bench.attempts(job_id)[0].reason == "preempted"


def test_a_late_refusal_leaves_no_instance_that_we_try_to_end_for_ever(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    slow = cloud(clock, offer("gcp", 9.0), capacity=0, verdict_seconds=10)
    bench = make_bench(gcp=slow, aws=cloud(clock, offer("aws", 10.0)))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(900)
    assert bench.instances(InstanceState.TERMINATING) == []


def test_a_launch_in_an_account_that_is_gone_does_not_hold_up_its_job_and_is_ended_later(
    bench: Bench,
) -> None:
    aws = bench.clouds["aws"]
    aws.drop_reply()
    job_id = bench.submit_job()
    bench.turn()
    without(bench, "aws")
    bench.run_until(job_id, JobState.RUNNING, within=900)
    assert bench.live_attempt(job_id).account == "gcp"
    assert len(bench.alive()) == 2
    returned(bench, "aws")
    bench.pass_time(200)
    assert [m.request.offer.account for m in bench.alive()] == ["gcp"]


def test_a_job_is_cancelled_though_the_account_of_its_launch_is_gone(bench: Bench) -> None:
    bench.clouds["aws"].drop_reply()
    job_id = bench.submit_job()
    bench.turn()
    without(bench, "aws")
    bench.cancel(job_id)
    bench.run_until(job_id, JobState.CANCELLED, within=120)
    returned(bench, "aws")
    bench.pass_time(200)
    assert bench.alive() == []


def test_instances_of_an_account_that_was_removed_are_ended_when_it_returns(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    without(bench, "aws")
    bench.pass_time(120)
    assert bench.job(job_id).state is JobState.RUNNING, "no settings end an instance"
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    bench.pass_time(3600)
    assert bench.job(job_id).state is JobState.SUCCEEDED
    assert len(bench.alive()) == 1
    returned(bench, "aws")
    bench.pass_time(200)
    assert bench.alive() == []


def test_a_trial_that_got_through_holds_up_nobody(bench: Bench) -> None:
    first = bench.submit_job("first", allow=["memory/aws-1"])
    bench.run_until(first, JobState.RUNNING)
    preempt(bench, first)
    bench.pass_time(60)
    bench.run_until(first, JobState.RUNNING, within=2000)
    bench.pass_time(20)
    assert len(bench.attempts(first)) == 2
    second = bench.submit_job("second", allow=["memory/aws-1"])
    bench.turn()
    kinds = bench.database.read(lambda session: session.exec(select(BlockRow.kind)).all())
    assert set(kinds) == {PREEMPTED}
    assert bench.live_attempts(second), "the block's time is over and its trial runs"


def test_a_clock_that_is_set_back_stalls_nothing(tmp_path: Path) -> None:
    clock = WrongClock(FakeClock())
    clouds = {"aws": cloud(clock.true, offer("aws", 10.0))}
    bench = SimulatedBench(tmp_path, clouds, clock, 1)
    job_id = bench.submit_job()
    bench.turn()
    clock.jump(-4 * 3600)
    for _ in range(8):
        bench.pass_time(15)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    assert node.state is InstanceState.RUNNING, "the watcher goes on"
    bench.cancel(job_id)
    bench.turn()
    clock.jump(-4 * 3600)
    for _ in range(20):
        bench.pass_time(15)
    bench.database.close()
    assert clouds["aws"].live() == []


def test_a_launch_that_was_called_off_while_its_call_was_out_is_ended(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench._steps["scheduler"](bench.ctx)
    bench._steps["launcher"](bench.ctx)
    launch = bench.calls.popleft()
    provider = bench.ctx.providers["memory", "aws"]
    real = provider.launch

    def slow(request: Any) -> Any:
        made = real(request)

        def off(session: Any) -> None:
            attempt = session.get_one(Attempt, bench.live_attempt(job_id).id)
            end_attempt(session, attempt, Ended.CANCELLED, "called off", now=bench.clock.now())

        bench.cancel(job_id)
        bench.database.write(off)
        return made

    provider.launch = slow  # type: ignore[method-assign]
    launch()
    provider.launch = real  # type: ignore[method-assign]
    bench.pass_time(120)
    assert bench.attempts(job_id)[0].state is AttemptState.ENDED
    assert bench.job(job_id).state is JobState.CANCELLED
    assert bench.alive() == []
