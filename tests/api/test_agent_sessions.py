"""What an instance's claim and session are good for, and until when. Case ids: SEC-04."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx2 import Response
from sqlmodel import Session, select

from service.agents.claim import claim_code
from service.attempts.model import Attempt
from service.attempts.rows import instances_of
from service.instances.model import Instance
from service.states import AttemptState, InstanceState
from tests.api.service import Service

CANARY = "c4nary-in-the-mine"


class Machine:
    """An instance of an attempt that has been accepted; it speaks as an agent does."""

    def __init__(self, service: Service, job_id: str, number: int = 1) -> None:
        self.service = service
        self.attempt_id = service.attempt(job_id, number=number)
        self.name = f"i-{self.attempt_id}"
        self.code = claim_code(service.ctx.deployment_key, self.attempt_id)
        self.session = ""
        self.change(provider_id=self.name)

    def change(self, state: AttemptState | None = None, **values: Any) -> None:
        def write(session: Session) -> None:
            attempt = session.get_one(Attempt, self.attempt_id)
            attempt.state = state or attempt.state
            instance = instances_of(session, self.attempt_id)[0]
            for name, value in values.items():
                setattr(instance, name, value)
            session.add(attempt)
            session.add(instance)

        self.service.database.write(write)

    def hello(self, **changes: Any) -> Response:
        said = {
            "protocol": 1,
            "claim_code": self.code,
            "instance_id": self.name,
            "boot_id": "boot",
            "agent_version": "1",
            **changes,
        }
        answer = self.service.client.post("/agent/v1/hello", json=said)
        if answer.status_code == 200:
            self.session = answer.json()["session"]
        return answer

    def call(self, method: str, path: str, body: Any = None) -> Response:
        headers = {"Authorization": f"Bearer {self.session}", "Corral-Protocol": "1"}
        content = None if body is None else json.dumps(body).encode()
        return self.service.client.request(method, f"/agent/v1/{path}", content=content, headers=headers)


@pytest.fixture
def machine(service: Service) -> Machine:
    service.call("PUT", "/v1/projects/default/secrets/HF_TOKEN", json={"value": CANARY})
    made = Machine(service, service.submit(secrets=["HF_TOKEN"])["id"])
    assert made.hello().status_code == 200
    return made


def test_a_session_gets_the_secrets_of_its_attempt_while_that_runs(machine: Machine) -> None:
    assert machine.call("GET", "assignment").json()["secrets"] == {"HF_TOKEN": CANARY}


def test_a_session_that_is_left_of_an_ended_attempt_gets_no_secret_and_no_file(machine: Machine) -> None:
    machine.change(AttemptState.ENDED)
    for path in ("assignment", f"blobs/{'0' * 64}"):
        answer = machine.call("GET", path)
        assert (answer.status_code, CANARY in answer.text) == (410, False), path
    heard = machine.call("POST", "heartbeat", {"epoch": 1, "state": "running"})
    assert heard.json()["directive"] == "end"


def test_nobody_speaks_for_an_instance_that_is_proved_gone(machine: Machine) -> None:
    machine.service.database.write(_terminate)
    for method, path, body in (
        ("GET", "assignment", None),
        ("POST", "heartbeat", {"epoch": 1, "state": "running"}),
        ("POST", "exit", {"epoch": 1, "exit_code": 0, "reason": "exited"}),
        ("POST", "logs?epoch=1&offset=0", "text"),
    ):
        assert machine.call(method, path, body).status_code == 410, path
    assert machine.hello().status_code == 410


def _terminate(session: Session) -> None:
    for instance in session.exec(select(Instance)).all():
        instance.state = InstanceState.TERMINATED
        session.add(instance)


@pytest.mark.parametrize("address", ["10.0.0.1\n10.0.0.2", "fe80::1%a b", "$(id)", "1.2.3", "localhost", ""])
def test_an_address_that_other_nodes_are_told_is_an_address(machine: Machine, address: str) -> None:
    answer = machine.hello(private_ip=address)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "private_ip")


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1", "127.0.0.2", None])
def test_addresses_of_both_kinds_are_taken(machine: Machine, address: str | None) -> None:
    assert machine.hello(private_ip=address).status_code == 200


def test_sizes_that_no_document_holds_are_refused(machine: Machine) -> None:
    assert machine.hello(memory_bytes=2**64).status_code == 422
    assert machine.hello(gpus=[{"name": "H100", "memory_bytes": 2**64}]).status_code == 422
    gpus = [{"utilization": 0.5, "memory_used_bytes": 2**70}]
    heard = machine.call("POST", "heartbeat", {"epoch": 1, "state": "running", "gpus": gpus})
    assert heard.status_code == 422


def test_what_an_agent_says_of_its_instance_is_shown_and_told_of_once(machine: Machine) -> None:
    gpus = [{"utilization": 0.5, "memory_used_bytes": 2**30}]
    said = {"epoch": 1, "state": "running", "gpus": gpus, "degraded": ["notice_channel_down"]}
    for _ in range(2):
        assert machine.call("POST", "heartbeat", said).status_code == 200
    service = machine.service
    (shown,) = service.get("/v1/instances").json()["items"]
    assert (shown["gpus_now"], shown["degraded"]) == (gpus, ["notice_channel_down"])
    assert len(service.get("/v1/events?kind=instance_degraded").json()["items"]) == 1
    assert machine.call("POST", "heartbeat", {"epoch": 1, "state": "running"}).status_code == 200
    assert service.get("/v1/instances").json()["items"][0]["degraded"] == []
    assert len(service.get("/v1/events?kind=instance_recovered").json()["items"]) == 1


def test_what_a_job_printed_last_is_kept_without_what_steers_a_terminal(machine: Machine) -> None:
    detail = "lost \x1b[2J\0 it\ud800\nall"
    said = {"epoch": 1, "exit_code": 3, "reason": "exited", "detail": detail}
    assert machine.call("POST", "exit", said).status_code == 200
    row = machine.service.database.read(lambda session: session.exec(select(Instance)).one())
    assert row.exit_detail == "lost \ufffd[2J\ufffd it\ufffd\nall"


def test_a_claim_code_that_is_not_ours_never_waits_for_the_database(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(machine.service.database, "write", lambda work: asked.append("write"))
    for code in ("", ".", f"{machine.attempt_id}.{'0' * 64}", machine.code[:-1], f"x{machine.code}", "é.é"):
        assert machine.hello(claim_code=code).status_code == 403
    assert asked == []


def test_a_session_writes_for_its_own_attempt_only(service: Service, machine: Machine) -> None:
    other = Machine(service, service.submit(name="other")["id"])
    assert other.hello().status_code == 200
    assert machine.hello(claim_code=other.code).status_code == 403  # the other's code, from this instance
    assert machine.call("POST", "heartbeat", {"epoch": 2, "state": "running"}).status_code == 409
    assert other.call("GET", "assignment").json()["secrets"] == {}
    old = machine.session
    assert machine.hello().status_code == 200  # a reboot revokes what was before
    machine.session = old
    assert machine.call("GET", "assignment").status_code == 401
