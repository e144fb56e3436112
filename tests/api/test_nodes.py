"""/v1/nodes and what a node's agent may say: who may, what is refused, what is never shown again."""

from __future__ import annotations

from typing import Any

import pytest
from sqlmodel import select

from service.nodes.model import Node
from service.projects.model import Role
from tests.api.service import Service

BODY = {"name": "rack1-1", "instance_type": "dgx-h100", "gpu": "H100:8", "cost_per_month_usd": 14_600}
SAID: dict[str, Any] = {"protocol": 1, "boot_id": "b-1", "agent_version": "0.1.0", "cpus": 96}


def add(service: Service, **changes: Any) -> dict[str, Any]:
    answer = service.post("/v1/nodes", BODY | changes)
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def enrol(service: Service, code: str, **changes: Any) -> Any:
    return service.call("POST", "/agent/v1/node/enrol", "", json=SAID | {"code": code} | changes)


def poll(service: Service, session: str, **said: Any) -> Any:
    return service.call("POST", "/agent/v1/node/poll", session, json=SAID | said)


def test_a_node_is_added_enrols_and_is_listed_with_its_pool(any_service: Service) -> None:
    made = add(any_service)
    assert made["state"] == "enrolling"
    assert made["enrol_code"] in made["command"]
    session = enrol(any_service, made["enrol_code"], memory_bytes=2 << 40).json()["session"]
    assert poll(any_service, session).json() == {"use": None, "end": False, "poll_seconds": 5.0}
    (item,) = any_service.get("/v1/nodes").json()["items"]
    assert (item["state"], item["pool"], item["price_usd_hour"]) == ("idle", "rack1", 20.0)
    assert (item["vcpus"], item["memory_gib"], item["gpu"], item["gpu_count"]) == (96, 2048, "H100", 8)
    (pool,) = any_service.get("/v1/reservations").json()["items"]
    assert (pool["provider"], pool["kind"], pool["id"], pool["free"]) == ("standing", "standing", "rack1", 1)
    (offer,) = any_service.get("/v1/offers").json()["items"]
    assert (offer["provider"], offer["capacity_type"]) == ("standing", "reserved")


def test_codes_and_sessions_are_kept_as_hashes_and_shown_once(service: Service) -> None:
    made = add(service)
    session = enrol(service, made["enrol_code"]).json()["session"]
    row = service.database.read(lambda s: s.exec(select(Node)).one())
    kept = str(row.model_dump())
    assert made["enrol_code"] not in kept
    assert session not in kept
    assert made["enrol_code"] not in service.get("/v1/nodes").text
    assert session not in service.get("/v1/nodes").text


@pytest.mark.parametrize("code", ["", "corral_enrol_guess", "x" * 255])
def test_a_wrong_code_enrols_nobody(service: Service, code: str) -> None:
    add(service)
    assert enrol(service, code).status_code == 403


def test_a_code_that_was_used_or_is_an_hour_old_enrols_nobody(service: Service) -> None:
    first = add(service)["enrol_code"]
    session = enrol(service, first).json()["session"]
    poll(service, session)
    assert enrol(service, first).status_code == 403
    late = add(service, name="rack1-2")["enrol_code"]
    service.clock.advance(3601)
    assert enrol(service, late).status_code == 403


@pytest.mark.parametrize("token", ["", "corral_node_guess"])
def test_who_has_no_session_of_a_node_is_told_nothing(service: Service, token: str) -> None:
    add(service)
    assert poll(service, token).status_code == 401


def test_a_session_of_a_node_opens_nothing_else(service: Service) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    assert service.get("/v1/jobs", session).status_code == 401
    headers = {"Corral-Protocol": "1"}
    assert service.get("/agent/v1/assignment", session, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "../etc"},
        {"name": "Rack"},
        {"name": ""},
        {"instance_type": "a b"},
        {"gpu": "H9000:8"},
        {"gpu": "8"},
        {"gpu": "[H100, A100]"},
        {"gpu": "H100:0"},
        {"cost_per_month_usd": -1},
        {"cost_per_month_usd": 1e300},
        {"cost_per_month_usd": None},
        {"region": "eu west; rm"},
        {"vcpus": -1},
        {"memory_gib": 1e12},
        {"fabric": "x" * 17},
        {"password": "secret"},
    ],
)
def test_nonsense_about_a_node_is_refused_and_adds_none(service: Service, changes: dict[str, Any]) -> None:
    assert service.post("/v1/nodes", BODY | changes).status_code == 422
    assert service.count(Node) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"protocol": 99},
        {"boot_id": ""},
        {"cpus": -1},
        {"memory_bytes": 2**70},
        {"private_ip": "10.0.0.1; reboot"},
        {"gpus": [{}] * 65},
        {"running": "x" * 300},
        {"running": 7},
    ],
)
def test_nonsense_from_a_node_is_refused(service: Service, said: dict[str, Any]) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    assert poll(service, session, **said).status_code in (422, 426)


