"""The same on PostgreSQL, where claims and order rest on other locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from providers.memory import MemoryCloud
from service.states import MessageState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, Killed
from tests.notifications.conftest import Desk, hook
from tests.notifications.receivers import event_ids
from tests.notifications.slack import Slack, rate_limited
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture
def desk(postgres_url: str, tmp_path: Path, clock: FakeClock) -> Iterator[Desk]:
    bench = Bench(tmp_path, {"aws": MemoryCloud(clock)}, clock, url=postgres_url)
    yield Desk(bench)
    bench.database.close()


def test_a_storm_a_wait_and_a_page_arrive_in_order_and_once(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("job_waiting_long", "job/j-0")
    slack.fault = None
    desk.happen_at_once([("job_failed", f"job/j-{n}") for n in range(20)])
    desk.happen("orphan_quarantined", "instance/i-1")
    desk.pass_time(300)
    ids = event_ids(slack.texts())
    assert len(ids) == len(set(ids)) == 22
    assert {message.state for message in desk.messages()} == {MessageState.SENT}


@pytest.mark.parametrize("commit", [1, 2, 3, 4])
def test_killed_at_a_commit_the_event_arrives_once(desk: Desk, slack: Slack, commit: int) -> None:
    desk.configure(hook(slack))
    desk.bench.die_at_commit(commit)
    try:
        desk.happen("job_failed")
    except Killed:
        desk.bench.restart()
    desk.pass_time(900)  # a claim of the dead process runs out
    assert len(slack.messages) == 1
