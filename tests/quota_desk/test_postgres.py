"""The desk on PostgreSQL: one URL is all that differs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.memory import Answer
from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench
from tests.postgres import postgres_server, postgres_url
from tests.quota_desk.desk import DAY, HOUR, NODE, configure, leap, limited, requests

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture
def desk(postgres_url: str, tmp_path: Path, clock: FakeClock) -> Iterator[Bench]:
    made = Bench(tmp_path, {"aws": limited(clock, "aws", 0)}, clock, url=postgres_url)
    yield made
    made.database.close()


def test_a_rule_asks_it_is_denied_asked_again_granted_and_the_job_runs(desk: Bench) -> None:
    configure(
        desk,
        rules=[{"name": "h100", "waits": HOUR, "file": True, "max_gpus": 8}],
        refile={"after": DAY / 2},
    )
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0))
    job_id = desk.submit_job()
    leap(desk, 2 * HOUR)
    desk.clouds["aws"].answer_requests(Answer(after=HOUR))
    desk.clouds["aws"].file_by_hand("H100-spot", "aws-1", NODE / 2)
    leap(desk, 14 * HOUR)
    desk.run_until(job_id, JobState.RUNNING, within=HOUR)
    assert [(row.origin, row.state) for row in requests(desk)] == [
        ("rule", "denied"),
        ("console", "approved"),
        ("refile", "approved"),
    ]
