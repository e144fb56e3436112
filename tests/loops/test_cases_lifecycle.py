"""Failures that others have met in the life of jobs and machines, and what must come of them here."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import Session, select

from providers.errors import ErrorKind, ProviderError
from service.api.problems import Problem
from service.attempts.model import Attempt, AttemptInstance, Charge
from service.instances.model import AgentState, Instance
from service.states import JOB_OVER, AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench
from tests.loops.test_main_job import preempt

BUSY = ProviderError(ErrorKind.THROTTLED, "slow down", code="RequestLimitExceeded")
REFUSED = ProviderError(ErrorKind.TRANSIENT, "try later")


def at_commit(bench: Bench, number: int, then: Callable[[], None]) -> None:
    """Have something happen right after the process's `number`th commit from now."""
    write, left = bench.database.write, [number]

    def counted(work: Callable[[Session], Any]) -> Any:
        result = write(work)
        left[0] -= 1
        if left[0] == 0:
            then()
        return result

    bench.database.write = counted  # type: ignore[method-assign]


def silent(bench: Bench, seconds: float, step: float = 10) -> None:
    """Time passes and no agent is heard."""
    for _ in range(int(seconds / step)):
        bench.clock.advance(step)
        bench.turn()


def nothing_is_busy_for_a_job_that_is_over(bench: Bench) -> None:
    live = bench.instances(
        InstanceState.PLANNED, InstanceState.REQUESTED, InstanceState.PENDING, InstanceState.RUNNING
    )
    for instance in live:
        owner = bench.database.read(
            lambda session, one=instance: session.exec(  # type: ignore[misc]
                select(Attempt)
                .join(AttemptInstance, AttemptInstance.attempt_id == Attempt.id)  # type: ignore[arg-type]
                .where(AttemptInstance.instance_id == one.id)
            ).one()
        )
        assert bench.job(owner.job_id).state not in JOB_OVER


@pytest.mark.parametrize("lost", [False, True], ids=["answered", "answer lost"])
@pytest.mark.parametrize("commit", range(1, 21))
def test_LIF_03_a_job_cancelled_at_any_commit_of_its_start_leaves_no_machine(
    bench: Bench, commit: int, lost: bool
) -> None:
    if lost:
        bench.clouds["aws"].drop_reply()
    job_id = bench.submit_job()
    at_commit(bench, commit, lambda: bench.cancel(job_id))
    bench.pass_time(300)
    assert bench.job(job_id).state is JobState.CANCELLED
    assert bench.alive() == []


@pytest.mark.parametrize("commit", range(1, 11))
def test_LIF_03_a_job_cancelled_at_any_commit_of_its_recovery_leaves_no_machine(
    bench: Bench, commit: int
) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    preempt(bench, job_id)
    at_commit(bench, commit, lambda: bench.cancel(job_id))
    bench.pass_time(300)
    assert bench.job(job_id).state is JobState.CANCELLED
    assert bench.alive() == []


@pytest.mark.parametrize("step", ["queued", "planned", "claimed"])
def test_LIF_04_after_a_cancel_no_create_is_sent_by_a_worker_that_saw_the_job_before(
    bench: Bench, step: str
) -> None:
    job_id = bench.submit_job()
    if step != "queued":
        bench._steps["scheduler"](bench.ctx)
    if step == "claimed":
        bench._steps["launcher"](bench.ctx)
    bench.cancel(job_id)
    bench.pass_time(120)
    assert bench.job(job_id).state is JobState.CANCELLED
    assert [cloud.launches for cloud in bench.clouds.values()] == [[], [], []]


@pytest.mark.parametrize("commit", range(1, 8))
def test_LIF_06_no_machine_is_kept_for_a_job_that_is_over(bench: Bench, commit: int) -> None:
    job_id = bench.submit_job()
    at_commit(bench, commit, lambda: bench.cancel(job_id))
    for _ in range(30):
        bench.pass_time(10)
        if bench.job(job_id).state in JOB_OVER:
            nothing_is_busy_for_a_job_that_is_over(bench)
    assert bench.job(job_id).state is JobState.CANCELLED
    assert {instance.state for instance in bench.instances()} <= {InstanceState.TERMINATED}


