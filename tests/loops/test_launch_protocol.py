"""The launch protocol: a launch survives a crash between any two steps, and is never doubled."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest

from providers.errors import ErrorKind, ProviderError
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, Killed, cloud, offer
from tests.loops.conftest import MakeBench


def made(bench: Bench) -> int:
    return sum(len(cloud.created) for cloud in bench.clouds.values())


def test_IDE_a_lost_answer_is_repaired_by_looking_for_the_token(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.clouds["aws"].drop_reply()
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    assert node.state is InstanceState.UNCONFIRMED
    bench.run_until(job_id, JobState.RUNNING)
    assert made(bench) == 1
    assert len(bench.attempts(job_id)) == 1


def test_IDE_nothing_else_is_tried_while_a_launch_may_have_happened(bench: Bench) -> None:
    bench.clouds["aws"].drop_reply(times=None)
    bench.clouds["aws"].fail("find", ProviderError(ErrorKind.TRANSIENT, "unreachable"), times=None)
    job_id = bench.submit_job()
    bench.pass_time(300)
    assert [a.account for a in bench.attempts(job_id)] == ["aws"]
    assert made(bench) == 1


def test_IDE_a_launch_that_never_arrived_is_sent_again_with_the_same_token(bench: Bench) -> None:
    lost = ProviderError(ErrorKind.TRANSIENT, "time-out", ambiguous=True)
    bench.clouds["aws"].fail("launch", lost)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    tokens = {call.request.token for call in bench.clouds["aws"].launches}
    assert len(bench.clouds["aws"].launches) == 2
    assert len(tokens) == 1
    first, again = (call.request for call in bench.clouds["aws"].launches)
    assert first == again


def test_IDE_an_unproved_launch_is_closed_only_after_the_consistency_window(bench: Bench) -> None:
    lost = ProviderError(ErrorKind.TRANSIENT, "time-out", ambiguous=True)
    bench.clouds["aws"].fail("launch", lost, times=None)
    job_id = bench.submit_job()
    bench.pass_time(600)
    assert bench.live_attempt(job_id).account == "aws"
    bench.pass_time(1000)
    first, second = bench.attempts(job_id)[:2]
    assert first.ended_at is not None
    assert first.ended_at - first.planned_at >= timedelta(minutes=20), (
        "resend window, then the cloud's window"
    )
    assert second.account != "aws"


@pytest.mark.parametrize("commit", range(1, 26))
def test_IDE_a_process_killed_at_any_commit_leaves_one_instance_and_one_result(
    bench: Bench, commit: int
) -> None:
    job_id = bench.submit_job()
    bench.die_at_commit(commit)
    with suppress(Killed):
        bench.run_until(job_id, JobState.RUNNING)
    bench.restart()
    bench.run_until(job_id, JobState.RUNNING, within=2000)
    assert made(bench) == 1
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    bench.run_until(job_id, JobState.SUCCEEDED)
    bench.pass_time(200)
    assert bench.alive() == []


def test_IDE_a_token_whose_instances_are_over_ends_the_attempt(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.clouds["aws"].drop_reply()
    bench.turn()
    bench.clouds["aws"].kill(bench.clouds["aws"].created[0].provider_id)
    bench.run_until(job_id, JobState.RUNNING)
    first, second = bench.attempts(job_id)
    assert (first.state, first.reason) == (AttemptState.ENDED, "refused")
    assert second.state is AttemptState.RUNNING


def test_a_late_refusal_ends_the_attempt_and_the_next_offer_is_tried(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    slow = cloud(clock, offer("gcp", 9.0), capacity=0, verdict_seconds=10)
    bench = make_bench(gcp=slow, aws=cloud(clock, offer("aws", 10.0)))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    first, second = bench.attempts(job_id)
    assert (first.account, first.reason, first.error_kind) == ("gcp", "refused", "capacity")
    assert second.account == "aws"
    bench.pass_time(120)
    assert len(bench.alive()) == 1


def test_LIF_terminating_goes_on_until_the_cloud_says_it_is_gone(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    refused = ProviderError(ErrorKind.TRANSIENT, "try later")
    bench.clouds["aws"].fail("terminate", refused, times=12)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, 0)
    bench.pass_time(60)
    assert len(bench.alive()) == 1
    assert bench.instances(InstanceState.TERMINATING)
    bench.pass_time(600)
    assert bench.alive() == []
