"""What people read of a job's life, from the real loops; digests, quiet hours, what a reload takes over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.states import JobState, MessageState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.notifications.conftest import Desk, bot, hook
from tests.notifications.slack import Slack, rate_limited, text_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock) -> Iterator[Desk]:
    clouds = {"aws": cloud(clock, offer("aws", 10.0)), "gcp": cloud(clock, offer("gcp", 11.0))}
    bench = Bench(tmp_path, clouds, clock)
    yield Desk(bench)
    bench.database.close()


def test_a_job_that_is_preempted_and_carried_over_is_one_thread_in_order(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    bench = desk.bench
    job = bench.submit_job()
    bench.run_until(job, JobState.RUNNING)
    (node,) = bench.nodes(bench.live_attempt(job))
    bench.clouds[node.account].preempt(node.provider_id or "", notice_seconds=120)
    bench.notice(node, 120)
    bench.pass_time(900)
    (node,) = bench.nodes(bench.live_attempt(job))
    bench.exit(node, 0)
    bench.run_until(job, JobState.SUCCEEDED)
    bench.pass_time(30)
    (root,) = slack.roots()
    told = [one["text"] for one in slack.posted]
    assert told == ["train runs", "train was preempted", "train runs again", "train is done"]
    assert "train is done" in text_of(root)


def test_a_digest_collects_an_hour_into_one_message(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), routes=[{"to": ["hook"], "digest": 3600}])
    for minute in range(10):
        desk.happen("job_failed", f"job/j-{minute}", message=f"failure {minute}")
        desk.pass_time(60)
    assert slack.messages == []
    desk.pass_time(3600)
    (text,) = slack.texts()
    assert "10 events" in text
    assert "failure 0" in text


def test_quiet_hours_end_with_one_message_and_a_page_came_at_once(tmp_path: Path, slack: Slack) -> None:
    night = FakeClock(datetime(2026, 1, 15, 22, 0, tzinfo=UTC))  # 23:00 in Berlin
    bench = Bench(tmp_path, {"aws": cloud(night)}, night)
    bench.environment["HOOK_URL"] = slack.hook
    desk = Desk(bench)
    quiet = {"start": "22:00", "end": "07:00", "timezone": "Europe/Berlin"}
    desk.configure(hook(slack), routes=[{"to": ["hook"], "quiet": quiet}])
    desk.happen("job_failed", "job/j-1")
    desk.happen("job_succeeded", "job/j-2")
    desk.happen("orphan_quarantined", "instance/i-1")
    assert ["An unknown instance" in text for text in slack.texts()] == [True]
    desk.pass_time(7.5 * 3600)
    assert len(slack.messages) == 1
    desk.pass_time(3600)
    assert "2 events" in slack.texts()[1]
    bench.database.close()


def test_a_page_takes_along_what_a_digest_held_back_about_its_subject(desk: Desk, slack: Slack) -> None:
    routes = [{"to": ["hook"], "digest": 3600}, {"to": ["hook"], "events": ["job_failed"], "page": True}]
    desk.configure(hook(slack), routes=routes)
    desk.happen("job_waiting_long", message="waits for 31 min")
    desk.happen("job_failed", message="gave up")
    (text,) = slack.texts()
    assert "gave up" in text
    assert "waits for 31 min" in text
    desk.pass_time(2 * 3600)
    assert len(slack.messages) == 1


def test_new_routes_hold_for_what_happens_from_now_on(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), routes=[])
    desk.happen("job_failed", "job/j-1")
    desk.configure(hook(slack), routes=[{"to": ["hook"], "severity": "error"}])
    desk.happen("job_failed", "job/j-2")
    desk.happen("job_succeeded", "job/j-2")
    desk.pass_time(60)
    assert len(slack.messages) == 1


def test_what_was_sent_is_forgotten_after_its_time(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), keep=3600)
    desk.happen("job_failed")
    desk.pass_time(3 * 3600)
    assert desk.messages() == []


def test_what_waits_is_not_forgotten(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), keep=3600)
    slack.fault = lambda slack, call, said: rate_limited(600)
    desk.happen("job_failed")
    desk.pass_time(3 * 3600)
    assert [message.state for message in desk.messages()] == [MessageState.WAITING]


def test_neither_slacks_sdk_nor_jinja_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, service.serve; print([m for m in sys.modules if m.startswith(('slack_sdk', 'jinja2'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
