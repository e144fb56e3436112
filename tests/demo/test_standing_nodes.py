"""Standing nodes end to end: the real API over HTTP, the real loops, the real agent in a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from agent.build import build
from service.attempts.model import Charge
from service.loops import steps
from tests.agent.node import NodeMachine
from tests.agent.service import wait_for
from tests.api.listening import listening
from tests.api.service import Service, copied, start, template

BODY = {"name": "rack1-1", "instance_type": "dgx-h100", "gpu": "H100:8", "cost_per_month_usd": 14_600}
WITHOUT = ("market", "notifications", "quotas", "quota_desk")


class World:
    """A service that listens, and whose loops turn whenever a test waits."""

    def __init__(self, service: Service, url: str, machine: NodeMachine) -> None:
        self.service, self.machine = service, machine
        service.ctx.service_url = url
        service.ctx.submit = lambda place, call: call()
        self._steps = {name: step for name, step in steps().items() if name not in WITHOUT}

    def add_node(self) -> None:
        """As a person does it: add, and run the command on the machine."""
        made = self.service.post("/v1/nodes", BODY).json()
        words = made["command"].partition(" node ")[2].split()
        self.machine.start(*words)
        wait_for(lambda: self.service.get("/v1/reservations").json()["items"], "the pool")

    def run(self, **spec: Any) -> str:
        """A job of the class that runs on reserved capacity first."""
        job_id: str = self.service.submit(**{"class": "core"}, **spec)["id"]
        return job_id

    def until(self, job_id: str, state: str) -> None:
        def there() -> bool:
            self.service.clock.advance(0.2)
            for step in self._steps.values():
                step(self.service.ctx)
            return bool(self.service.job(job_id).state == state)

        wait_for(there, f"job {state}: {self.service.job(job_id).detail}; {self.machine.output.read_text()}")

    def until_free(self) -> None:
        def free() -> bool:
            self.service.clock.advance(0.2)
            return bool(self.service.get("/v1/reservations").json()["items"][0]["free"])

        wait_for(free, f"a free node: {self.machine.output.read_text()}")

    def log(self, job_id: str) -> str:
        return self.service.get(f"/v1/jobs/{job_id}/logs").text


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    service = start(tmp_path, copied(template(tmp_path), tmp_path))
    machine = NodeMachine(tmp_path / "machine", build(tmp_path / "agent.pyz"))
    (tmp_path / "machine").mkdir()
    with listening(service) as url:
        yield World(service, url, machine)
        machine.close()
    service.client.close()
    service.database.close()


def test_jobs_run_one_after_another_on_an_enrolled_machine(world: World) -> None:
    world.add_node()
    for word in ("first", "second"):
        job_id = world.run(run=f"echo the {word}; test ! -e mark; touch mark")
        world.until(job_id, "succeeded")
        assert f"the {word}" in world.log(job_id)
        world.until_free()
    (item,) = world.service.get("/v1/nodes").json()["items"]
    assert item["state"] == "idle"
    instances = world.service.get("/v1/instances?all=true").json()["items"]
    assert {one["provider"] for one in instances} == {"standing"}
    charges = world.service.database.read(lambda session: session.exec(select(Charge)).all())
    assert {charge.price_micros for charge in charges} == {20_000_000}


def test_a_cancelled_job_gives_the_machine_back(world: World) -> None:
    world.add_node()
    job_id = world.run(run="sleep 1000")
    world.until(job_id, "running")
    assert world.service.get("/v1/nodes").json()["items"][0]["job_id"] == job_id
    assert world.service.call("DELETE", "/v1/nodes/rack1-1").status_code == 409
    world.service.post(f"/v1/jobs/{job_id}:cancel", {})
    world.until(job_id, "cancelled")
    world.until_free()
    assert not world.machine.job_processes()
