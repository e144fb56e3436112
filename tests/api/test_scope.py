"""A token of one project sees nothing of another's, by any route."""

from __future__ import annotations

import pytest

from service.api.permissions import REQUIRED
from service.projects.model import Role
from tests.api.service import Service

OF_A_JOB = sorted(route for route in REQUIRED if "{job_id}" in route)
OF_A_PROJECT = sorted(route for route in REQUIRED if "{project}" in route)
LISTS = ("/v1/jobs", "/v1/events", "/v1/instances", "/v1/tokens", "/v1/projects")


@pytest.fixture
def theirs(service: Service) -> str:
    """The token of another project's admin; `default` holds a job and a secret."""
    service.project("theirs")
    return service.token(Role.ADMIN, "theirs")


@pytest.mark.parametrize("route", OF_A_JOB)
def test_another_projects_job_is_404(service: Service, theirs: str, route: str) -> None:
    job = service.submit()["id"]
    method, _, path = route.partition(" ")
    assert service.call(method, path.format(job_id=job), theirs).status_code == 404
    assert service.get(f"/v1/jobs/{job}").json()["state"] == "queued"


@pytest.mark.parametrize("route", OF_A_PROJECT)
def test_another_project_is_404(service: Service, theirs: str, route: str) -> None:
    service.call("PUT", "/v1/projects/default/secrets/NAME", json={"value": "a value of ours"})
    method, _, path = route.partition(" ")
    body = {"json": {"value": "theirs"}} if method == "PUT" else {}
    answer = service.call(method, path.format(project="default", name="NAME"), theirs, **body)
    assert answer.status_code in (403, 404)
    assert "a value of ours" not in answer.text


@pytest.mark.parametrize("path", LISTS)
def test_lists_hold_nothing_of_another_project(service: Service, theirs: str, path: str) -> None:
    job = service.submit(name="secret-plan")["id"]
    service.call("PUT", "/v1/projects/default/secrets/NAME", json={"value": "a value of ours"})
    answer = service.get(path, theirs)
    assert answer.status_code == 200
    assert job not in answer.text
    assert "secret-plan" not in answer.text
    assert "default" not in answer.text


def test_a_job_cannot_be_submitted_into_another_project(service: Service, theirs: str) -> None:
    spec = {"name": "x", "run": "true", "project": "default"}
    assert service.post("/v1/jobs", spec, theirs).status_code == 404
    assert service.get("/v1/jobs").json()["items"] == []
