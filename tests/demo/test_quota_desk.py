"""The quota desk over the real adapters and faces: a job no cloud has quota for, and a service that dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from service.cli.client import Client
from service.cli.demo.stage import Stage
from service.cli.failure import CommandError

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
REGIONS = {"aws": ["us-east-1"], "gcp": ["us-central1"], "azure": ["eastus"]}


def play(folder: Path, kills: Sequence[float]) -> tuple[dict[str, Any], list[dict[str, Any]], list[Any]]:
    """The job, the requests and the attempts at the end; the service is killed at each of the moments (real
    seconds after the submission, or after its latest start).
    """
    scenario = Path(__file__).with_name("quota_desk.yaml")
    with Stage(folder, scenario, SCALE, SETTINGS, REGIONS) as stage:
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
            attempts = client.get(f"/v1/jobs/{job}/attempts")["items"]
            return client.get(f"/v1/jobs/{job}"), _requests(client), attempts


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


def judge(job: dict[str, Any], requests: list[dict[str, Any]], attempts: list[Any]) -> None:
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


def test_a_job_without_quota_anywhere_has_it_asked_for_on_all_three_clouds_and_runs(tmp_path: Path) -> None:
    judge(*play(tmp_path, ()))


@pytest.mark.timeout(400)
def test_killed_five_times_in_between_the_outcome_is_the_same_and_nothing_is_filed_twice(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    chance = Random(SEED)
    judge(*play(tmp_path, [chance.uniform(0.5, 6) for _ in range(5)]))
