"""Several nodes: all or none, ranks, and one that is lost ends them all."""

from __future__ import annotations

from typing import Any

from service.instances.model import AgentState
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench

TWO: dict[str, Any] = {"resources": {"gpu": {"name": ["H100"], "count": 8}, "nodes": 2}}


def test_a_gang_starts_when_all_nodes_are_ready_and_knows_its_ranks(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO)
    bench.turn()
    bench.clock.advance(40)
    bench.turn()
    first, second = bench.nodes(bench.live_attempt(job_id))
    assert (first.node, second.node) == (0, 1)
    bench.hello(first)
    bench.beat(first, AgentState.READY)
    bench.turn()
    assert bench.beat(first, AgentState.READY).directive == "wait"
    bench.hello(second)
    bench.beat(second, AgentState.READY)
    bench.turn()
    answers = [bench.beat(node, AgentState.READY) for node in (first, second)]
    assert [a.directive for a in answers] == ["start", "start"]
    assert answers[0].node_ips == answers[1].node_ips
    assert len(answers[0].node_ips or []) == 2
    assert answers[0].master_port == answers[1].master_port is not None


def test_a_gang_that_loses_one_node_starts_again_as_a_gang(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO)
    bench.run_until(job_id, JobState.RUNNING)
    lost = bench.nodes(bench.live_attempt(job_id))[1]
    bench.clouds["aws"].kill(lost.provider_id or "")
    bench.pass_time(200)
    assert bench.job(job_id).state is JobState.RUNNING
    old, new = bench.attempts(job_id)
    assert (old.reason, new.state, new.nodes) == ("lost", AttemptState.RUNNING, 2)
    assert len(bench.alive()) == 2


def test_a_notice_for_one_node_drains_all(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO)
    bench.run_until(job_id, JobState.RUNNING)
    first, second = bench.nodes(bench.live_attempt(job_id))
    bench.notice(second, 120)
    bench.turn()
    for node in (first, second):
        assert bench.beat(node, AgentState.RUNNING).directive == "drain"


def test_the_first_node_that_fails_fails_the_job_and_is_named(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO)
    bench.run_until(job_id, JobState.RUNNING)
    first, second = bench.nodes(bench.live_attempt(job_id))
    bench.exit(second, 137)
    bench.turn()
    assert bench.job(job_id).state is JobState.FAILED
    assert "rank 1" in (bench.job(job_id).detail or "")
    bench.pass_time(120)
    assert bench.alive() == []
    assert first.state is not InstanceState.TERMINATED


def test_a_gang_that_is_not_ready_in_time_is_given_up(bench: Bench) -> None:
    job_id = bench.submit_job(**TWO, retry={"boot_failed": 0})
    bench.turn()
    bench.clock.advance(40)
    bench.turn()
    bench.hello(bench.nodes(bench.live_attempt(job_id))[0])
    for _ in range(70):
        bench.clock.advance(10)
        bench.turn()
    job = bench.job(job_id)
    assert (job.state, job.reason) == (JobState.FAILED, "boot_failed")
    assert "rank 1 never spoke" in (job.detail or "")


def test_all_nodes_or_none(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), capacity=1), gcp=cloud(clock, offer("gcp", 11.0)))
    job_id = bench.submit_job(**TWO)
    bench.turn()
    assert bench.live_attempt(job_id).account == "gcp"
    assert bench.clouds["aws"].created == []
