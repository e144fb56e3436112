"""Taking in a job: what is refused, with the field; what is kept; what is said."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlmodel import select

from service.events.model import Event
from service.jobs.model import Job
from service.projects.model import Role
from service.states import JobState
from tests.api.service import SPEC, Service, copied, start

REAL_ACCOUNT = {"name": "main", "provider": "aws", "regions": {"us-east-1": {}}}
IN_THE_CLOUD = {
    "accounts": [REAL_ACCOUNT],
    "public_url": "https://corral.example",
    "trusted_proxies": ["::1"],
}

# what is wrong, the spec's changes, the field that the reply must name
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("unknown GPU", {"resources": {"gpu": "H1000:8"}}, "resources.gpu"),
    ("negative count", {"resources": {"gpu": "H100:-8"}}, "resources.gpu"),
    ("negative count as a number", {"resources": {"gpu": {"name": "H100", "count": -1}}}, "resources.gpu"),
    ("no GPU at all in a GPU wish", {"resources": {"gpu": "H100:0"}}, "resources.gpu"),
    ("negative nodes", {"resources": {"nodes": -2}}, "resources.nodes"),
    ("deadline in the past", {"deadline": "2026-02-28T23:00:00Z"}, "deadline"),
    ("deadline without an offset", {"deadline": "2026-09-01T12:00:00"}, "deadline"),
    ("deadline that is nonsense", {"deadline": "soon"}, "deadline"),
    ("checkpoint without a destination", {"checkpoint": {"path": "/ckpt"}}, "checkpoint.to"),
    ("checkpoint to nowhere known", {"checkpoint": {"path": "/c", "to": "ftp://x"}}, "checkpoint.to"),
    ("checkpoint on a relative path", {"checkpoint": {"path": "c", "to": "storage"}}, "checkpoint.path"),
    ("10 MB of env", {"env": {"BLOB": "x" * 10_000_000}}, "env"),
    ("env with a bad name", {"env": {"A-B": "1"}}, "env.A-B"),
    ("env without a value", {"env": ["HF_TOKEN"]}, "env.HF_TOKEN"),
    ("a name with a newline", {"name": "train\n"}, "name"),
    ("a name with a slash", {"name": "a/b"}, "name"),
    ("an empty command", {"run": ""}, "run"),
    ("an unknown field", {"gpus_wanted": 8}, "gpus_wanted"),
    ("an unknown class", {"class": "urgent"}, "class"),
    ("a free price", {"max_price": 0}, "max_price"),
    ("a duration of nothing", {"max_duration": "0h"}, "max_duration"),
    ("a duration in no unit", {"max_duration": "3 moons"}, "max_duration"),
    ("a value for a secret", {"secrets": {"HF_TOKEN": "hf_abc"}}, "secrets"),
    ("a secret that is not there", {"secrets": ["HF_TOKEN"]}, "secrets"),
    ("a file that was not uploaded", {"files": [{"path": "a", "sha256": "0" * 64}]}, "files.0.sha256"),
    ("a file outside of its folder", {"files": [{"path": "../a", "sha256": "0" * 64}]}, "files.0.path"),
    ("a workdir that was not uploaded", {"workdir": "1" * 64}, "workdir"),
    ("a password in a URL", {"git": "https://me:secret@example.com/x"}, "git"),
    ("a zone for a region", {"regions": ["us-east-1a"]}, "regions"),
    ("a cloud that is none", {"clouds": ["ibm"]}, "clouds"),
    ("a region of another cloud", {"clouds": ["gcp"], "regions": ["us-east-1"]}, "regions"),
    ("too many nodes", {"num_nodes": 65}, "num_nodes"),
    ("a spot use that is none", {"spot": {"use": "maybe"}}, "spot.use"),
]


@pytest.mark.parametrize(("changes", "field"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_spec_is_422_with_the_field_and_nothing_is_created(
    service: Service, changes: dict[str, Any], field: str
) -> None:
    answer = service.post("/v1/jobs", {**SPEC, **changes})
    assert answer.status_code == 422, answer.text[:500]
    problem = answer.json()
    assert problem["type"] == "urn:corral:problem:invalid"
    assert field in [error["field"] for error in problem["errors"]]
    assert all(error["problem"] for error in problem["errors"])
    assert service.count(Job) == 0
    assert service.count(Event) == 0
    assert service.woken == []


def test_an_unknown_gpu_is_answered_with_those_that_may_be_meant(service: Service) -> None:
    answer = service.post("/v1/jobs", {**SPEC, "resources": {"gpu": "H1000:8"}})
    assert "H100" in answer.json()["errors"][0]["allowed"]


def test_a_deadline_is_kept_as_a_moment_in_utc(service: Service) -> None:
    for deadline, kept in (
        ("2026-03-02T12:00:00Z", "2026-03-02T12:00:00Z"),
        ("2026-03-02T12:00:00+02:00", "2026-03-02T10:00:00Z"),
        ("8h", "2026-03-01T20:00:00Z"),
    ):
        job = service.submit(deadline=deadline, duration="6h")
        assert (job["deadline"], job["deadline_at_risk"]) == (kept, False)
        assert job["spec"]["deadline"] == kept


def test_a_deadline_without_a_duration_is_refused_since_it_could_not_be_kept(service: Service) -> None:
    answer = service.post("/v1/jobs", {**SPEC, "deadline": "8h"})
    assert answer.status_code == 422
    assert "needs duration" in answer.text


def test_the_same_key_with_a_deadline_from_now_on_is_the_same_job(service: Service) -> None:
    spec = {**SPEC, "deadline": "8h", "duration": "2h"}
    first = service.post("/v1/jobs", spec, headers={"Idempotency-Key": "k"})
    service.clock.advance(60)
    again = service.post("/v1/jobs", spec, headers={"Idempotency-Key": "k"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    assert again.json()["deadline"] == first.json()["deadline"]


def test_spot_only_for_a_long_job_without_a_checkpoint_is_refused_unless_insisted_on(
    service: Service,
) -> None:
    spec = {**SPEC, "duration": "3d", "checkpoint": None}
    refused = service.post("/v1/jobs", {**spec, "spot": "only"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "spot"
    assert "spot.use: force" in refused.json()["errors"][0]["problem"]
    assert service.post("/v1/jobs", {**spec, "spot": "force"}).status_code == 201
    auto = service.post("/v1/jobs", spec)
    assert any("no checkpoint" in text and "not put on spot" in text for text in auto.json()["warnings"])


def test_every_wrong_field_is_named_at_once(service: Service) -> None:
    answer = service.post("/v1/jobs", {"name": "A B", "gpu": "X:1", "max_cost": -5, "class": "x"})
    fields = {error["field"] for error in answer.json()["errors"]}
    assert fields == {"name", "gpu", "max_cost", "class", "run"}


def test_a_job_is_queued_with_its_event_and_the_scheduler_is_woken(service: Service) -> None:
    job = service.submit()
    row = service.job(job["id"])
    assert (row.state, row.waiting_since, row.wake_at) == (JobState.QUEUED, service.now, service.now)
    (event,) = service.get(f"/v1/jobs/{job['id']}/events").json()["items"]
    assert event["kind"] == "job_submitted"
    assert service.woken == ["scheduler"]
    assert job["state"] == "queued"
    assert job["spec"]["resources"]["gpu"] == {
        "name": ["H100"],
        "count": 8,
        "min_memory_gb": None,
        "max_memory_gb": None,
    }


def test_yaml_and_json_say_the_same(service: Service) -> None:
    for kind in ("application/yaml", "text/yaml", "application/x-yaml", ""):
        headers = {"Content-Type": kind} if kind else {}
        body = yaml.safe_dump(dict(SPEC))
        answer = service.call("POST", "/v1/jobs", content=body, headers=headers)
        assert answer.status_code == 201, answer.text
        assert answer.json()["spec"] == service.submit()["spec"]


def test_numbers_in_the_env_of_a_yaml_spec_stay_as_they_were_written(service: Service) -> None:
    body = "name: a\nrun: x\nenv: {VERSION: 1.10, ZEROS: 007, ON: yes, BIG: 1e5}\n"
    answer = service.call("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/yaml"})
    assert answer.json()["spec"]["env"] == {"VERSION": "1.10", "ZEROS": "007", "ON": "yes", "BIG": "1e5"}


@pytest.mark.parametrize("body", ["a: &x [1]\nb: *x", "a: 1\na: 2", "{", "a: !!python/object:os.system x"])
def test_yaml_that_hides_something_is_400(service: Service, body: str) -> None:
    answer = service.call("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_that_is_no_json_is_400_and_another_type_is_415(service: Service) -> None:
    answer = service.call("POST", "/v1/jobs", content=b"{nope", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["detail"][:20]) == (400, "the body is not JSON")
    answer = service.call("POST", "/v1/jobs", content=b"a=b", headers={"Content-Type": "text/csv"})
    assert (answer.status_code, "application/yaml" in answer.json()["allowed"]) == (415, True)


def test_a_body_beyond_every_measure_is_413(service: Service) -> None:
    body = json.dumps({**SPEC, "env": {"A": "x" * (17 << 20)}})
    answer = service.call("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_same_key_gives_the_same_job_however_it_is_spelt(any_service: Service) -> None:
    headers = {"Idempotency-Key": "run-42"}
    first = any_service.post("/v1/jobs", dict(SPEC), headers=headers)
    other = {"name": "train", "commands": ["python train.py"], "accelerators": {"H100": 8}}
    second = any_service.post("/v1/jobs", other, headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert any_service.count(Job) == 1


def test_the_same_key_with_another_spec_is_409_and_names_the_job(any_service: Service) -> None:
    headers = {"Idempotency-Key": "run-42"}
    first = any_service.post("/v1/jobs", dict(SPEC), headers=headers).json()
    answer = any_service.post("/v1/jobs", {**SPEC, "name": "other"}, headers=headers)
    assert (answer.status_code, answer.json()["job_id"]) == (409, first["id"])
    assert any_service.count(Job) == 1


def test_a_key_is_a_projects_own(service: Service) -> None:
    headers = {"Idempotency-Key": "run-42"}
    mine, theirs = service.token(Role.MEMBER, "mine"), service.token(Role.MEMBER, "theirs")
    ids = {
        service.post("/v1/jobs", dict(SPEC), token, headers=headers).json()["id"] for token in (mine, theirs)
    }
    assert len(ids) == 2


def test_the_same_key_sent_twenty_times_at_once_makes_one_job(any_service: Service) -> None:
    def send(_: int) -> str:
        answer = any_service.post("/v1/jobs", dict(SPEC), headers={"Idempotency-Key": "once"})
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(send, range(20)))) == 1
    assert any_service.count(Job) == 1


def test_the_project_is_the_tokens_or_the_one_that_is_named(service: Service) -> None:
    service.project("vision")
    assert service.submit()["project"] == "default"
    assert service.submit(project="vision")["project"] == "vision"
    assert service.post("/v1/jobs?project=vision", dict(SPEC)).json()["project"] == "vision"
    assert service.submit(service.token(Role.MEMBER, "vision"))["project"] == "vision"
    answer = service.post("/v1/jobs?project=default", {**SPEC, "project": "vision"})
    assert answer.json()["errors"][0]["field"] == "project"


def test_what_may_surprise_is_said(service: Service) -> None:
    warned = " ".join(service.submit(env={"HF_TOKEN": "hf_123456"})["warnings"])
    assert "7 days" in warned
    assert "begins again" in warned
    assert "env.HF_TOKEN" in warned
    quiet = service.submit(
        max_duration="2h", spot="never", checkpoint={"path": "/c", "to": "storage", "grace": "30s"}
    )
    assert quiet["warnings"] == []
    assert quiet["spec"]["checkpoint"]["grace_seconds"] == 30


def test_a_folder_takes_checkpoints_only_of_local_clouds(schema: Path, tmp_path: Path) -> None:
    url = copied(schema, tmp_path)
    cloud = start(tmp_path, url, overrides=IN_THE_CLOUD)
    for to in ("file:///ckpt", "storage"):
        answer = cloud.post("/v1/jobs", {**SPEC, "checkpoint": {"path": "/c", "to": to}})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "checkpoint.to"
        assert "s3://…" in answer.json()["errors"][0]["allowed"]
    s3 = cloud.submit(checkpoint={"path": "/c", "to": "s3://bucket/x"})
    assert any("no credentials for s3://bucket/x" in text for text in s3["warnings"])
    local = start(tmp_path, url)
    assert local.submit(checkpoint={"path": "/c", "to": "file:///ckpt"})["state"] == "queued"
    for made in (cloud, local):
        made.database.close()


def test_the_limits_of_the_settings_are_obeyed(schema: Path, tmp_path: Path) -> None:
    made = start(tmp_path, copied(schema, tmp_path), environment={"CORRAL_LIMITS__MAX_NODES": "2"})
    assert made.submit(num_nodes=2)["nodes"] == 2
    answer = made.post("/v1/jobs", {**SPEC, "num_nodes": 3})
    assert answer.json()["errors"] == [{"field": "num_nodes", "problem": "is 3; at most 2 are allowed here"}]
    made.database.close()


def test_env_values_stand_in_no_event(service: Service) -> None:
    service.submit(env={"ANY": "canary-5521"})
    events = service.database.read(lambda session: session.exec(select(Event)).all())
    assert events
    assert "canary-5521" not in str([event.model_dump() for event in events])
