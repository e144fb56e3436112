"""Who gets in, and to what. Case ids: SEC-05, SEC-06."""

from __future__ import annotations

from datetime import timedelta

import pytest
from fastapi.routing import iter_route_contexts
from sqlmodel import select

from service.api.permissions import AGENT_PREFIX, PUBLIC, REQUIRED
from service.projects.model import Role, Token
from tests.api.service import SPEC, Service

WRONG = [
    "",
    "Bearer",
    "Basic YTpi",
    "Bearer x",
    "Bearer corral_" + "a" * 43,
    "Bearer corral_agent_" + "a" * 43,
]


def routes(service: Service) -> set[str]:
    """Every route that the application answers, as `METHOD /path`."""
    found = set()
    for route in iter_route_contexts(service.client.app.routes):  # type: ignore[attr-defined]
        for method in route.methods or ():
            found.add(f"{method} {route.path}")
    return found


def filled(path: str) -> str:
    """A path with something in each of its places."""
    values = {
        "job_id": "job-0",
        "project": "default",
        "name": "NAME",
        "sha256": "0" * 64,
        "token_id": "tok-0",
        "instance_id": "i-0",
        "request_id": "qr-0",
        "message_id": "0",
        "channel": "team",
    }
    return path.format(**values)


@pytest.mark.parametrize("header", WRONG)
def test_without_a_good_token_everything_is_401_and_says_how_to_authenticate(
    service: Service, header: str
) -> None:
    answer = service.call("GET", "/v1/jobs", token="", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


def test_SEC_05_each_route_stands_in_the_table_and_the_table_names_no_other(service: Service) -> None:
    ours = {route for route in routes(service) if not route.partition(" ")[2].startswith(AGENT_PREFIX)}
    assert ours - {"HEAD /docs"} == set(PUBLIC) | set(REQUIRED)


def test_SEC_05_no_route_but_the_public_ones_answers_without_a_token(service: Service) -> None:
    open_ = set()
    for route in routes(service):
        method, _, path = route.partition(" ")
        status = service.call(method, filled(path), token="").status_code
        if status not in (401, 403, 422, 426):
            open_.add(route)
    assert open_ <= set(PUBLIC)
    for route in REQUIRED:
        method, _, path = route.partition(" ")
        assert service.call(method, filled(path), token="").status_code == 401, route


def test_SEC_05_agents_routes_need_a_session_or_a_claim_code(service: Service) -> None:
    for route in routes(service):
        method, _, path = route.partition(" ")
        if path.startswith(AGENT_PREFIX):
            headers = {"Corral-Protocol": "1"}
            answer = service.call(
                method, filled(path), headers=headers, json={"epoch": 1, "state": "running"}
            )
            assert answer.status_code in (401, 403, 422), (route, answer.text)


@pytest.mark.parametrize("role", list(Role))
def test_SEC_05_a_role_gets_what_the_table_says_and_nothing_more(service: Service, role: Role) -> None:
    ranks = [Role.VIEWER, Role.MEMBER, Role.ADMIN]
    token = service.token(role, "default")
    for route, needed in REQUIRED.items():
        method, _, path = route.partition(" ")
        refused = service.call(method, filled(path), token).status_code == 403
        if ranks.index(role) < ranks.index(needed):
            assert refused, route
        else:
            assert not refused or route in GLOBAL_ONLY, route


GLOBAL_ONLY = {
    "GET /metrics",
    "POST /v1/projects",
    "DELETE /v1/projects/{project}",
    "POST /v1/deployment:confirm-sweep",
    "POST /v1/instances/{instance_id}:adopt",
    "POST /v1/instances/{instance_id}:end",
    "POST /v1/nodes",
    "POST /v1/nodes/{name}:drain",
    "POST /v1/nodes/{name}:resume",
    "DELETE /v1/nodes/{name}",
    "GET /v1/notifications",
    "GET /v1/notifications/{message_id}",
    "POST /v1/notifications/{message_id}:resend",
    "GET /v1/notification-channels",
    "POST /v1/notification-channels/{channel}:test",
    "POST /v1/quota-requests/{request_id}:approve",
    "POST /v1/quota-requests/{request_id}:deny",
    "POST /v1/quota-requests/{request_id}:withdraw",
}


def test_SEC_05_nobody_grants_more_than_they_hold(service: Service) -> None:
    mine = service.token(Role.ADMIN, "mine")
    service.project("theirs")
    granted = service.post("/v1/tokens", {"name": "t", "role": "member"}, mine)
    assert granted.json()["project"] == "mine"  # a token for one project is all that it can make
    assert service.post("/v1/tokens", {"name": "t", "project": "theirs"}, mine).status_code == 404
    assert service.post("/v1/projects", {"name": "new"}, mine).status_code == 403
    assert service.post("/v1/tokens", {"name": "t"}, service.token(Role.MEMBER)).status_code == 403


def test_SEC_06_a_token_in_the_query_is_not_accepted(service: Service) -> None:
    for name in ("token", "access_token", "api_key"):
        assert service.call("GET", f"/v1/jobs?{name}={service.admin}", token="").status_code == 401


def test_SEC_06_other_origins_get_no_permission_from_us(service: Service) -> None:
    answer = service.get("/v1/jobs", headers={"Origin": "https://elsewhere.example"})
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_a_tokens_text_is_shown_once_and_kept_only_as_a_hash(service: Service) -> None:
    made = service.post("/v1/tokens", {"name": "ci", "role": "viewer"}).json()
    assert made["token"].startswith("corral_")
    assert service.get("/v1/whoami", made["token"]).json()["role"] == "viewer"
    rows = service.database.read(lambda session: session.exec(select(Token)).all())
    assert made["token"] not in str(rows)
    assert made["token"] not in service.get("/v1/tokens").text
    assert made["token"] not in service.get("/v1/events").text


def test_a_revoked_token_is_refused_from_the_next_request_on(service: Service) -> None:
    made = service.post("/v1/tokens", {"name": "ci"}).json()
    assert service.get("/v1/jobs", made["token"]).status_code == 200
    assert service.call("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert service.get("/v1/jobs", made["token"]).status_code == 401
    assert made["id"] not in service.get("/v1/tokens").text
    assert made["id"] in service.get("/v1/tokens?revoked=true").text


def test_a_token_that_another_replica_revoked_is_refused_after_a_second(service: Service) -> None:
    token = service.token()
    assert service.get("/v1/jobs", token).status_code == 200

    def revoke(session) -> None:  # type: ignore[no-untyped-def]
        for row in session.exec(select(Token).where(Token.role == Role.MEMBER)).all():
            row.revoked_at = service.now
            session.add(row)

    service.database.write(revoke)
    service.clock.advance(1.0)
    assert service.get("/v1/jobs", token).status_code == 401


def test_a_token_ends_when_it_was_said_to(service: Service) -> None:
    made = service.post("/v1/tokens", {"name": "ci", "expires_in": "1h"}).json()
    assert service.get("/v1/jobs", made["token"]).status_code == 200
    service.clock.advance(timedelta(hours=1).total_seconds())
    assert service.get("/v1/jobs", made["token"]).status_code == 401


def test_what_belongs_to_another_project_is_404_as_if_it_did_not_exist(service: Service) -> None:
    theirs = service.submit(service.token(Role.MEMBER, "theirs"))["id"]
    mine = service.token(Role.ADMIN, "mine")
    paths = ["", ":explain", "/attempts", "/events", "/logs", "/logs?follow=true"]
    for path in paths:
        answer = service.get(f"/v1/jobs/{theirs}{path}", mine)
        nothing = service.get(f"/v1/jobs/job-0000000000000000{path}", mine)
        assert (answer.status_code, answer.json()) == (404, nothing.json()), path
    assert service.post(f"/v1/jobs/{theirs}:cancel", token=mine).status_code == 404
    assert service.post("/v1/jobs", {**SPEC, "project": "theirs"}, mine).status_code == 404
    assert service.get("/v1/projects/theirs", mine).status_code == 404
    assert service.get("/v1/projects/theirs/secrets", mine).status_code == 404
    assert service.get("/v1/jobs?project=theirs", mine).status_code == 404
    assert service.get("/v1/jobs", mine).json()["items"] == []
    assert theirs not in service.get("/v1/events", mine).text
    assert [p["name"] for p in service.get("/v1/projects", mine).json()["items"]] == ["mine"]
