"""The same service on PostgreSQL: one URL is all that differs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, Killed, cloud, offer
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture
def bench(postgres_url: str, tmp_path: Path, clock: FakeClock) -> Iterator[Bench]:
    clouds = {"aws": cloud(clock, offer("aws", 10.0), capacity=1), "gcp": cloud(clock, offer("gcp", 11.0))}
    made = Bench(tmp_path, clouds, clock, url=postgres_url)
    yield made
    made.database.close()


def test_preempted_jobs_end_well_and_leave_nothing(bench: Bench) -> None:
    jobs = [bench.submit_job(f"job-{n}") for n in range(4)]
    for job_id in jobs:
        bench.run_until(job_id, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(jobs[0]))
    bench.clouds[node.account].preempt(node.provider_id or "", notice_seconds=120)
    bench.notice(node, 120)
    bench.pass_time(1200)
    for job_id in jobs:
        (node,) = bench.nodes(bench.live_attempt(job_id))
        bench.exit(node, 0)
        bench.run_until(job_id, JobState.SUCCEEDED)
    bench.pass_time(120)
    assert "preempted" in [attempt.reason for attempt in bench.attempts(jobs[0])]
    assert bench.alive() == []


@pytest.mark.parametrize("commit", [2, 5, 8, 11])
def test_a_process_killed_at_a_commit_leaves_one_instance(bench: Bench, commit: int) -> None:
    job_id = bench.submit_job()
    bench.die_at_commit(commit)
    with suppress(Killed):
        bench.run_until(job_id, JobState.RUNNING)
    bench.restart()
    bench.run_until(job_id, JobState.RUNNING, within=2000)
    assert sum(len(cloud.created) for cloud in bench.clouds.values()) == 1
