"""Every error is problem+json, whoever raised it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from service.api.problems import Problem
from tests.api.service import SPEC, Service

CASES: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/nowhere", {}, 404),
    ("GET", "/v1/jobs/job-0000000000000000", {}, 404),
    ("DELETE", "/v1/jobs", {}, 405),
    ("GET", "/v1/jobs?limit=0", {}, 422),
    ("GET", "/v1/jobs?limit=many", {}, 422),
    ("GET", "/v1/jobs?class=x", {}, 422),
    ("POST", "/v1/jobs", {"content": b"[1, 2]", "headers": {"Content-Type": "application/json"}}, 422),
    ("POST", "/v1/jobs", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/v1/tokens", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/v1/tokens", {"content": b"\xff", "headers": {"Content-Type": "application/json"}}, 400),
    ("POST", "/v1/tokens", {"json": {"name": "a", "roll": "admin"}}, 422),
    ("POST", "/v1/tokens", {"content": b"x" * (3 << 20)}, 413),
    ("POST", "/v1/projects", {"json": {"name": "default"}}, 409),
    ("POST", "/v1/projects", {"json": {"name": "A b"}}, 422),
    ("POST", "/v1/jobs", {"content": b"a", "headers": {"Content-Type": "image/png"}}, 415),
    ("GET", "/v1/jobs", {"headers": {"Authorization": "Bearer no"}}, 401),
]


@pytest.mark.parametrize(("method", "path", "options", "status"), CASES, ids=lambda value: str(value)[:40])
def test_an_error_says_what_is_wrong_in_the_one_shape(
    service: Service, method: str, path: str, options: dict[str, Any], status: int
) -> None:
    token = "" if status == 401 else None
    answer = service.call(method, path, token, **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].startswith("urn:corral:problem:")
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    if status == 422:
        assert all(error["field"] and error["problem"] for error in problem["errors"])


def test_a_body_that_does_not_tell_its_length_is_stopped_too(service: Service) -> None:
    headers = {"Content-Type": "application/json"}
    content = (b" " * (1 << 20) for _ in range(4))
    answer = service.call("POST", "/v1/tokens", content=content, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")


def test_a_fault_of_ours_is_500_and_shows_nothing_but_the_requests_id(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("internal canary")

    monkeypatch.setattr("service.jobs.routes.list_jobs", fail)
    answer = service.get("/v1/jobs", headers={"X-Request-Id": "req-7"})
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "canary" not in answer.text
    assert answer.json()["request_id"] == "req-7"
    assert service.get("/healthz").status_code == 200


def test_a_database_that_is_busy_is_503_with_when_to_try_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise OperationalError("INSERT", {}, Exception("database is locked"))

    monkeypatch.setattr("service.jobs.routes.submit", busy)
    answer = service.post("/v1/jobs", dict(SPEC))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert "INSERT" not in answer.text


def test_each_reply_carries_the_requests_id(service: Service) -> None:
    given = service.get("/v1/jobs", headers={"X-Request-Id": "abc-1"})
    assert given.headers["x-request-id"] == "abc-1"
    made = service.get("/v1/jobs", headers={"X-Request-Id": "no spaces or \x7f"})
    assert made.headers["x-request-id"] != "no spaces or \x7f"
    assert len(made.headers["x-request-id"]) == 16


def test_a_problem_keeps_its_further_members() -> None:
    body = Problem(409, "later", code="wrong_offset", next_offset=12).body()
    assert body == {
        "type": "urn:corral:problem:wrong_offset",
        "title": "Conflict",
        "status": 409,
        "detail": "later",
        "next_offset": 12,
    }


def test_projects_are_made_listed_and_removed_while_they_are_unused(service: Service) -> None:
    assert service.post("/v1/projects", {"name": "vision"}).status_code == 201
    assert service.get("/v1/projects/vision").json()["name"] == "vision"
    assert [one["name"] for one in service.get("/v1/projects?limit=1").json()["items"]] == ["default"]
    token = service.post("/v1/tokens", {"name": "t", "project": "vision"}).json()["token"]
    assert service.call("DELETE", "/v1/projects/vision").status_code == 204
    assert service.get("/v1/jobs", token).status_code == 401
    service.submit()
    assert service.call("DELETE", "/v1/projects/default").status_code == 409


def test_the_data_folder_is_not_served(service: Service, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("x")
    for path in (
        "/docs/assets/../../secret.txt",
        "/docs/assets/..%2f..%2fsecret.txt",
        "/docs/assets/__init__.py",
    ):
        assert service.get(path).status_code == 404