def test_LIF_16_machines_that_were_unreachable_while_they_started_keep_their_limits(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    jobs = [bench.submit_job(f"job-{n}", max_duration_seconds=600) for n in range(10)]
    bench.turn()
    asked = [call.request.max_age_seconds for call in bench.clouds["aws"].launches]
    bench.clouds["aws"].fail("describe", BUSY, times=3)
    bench.run_until(jobs[0], JobState.RUNNING)
    silent(bench, 120)
    assert any(not instance.reachable for instance in bench.instances(InstanceState.RUNNING))
    bench.pass_time(900)
    assert {bench.job(job_id).reason for job_id in jobs} == {"max_duration"}
    assert bench.alive() == []
    assert len(asked) == 10
    assert all(limit is not None and 600 < limit < 7200 for limit in asked), "and the cloud's own limit"


@pytest.mark.parametrize("over", [JobState.SUCCEEDED, JobState.CANCELLED])
def test_LIF_19_trouble_with_cleaning_up_changes_no_final_state(bench: Bench, over: JobState) -> None:
    job_id = bench.submit_job(retry={"failed": 3, "lost": 3})
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.clouds["aws"].fail("terminate", REFUSED, times=25)
    if over is JobState.SUCCEEDED:
        bench.exit(node, 0)
    else:
        bench.cancel(job_id)
    bench.run_until(job_id, over)
    before = bench.job(job_id)
    with suppress(Problem):
        bench.exit(node, 1)
    bench.restart()
    bench.pass_time(2400)
    after = bench.job(job_id)
    assert (after.state, after.reason, after.detail) == (before.state, before.reason, before.detail)
    assert len(bench.attempts(job_id)) == 1, "nothing is run again"
    assert [event.subject_id for event in bench.events("instance_will_not_end")] == [node.id]
    assert bench.alive() == []


def test_LIF_20_one_bad_agent_and_a_new_configuration_end_no_healthy_machine(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    jobs = [bench.submit_job(f"job-{n}") for n in range(12)]
    for job_id in jobs:
        bench.run_until(job_id, JobState.RUNNING)
    (bad,) = bench.nodes(bench.live_attempt(jobs[0]))

    def spoil(session: Session) -> None:
        row = session.get_one(Instance, bad.id)
        row.agent_version = "9999.0"
        session.add(row)

    bench.database.write(spoil)
    before = {machine.provider_id for machine in bench.alive()}
    times = bench.settings.times.model_copy(update={"boot": 300, "heartbeat": 30})
    bench.settings = bench.settings.model_copy(update={"times": times})
    bench.restart()
    for _ in range(40):
        bench.clock.advance(15)
        bench.turn()
        for job_id in jobs[1:]:
            (node,) = bench.nodes(bench.live_attempt(job_id))
            bench.beat(node, AgentState.RUNNING)
    assert {machine.provider_id for machine in bench.alive()} == before
    assert {bench.job(job_id).state for job_id in jobs} == {JobState.RUNNING}
    unreachable = [i.id for i in bench.instances(InstanceState.RUNNING) if not i.reachable]
    assert unreachable == [bad.id]


def test_IDE_07_an_attempt_that_was_cut_off_is_refused_when_it_is_back_and_its_machine_ended(
    bench: Bench,
) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.clouds["aws"].fail("terminate", REFUSED, times=None)
    (old,) = bench.nodes(bench.live_attempt(job_id))
    silent(bench, 1900)
    new = bench.live_attempt(job_id)
    (fresh,) = bench.nodes(new)
    bench.hello(fresh)
    for _ in range(100):
        if bench.beat(fresh, AgentState.READY).directive == "start":
            break
        silent(bench, 20, 20)
    bench.beat(fresh, AgentState.RUNNING)
    bench.turn()
    assert bench.live_attempt(job_id).state is AttemptState.RUNNING
    for say in (lambda: bench.beat(old, AgentState.RUNNING), lambda: bench.exit(old, 0)):
        with pytest.raises(Problem) as refused:
            say()
        assert (refused.value.status, refused.value.code) == (409, "stale_epoch")
    bench.turn()
    assert bench.job(job_id).state is JobState.RUNNING
    assert bench.live_attempt(job_id).id == new.id
    assert bench.job(job_id).epoch == new.epoch
    bench.clouds["aws"].script.clear()
    bench.pass_time(120)
    assert [machine.provider_id for machine in bench.alive()] == [bench.nodes(new)[0].provider_id]


def test_INV_01_after_a_restart_nothing_is_ended_while_nothing_can_be_listed(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    jobs = [bench.submit_job(f"job-{n}") for n in range(20)]
    for job_id in jobs:
        bench.run_until(job_id, JobState.RUNNING)
    limits = bench.settings.limits.model_copy(update={"max_instances": 22})
    bench.settings = bench.settings.model_copy(update={"limits": limits})
    bench.restart()
    for call in ("list_instances", "describe", "find"):
        bench.clouds["aws"].fail(call, BUSY, times=None)
    more = [bench.submit_job(f"more-{n}") for n in range(4)]
    bench.pass_time(600)
    assert {bench.job(job_id).state for job_id in jobs} == {JobState.RUNNING}
    assert len(bench.alive()) == len(bench.clouds["aws"].created) == 22, "as many as the database allows"
    assert sum(bool(bench.attempts(job_id)) for job_id in more) == 2


def test_INV_02_what_the_database_does_not_know_is_not_ended_by_its_number(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    jobs = [bench.submit_job(f"job-{n}") for n in range(10)]
    for job_id in jobs:
        bench.run_until(job_id, JobState.RUNNING)
    bench.clouds["aws"].hide("aws-1a", times=6)
    bench.pass_time(300)
    for job_id in jobs[:4]:
        (node,) = bench.nodes(bench.live_attempt(job_id))
        bench.clouds["aws"].kill(node.provider_id or "")
    bench.pass_time(120)
    assert {bench.job(job_id).state for job_id in jobs[4:]} == {JobState.RUNNING}
    assert all(len(bench.attempts(job_id)) == 1 for job_id in jobs[4:])


def test_INV_05_machines_that_vanish_one_a_round_hold_up_no_other(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), shown_seconds=0, terminate_seconds=0))
    jobs = [bench.submit_job(f"job-{n}", retry={"preempted": 0, "lost": 0}) for n in range(12)]
    for job_id in jobs:
        bench.run_until(job_id, JobState.RUNNING)
    for number, job_id in enumerate(jobs[:-1]):
        (node,) = bench.nodes(bench.live_attempt(job_id))
        bench.clouds["aws"].kill(node.provider_id or "")
        bench.pass_time(60)
        assert bench.job(job_id).state is JobState.FAILED
        assert {bench.job(other).state for other in jobs[number + 1 :]} == {JobState.RUNNING}


def test_INV_08_a_machine_that_was_gone_and_forgotten_while_we_were_away_ends_when_it_was_last_seen(
    bench: Bench,
) -> None:
    job_id = bench.submit_job(retry={"preempted": 0, "lost": 0})
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(600)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    last_seen = bench.clock.now()
    bench.clouds["aws"].kill(node.provider_id or "")
    bench.clouds["aws"].shown_seconds = 3600
    bench.clock.advance(3 * 3600)
    bench.restart()
    bench.run_until(job_id, JobState.FAILED, within=300)
    (row,) = bench.instances()
    assert row.state is InstanceState.TERMINATED
    (charge,) = bench.database.read(lambda session: session.exec(select(Charge)).all())
    assert charge.ends is not None
    assert abs(charge.ends - last_seen) <= timedelta(minutes=2), "not the three hours in which nobody looked"
    (event,) = [one for one in bench.events() if one.subject_id == node.id and "no such" in one.message]
    assert "estimate" in event.message


def test_PRE_09_a_machine_that_is_taken_back_while_it_boots_is_gone_before_another_is_asked_for(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    slow = cloud(clock, offer("aws", 10.0), capacity=1, boot_seconds=120, terminate_seconds=60)
    bench = make_bench(aws=slow)
    times = bench.settings.times.model_copy(update={"avoid_after_preemption": 0})
    bench.ctx.settings = bench.settings.model_copy(update={"times": times})
    job_id = bench.submit_job()
    bench.pass_time(30)
    slow.preempt(slow.created[0].provider_id)
    most = 0
    while bench.job(job_id).state is not JobState.RUNNING:
        bench.pass_time(5)
        most = max(most, len(slow.live()))
        assert bench.clock.now() - bench.job(job_id).submitted_at < timedelta(hours=1)
    assert most == 1
    assert len(slow.created) == 2
    assert bench.attempts(job_id)[0].reason == "preempted"


def test_PRE_16_a_slow_boot_is_no_preemption_while_the_machine_runs(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)), gcp=cloud(clock, offer("gcp", 11.0)))
    job_id = bench.submit_job()
    bench.turn()
    silent(bench, 400)
    assert bench.live_attempt(job_id).state is AttemptState.BOOTING
    bench.run_until(job_id, JobState.RUNNING)
    assert len(bench.attempts(job_id)) == 1


def test_PRE_16_after_machines_that_do_not_boot_another_account_is_tried(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    dead = cloud(clock, offer("aws", 10.0), offer("aws", 10.1, zone="b"), boot_seconds=10_000)
    dead.sell(offer("aws", 10.2, zone="c"))
    bench = make_bench(aws=dead, gcp=cloud(clock, offer("gcp", 11.0)))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING, within=3600)
    ended = [(attempt.account, attempt.reason) for attempt in bench.attempts(job_id)]
    assert ended == [("aws", "boot_failed"), ("aws", "boot_failed"), ("gcp", None)]
    assert bench.attempts(job_id)[0].zone != bench.attempts(job_id)[1].zone


def test_PRO_10_no_name_of_a_person_project_or_job_is_in_what_a_cloud_is_asked_for(bench: Bench) -> None:
    long = "a.very_long-name" * 4
    for n, name in enumerate([long, long[:-1] + "x", "job_2.b"]):
        bench.submit_job(name, env={"WHO": f"Anna.Muller@Example.com {n}"})
    bench.turn()
    asked = [call.request for one in bench.clouds.values() for call in one.launches]
    names = [name for request in asked for name in request.names()]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in names), "as GCE wants them"
    tags = [pair for request in asked for pair in request.tags.items()]
    assert all(re.fullmatch(r"[a-z][-a-z0-9_]{0,62}", key) for key, _ in tags)
    assert all(re.fullmatch(r"[-a-z0-9_]{0,63}", value) for _, value in tags), tags
