"""At most one attempt of a job may write: who may start, and what agents say of it that is not so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.memory import Machine
from service.agents import reports
from service.attempts.model import Attempt
from service.instances.model import AgentState, Instance
from service.states import AttemptState, InstanceState, JobState
from tests.loops.bench import Bench
from tests.loops.test_main_job import preempt

TWO: dict[str, Any] = {"resources": {"gpu": {"name": ["H100"], "count": 8}, "nodes": 2}}
REFUSED = ProviderError(ErrorKind.TRANSIENT, "try later")


def ready(bench: Bench, attempt: Attempt) -> Instance:
    """The first node of an attempt is up and waits for the word."""
    (node, *_) = bench.nodes(attempt)
    bench.hello(node)
    bench.beat(node, AgentState.READY)
    bench.turn()
    return bench.nodes(attempt)[0]


def silent(bench: Bench, seconds: float, step: float = 10) -> None:
    for _ in range(int(seconds / step)):
        bench.clock.advance(step)
        bench.turn()


def machine(bench: Bench, node: Instance) -> Machine:
    made: Machine = bench._machine(node)
    return made


def test_a_lost_attempts_successor_waits_until_its_instance_is_proved_gone(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.clouds["aws"].fail("terminate", REFUSED, times=None)
    (old,) = bench.nodes(bench.live_attempt(job_id))
    silent(bench, 1900)
    new = bench.live_attempt(job_id)
    fresh = ready(bench, new)
    assert machine(bench, old).state(bench.clock.now()) == "running", "cut off, and writing on"
    assert bench.beat(fresh, AgentState.READY).directive == "wait"
    bench.clouds["aws"].script.clear()
    silent(bench, 100)
    assert machine(bench, old).over(bench.clock.now())
    assert bench.beat(fresh, AgentState.READY).directive == "start"


def test_a_cloud_that_never_answers_holds_a_job_up_for_a_bounded_time(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.clouds["aws"].fail("terminate", REFUSED, times=None)
    silent(bench, 1900, 25)
    fresh = ready(bench, bench.live_attempt(job_id))
    for _ in range(76):
        bench.beat(fresh, AgentState.READY)
        silent(bench, 25, 25)
    assert bench.beat(fresh, AgentState.READY).directive == "start"


def test_a_gangs_node_that_did_not_hear_of_the_notice_is_waited_for(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO)
    bench.run_until(job_id, JobState.RUNNING)
    first, second = bench.nodes(bench.live_attempt(job_id))
    bench.clouds["aws"].fail("terminate", REFUSED, times=None)
    bench.notice(first, 30)
    bench.turn()
    bench.exit(first, None, "preempted")
    silent(bench, 60)
    new = bench.live_attempt(job_id)
    for node in bench.nodes(new):
        bench.hello(node)
        bench.beat(node, AgentState.READY)
    bench.turn()
    assert machine(bench, second).state(bench.clock.now()) == "running"
    assert bench.beat(bench.nodes(new)[0], AgentState.READY).directive == "wait"


def test_a_ready_replacement_may_wait_for_its_predecessor_beyond_the_boot_deadline(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (old,) = bench.nodes(bench.live_attempt(job_id))
    bench.notice(old, 840)
    bench.turn()
    bench.clock.advance(40)
    bench.turn()
    new = bench.live_attempts(job_id)[-1]
    fresh = ready(bench, new)
    for _ in range(82):  # 820 s; the boot deadline is after 600 s
        bench.clock.advance(10)
        bench.turn()
        answer = bench.beat(fresh, AgentState.READY)
    assert answer.directive == "start"
    bench.clock.advance(10)
    bench.turn()
    assert {a.reason for a in bench.attempts(job_id)} <= {"preempted", None}


@pytest.mark.parametrize("lie", ["exited", "started", "running"])
def test_an_agent_that_was_never_told_to_start_cannot_speak_of_a_run(bench: Bench, lie: str) -> None:
    job_id = bench.submit_job()
    bench.turn()
    bench.clock.advance(40)
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.hello(node)
    bench.turn()
    if lie == "exited":
        bench.exit(node, 0)
    elif lie == "started":
        bench._report(node, reports.started, restored=None)
    else:
        bench.beat(node, AgentState.RUNNING)
    bench.turn()
    assert bench.job(job_id).state in (JobState.STARTING, JobState.QUEUED)
    assert bench.attempts(job_id)[0].state is not AttemptState.RUNNING


def test_a_job_that_stopped_for_a_notice_we_never_heard_of_is_started_again_at_once(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, None, "preempted")
    bench.turn()
    first, second = bench.attempts(job_id)
    assert first.reason == "preempted"
    assert second.state is AttemptState.BOOTING


def test_an_agent_that_gave_up_on_its_own_cancels_nothing(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node, None, "stopped")
    bench.turn()
    assert bench.job(job_id).state is not JobState.CANCELLED
    assert [a.reason for a in bench.attempts(job_id)] == ["lost", None]


def test_a_refused_replacement_tries_the_next_offer_while_the_old_instance_still_lives(bench: Bench) -> None:
    none = ProviderError(ErrorKind.CAPACITY, "none", code="InsufficientCapacity")
    bench.clouds["gcp"].fail("launch", none)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.notice(preempt(bench, job_id, notice=120), 120)
    bench.turn()
    assert [(a.account, a.state) for a in bench.attempts(job_id)] == [
        ("aws", AttemptState.DRAINING),
        ("gcp", AttemptState.ENDED),
        ("azure", AttemptState.BOOTING),
    ]


def test_no_replacement_is_bought_when_no_more_preemptions_are_allowed(bench: Bench) -> None:
    job_id = bench.submit_job(retry={"preempted": 0})
    bench.run_until(job_id, JobState.RUNNING)
    bench.notice(preempt(bench, job_id, notice=120), 120)
    bench.turn()
    assert len(bench.attempts(job_id)) == 1
    bench.run_until(job_id, JobState.FAILED)


def test_a_cancelled_job_is_over_only_when_its_draining_attempt_is(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    node = preempt(bench, job_id, notice=120)
    bench.notice(node, 120)
    bench.turn()
    bench.cancel(job_id)
    bench.turn()
    old, new = bench.attempts(job_id)
    assert (old.state, new.state) == (AttemptState.DRAINING, AttemptState.ENDED)
    assert bench.job(job_id).state is JobState.STOPPING
    bench.exit(node, None, "preempted")
    bench.turn()
    assert bench.job(job_id).state is JobState.CANCELLED
    bench.pass_time(300)
    assert bench.alive() == []


@pytest.mark.parametrize("absent", ["stopped", "new process", "clock"])
def test_our_own_absence_is_not_the_agents_silence(bench: Bench, absent: str) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    attempt = bench.live_attempt(job_id)
    if absent == "clock":
        bench.clock.jump(3500)
    else:
        bench.clock.advance(3500)
    if absent == "new process":
        bench.restart()
    bench.turn()
    assert bench.live_attempt(job_id).state is AttemptState.RUNNING
    bench.pass_time(60)
    assert bench.live_attempt(job_id).id == attempt.id
    silent(bench, 1900)
    assert bench.attempts(job_id)[0].reason == "lost", "silence that we could have heard still counts"


def test_an_instance_that_boots_while_we_are_away_is_let_in(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.turn()
    bench.clock.advance(1000)
    bench.restart()
    bench.run_until(job_id, JobState.RUNNING)
    assert len(bench.attempts(job_id)) == 1


def test_reads_that_lag_behind_an_agent_that_speaks_are_no_end(bench: Bench) -> None:
    bench.clouds["aws"].lag_seconds = 200
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(300)
    assert len(bench.attempts(job_id)) == 1
    assert bench.job(job_id).state is JobState.RUNNING


def test_one_attempt_that_cannot_be_advanced_holds_up_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.attempts import lifecycle, verdict

    broken = bench.submit_job("broken")
    bench.turn()
    poisoned = bench.live_attempt(broken).id
    decide = verdict.decide

    def failing(facts: Any, now: Any) -> Any:
        if facts.attempt.id == poisoned:
            raise RuntimeError("a fault of ours")
        return decide(facts, now)

    monkeypatch.setattr(lifecycle, "decide", failing)
    fine = bench.submit_job("fine")
    bench.run_until(fine, JobState.RUNNING)
    assert bench.live_attempt(broken).state is AttemptState.BOOTING


def test_an_instance_whose_attempt_is_over_is_always_let_go(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.clouds["aws"].fail("terminate", REFUSED, times=1)
    bench.exit(node, 0)
    bench.turn()

    def resurrect(session: Any) -> None:
        row = session.get_one(Instance, node.id)
        row.state, row.wake_at = InstanceState.RUNNING, bench.clock.now() + timedelta(seconds=5)
        session.add(row)

    bench.database.write(resurrect)
    bench.pass_time(300)
    assert bench.alive() == []
