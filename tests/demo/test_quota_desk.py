"""The quota desk over the real adapters and faces: a job no cloud has quota for, and a service that dies."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from service.cli.client import Client
from service.cli.demo.stage import Stage
from service.cli.failure import CommandError
from tests.notifications.conftest import hook
from tests.notifications.receivers import event_ids
from tests.notifications.slack import Slack, rate_limited, slack_server

SCALE = 30.0
SEED = 20261201
LONGEST = 150.0  # real seconds
SPEC = {
    "name": "blocked",
    "resources": {"gpu": "H100:8"},
    "run": "echo done",
    "spot": "only",
    "max_duration": "1h",
}
SETTINGS: dict[str, Any] = {
    "times": {"poll_quotas": 60, "poll_quota_requests": 60, "poll_offers": 60},
    "quota_desk": {
        "contact": "ops@example.com",
        "words": {"team": "Vision"},
        "justification": "{{ team }} needs {{ gpus }} {{ gpu }}.",
        "rules": [{"name": "h100", "waits": 60, "file": True, "max_gpus": 16}],
    },
}
TOLD = (
    "quota_request_filed",
    "quota_request_approved",
    "quota_request_partly_granted",
    "quota_request_denied",
    "quota_request_effective",
    "job_succeeded",
)
REGIONS = {"aws": ["us-east-1"], "gcp": ["us-central1"], "azure": ["eastus"]}


@dataclass(frozen=True)
class Outcome:
    """How it ended. `told`: the ids of the events that are for people, by subject, in order."""

    job: dict[str, Any]
    requests: list[dict[str, Any]]
    attempts: list[dict[str, Any]]
    told: dict[str, list[int]]


def play(folder: Path, slack: Slack, kills: Sequence[float]) -> Outcome:
    """The service is killed at each of the moments: real seconds after submission, or its latest start."""
    scenario = Path(__file__).with_name("quota_desk.yaml")
    address = folder / "hook"
    address.write_text(slack.hook)
    settings = {
        **SETTINGS,
        "notifications": {
            "channels": [{**hook(slack, "ops", interval=0), "url": f"file:{address}"}],
            "routes": [{"to": ["ops"], "events": list(TOLD)}],
            "allow_hosts": ["127.0.0.1"],
            "storm": 1000,
        },
    }
    (folder / "stage").mkdir()
    with Stage(folder / "stage", scenario, SCALE, settings, REGIONS) as stage:
        stage.start_clouds()
        stage.initialise()
        stage.start_service()
        with stage.client() as client:
            job = client.post("/v1/jobs", SPEC)["id"]
            for wait in kills:
                time.sleep(wait)
                stage.kill_service()
                stage.start_service()
            _until(client, lambda: client.get(f"/v1/jobs/{job}")["state"] == "succeeded")
            _until(client, lambda: all(one["decided_at"] for one in _requests(client)))
            _until(client, lambda: all(one["state"] == "sent" for one in client.pages("/v1/notifications")))
            attempts = client.get(f"/v1/jobs/{job}/attempts")["items"]
            return Outcome(client.get(f"/v1/jobs/{job}"), _requests(client), attempts, _told(client))


def _told(client: Client) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in client.pages("/v1/events", {"oldest_first": True}):
        if event["kind"] in TOLD:
            found[event["subject_id"]].append(event["id"])
    return dict(found)


def _requests(client: Client) -> list[dict[str, Any]]:
    return list(client.pages("/v1/quota-requests"))


def _until(client: Client, done: Callable[[], bool]) -> None:
    until = time.monotonic() + LONGEST
    while True:
        try:
            if done():
                return
        except CommandError:
            if time.monotonic() > until:
                raise
        assert time.monotonic() < until, [
            (one["provider"], one["state"], one["error"], one["detail"]) for one in _requests(client)
        ]
        time.sleep(0.2)


def judge(outcome: Outcome) -> None:
    job, requests, attempts = outcome.job, outcome.requests, outcome.attempts
    found = {
        (one["provider"], one["region"], one["state"]): (one["requested"], one["granted"], one["gpus"])
        for one in requests
    }
    assert found == {
        ("aws", "us-east-1", "approved"): (192, 192, 8),
        ("gcp", "us-central1", "partly_granted"): (8, 4, 8),
        ("gcp", None, "partly_granted"): (8, 4, 8),
        ("azure", "eastus", "denied"): (96, None, 8),
    }
    assert len(requests) == 4, "nothing was filed twice"
    assert {one["origin"] for one in requests} == {"rule"}
    assert all("Vision needs 8 H100." in one["justification"] for one in requests)
    in_effect = {one["provider"]: one["effective_at"] is not None for one in requests}
    assert in_effect == {"aws": True, "gcp": True, "azure": False}
    assert job["state"] == "succeeded"
    assert [(one["provider"], one["reason"]) for one in attempts] == [("aws", "succeeded")]


def judge_slack(slack: Slack, outcome: Outcome, *, copies: int) -> None:
    """Every event arrived, in order per subject; at most so many a second time."""
    arrived = event_ids(slack.texts())
    assert slack.refused == [], "Slack took every message"
    assert {id for ids in outcome.told.values() for id in ids} == set(arrived)
    assert len(arrived) - len(set(arrived)) <= copies
    for ids in outcome.told.values():
        first = sorted(ids, key=arrived.index)
        assert first == ids, "in order"
    words = "\n".join(slack.texts())
    for title in ("Quota request approved", "Quota request granted in part", "Quota request denied"):
        assert title in words


def impatient(slack: Slack) -> None:
    """The first message is refused for a second."""
    slack.fault = lambda found, call, said: rate_limited(1) if len(found.calls) == 1 else None


def test_a_job_without_quota_anywhere_has_it_asked_for_on_all_three_clouds_and_runs(tmp_path: Path) -> None:
    with slack_server() as slack:
        impatient(slack)
        outcome = play(tmp_path, slack, ())
    judge(outcome)
    judge_slack(slack, outcome, copies=0)


@pytest.mark.timeout(400)
def test_killed_five_times_in_between_the_outcome_is_the_same_and_nothing_is_filed_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    chance = Random(SEED)
    with slack_server() as slack:
        outcome = play(tmp_path, slack, [chance.uniform(0.5, 6) for _ in range(5)])
    judge(outcome)
    judge_slack(slack, outcome, copies=5)
