"""Preemption: with notice and without, and who may write when."""

from __future__ import annotations

import pytest

from service.api.problems import Problem
from service.instances.model import AgentState
from service.states import AttemptState, JobState
from tests.loops.bench import Bench
from tests.loops.test_main_job import preempt


def test_on_notice_a_replacement_boots_elsewhere_before_the_old_instance_dies(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    node = preempt(bench, job_id, notice=120)
    bench.notice(node, 120)
    bench.turn()
    old, new = bench.attempts(job_id)
    assert old.state is AttemptState.DRAINING
    assert new.state is AttemptState.BOOTING
    assert new.account == "gcp", "the replacement leaves the place of the preemption"
    assert len(bench.alive()) == 2
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(200)
    assert bench.live_attempt(job_id).id == new.id
    assert bench.attempts(job_id)[0].reason == "preempted"
    assert len(bench.alive()) == 1


def test_the_replacement_starts_only_when_the_old_attempt_is_silent(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    node = preempt(bench, job_id, notice=120)
    bench.notice(node, 120)
    bench.turn()
    bench.clock.advance(40)
    bench.turn()
    new = bench.live_attempts(job_id)[-1]
    (fresh,) = bench.nodes(new)
    bench.hello(fresh)
    answer = bench.beat(fresh, AgentState.READY)
    bench.turn()
    assert answer.directive == "wait"
    assert bench.beat(fresh, AgentState.READY).directive == "wait", "the old one may still write"
    bench.exit(node, None, "preempted")
    bench.turn()
    assert bench.beat(fresh, AgentState.READY).directive == "start"


def test_an_old_epoch_is_refused_once_the_new_attempt_may_write(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    node = preempt(bench, job_id, notice=60)
    bench.notice(node, 60)
    bench.turn()
    bench.clock.advance(45)
    bench.turn()
    (fresh,) = bench.nodes(bench.live_attempts(job_id)[-1])
    bench.hello(fresh)
    bench.beat(fresh, AgentState.READY)
    bench.clock.advance(16)
    bench.turn()
    assert bench.beat(fresh, AgentState.READY).directive == "start", "the notice's time has passed"
    with pytest.raises(Problem) as refused:
        bench.exit(node, 0)
    assert (refused.value.status, refused.value.code) == (409, "stale_epoch")


def test_PRE_a_spot_instance_that_vanishes_without_notice_counts_as_preempted(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    preempt(bench, job_id)
    bench.pass_time(120)
    first, second = bench.attempts(job_id)
    assert first.reason == "preempted"
    assert second.account == "gcp"


def test_a_cancelled_job_stops_and_is_billed_no_longer(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.cancel(job_id)
    bench.run_until(job_id, JobState.CANCELLED)
    bench.pass_time(120)
    assert bench.alive() == []


def test_cancelling_before_the_launch_answer_ends_what_the_launch_made(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.clouds["aws"].drop_reply()
    bench.turn()
    assert bench.live_attempt(job_id).state is AttemptState.LAUNCHING
    bench.cancel(job_id)
    bench.run_until(job_id, JobState.CANCELLED, within=1200)
    bench.pass_time(900)
    assert len(bench.clouds["aws"].created) == 1
    assert bench.alive() == []


def test_a_hint_is_told_and_nothing_is_done(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.notice(node, None, "maintenance")
    bench.pass_time(600)
    assert bench.live_attempt(job_id).state is AttemptState.RUNNING
    assert len(bench.attempts(job_id)) == 1
    assert len(bench.events("instance_hint")) >= 1
    bench.notice(node, 120)
    bench.turn()
    assert bench.attempts(job_id)[0].state is AttemptState.DRAINING, "a preemption counts after a hint"


def test_before_maintenance_the_job_runs_on_until_it_must_leave(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.notice(node, 900, "maintenance")
    bench.pass_time(900 - 200)
    assert len(bench.attempts(job_id)) == 1
    bench.pass_time(150)
    assert bench.attempts(job_id)[0].reason == "preempted"
    assert bench.live_attempt(job_id).number == 2


def test_a_preemption_counts_though_maintenance_was_announced_before(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.notice(node, 7200, "maintenance")
    bench.notice(node, 120)
    bench.turn()
    assert bench.attempts(job_id)[0].state is AttemptState.DRAINING