def test_a_node_that_claims_to_run_what_is_not_its_own_is_told_to_end_it(service: Service) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    told = poll(service, session, running="rack1-1.of-another", done="rack1-1.x").json()
    assert (told["use"], told["end"]) == (None, True)


def test_only_an_admin_of_all_projects_changes_nodes(service: Service) -> None:
    add(service)
    for token in (service.token(Role.MEMBER), service.token(Role.ADMIN, "research")):
        assert service.post("/v1/nodes", BODY | {"name": "rack2-1"}, token).status_code == 403
        assert service.post("/v1/nodes/rack1-1:drain", {}, token).status_code == 403
        assert service.post("/v1/nodes/rack1-1:resume", {}, token).status_code == 403
        assert service.call("DELETE", "/v1/nodes/rack1-1", token).status_code == 403
    assert service.get("/v1/nodes", service.token(Role.VIEWER)).status_code == 200


def test_a_name_is_used_once_and_a_pool_holds_equal_nodes(service: Service) -> None:
    add(service)
    assert service.post("/v1/nodes", BODY).status_code == 409
    for change in (
        {"gpu": "A100:8"},
        {"instance_type": "dgx-a100"},
        {"region": "eu"},
        {"fabric": "infiniband"},
    ):
        answer = service.post("/v1/nodes", BODY | {"name": "rack1-2"} | change)
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, "pool_differs")
    add(service, name="rack1-2")


def test_a_drained_node_is_offered_no_more_until_it_is_used_again(service: Service) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    poll(service, session)
    assert service.post("/v1/nodes/rack1-1:drain", {}).json()["state"] == "draining"
    assert service.get("/v1/reservations").json()["items"][0]["total"] == 0
    assert service.post("/v1/nodes/rack1-1:resume", {}).json()["state"] == "idle"
    assert service.get("/v1/reservations").json()["items"][0]["total"] == 1


def test_a_removed_node_is_turned_away_and_its_offer_is_gone(service: Service) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    assert service.call("DELETE", "/v1/nodes/rack1-1").status_code == 204
    assert poll(service, session).status_code == 401
    assert service.get("/v1/offers").json()["items"] == []
    assert service.get("/v1/reservations").json()["items"] == []
    assert service.call("DELETE", "/v1/nodes/rack1-1").status_code == 404


def test_a_node_in_use_is_removed_only_by_force(service: Service) -> None:
    session = enrol(service, add(service)["enrol_code"]).json()["session"]
    poll(service, session)

    def use(s: Any) -> None:
        row = s.exec(select(Node)).one()
        row.use_id, row.job_id = "rack1-1.abc", "j-1"
        s.add(row)

    service.database.write(use)
    refused = service.call("DELETE", "/v1/nodes/rack1-1")
    assert (refused.status_code, "j-1" in refused.text) == (409, True)
    assert service.call("DELETE", "/v1/nodes/rack1-1?force=true").status_code == 204


def test_nodes_are_paged_by_name(service: Service) -> None:
    for number in (1, 2, 3):
        add(service, name=f"rack1-{number}")
    first = service.get("/v1/nodes?limit=2").json()
    rest = service.get(f"/v1/nodes?limit=2&cursor={first['next_cursor']}").json()
    assert [item["name"] for page in (first, rest) for item in page["items"]] == [
        "rack1-1",
        "rack1-2",
        "rack1-3",
    ]


def test_the_agent_is_given_to_who_has_a_code_and_to_nobody_else(service: Service) -> None:
    made = add(service)
    assert service.get("/agent/v1/node/agent.pyz", "guess").status_code == 403
    assert service.get("/agent/v1/node/agent.pyz", "").status_code == 401
    missing = service.get("/agent/v1/node/agent.pyz", made["enrol_code"])
    assert (missing.status_code, "agent_zipapp" in missing.text) == (404, True)
