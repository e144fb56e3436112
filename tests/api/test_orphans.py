"""What a person decides about an instance that bears our tag and belongs to no job."""

from __future__ import annotations

import pytest
from sqlmodel import Session

from providers.vocabulary import CapacityType
from service.instances.model import Instance
from service.instances.sweep import ORPHAN, QUARANTINED
from service.projects.model import Deployment, Role
from service.states import InstanceState
from tests.api.service import Service


def _instance(service: Service, purpose: str = ORPHAN) -> str:
    row = Instance(
        id="i-0000000000000001",
        node=0,
        token="f" * 32,
        state=InstanceState.RUNNING,
        reason=QUARANTINED,
        purpose=purpose,
        provider="aws",
        account="main",
        region="us-east-1",
        zone="use1-az4",
        instance_type="p5.48xlarge",
        capacity_type=CapacityType.SPOT,
        provider_id="i-0abc",
        planned_at=service.now,
    )

    def write(session: Session) -> None:
        session.add(row)

    service.database.write(write)
    return row.id


def _state(service: Service, instance_id: str) -> tuple[InstanceState, str | None]:
    row = service.database.read(lambda session: session.get_one(Instance, instance_id))
    return row.state, row.reason


def test_an_orphan_can_be_ended(service: Service) -> None:
    instance = _instance(service)
    assert service.post(f"/v1/instances/{instance}:end").status_code == 200
    assert _state(service, instance)[0] is InstanceState.TERMINATING
    assert "reaper" in service.woken


def test_an_orphan_can_be_left_alone(service: Service) -> None:
    instance = _instance(service)
    assert service.post(f"/v1/instances/{instance}:adopt").json()["reason"] == "adopted"
    assert _state(service, instance) == (InstanceState.RUNNING, "adopted")
    assert service.get("/v1/events?kind=orphan_adopted").json()["items"]


@pytest.mark.parametrize("decision", ["end", "adopt"])
def test_what_serves_a_job_is_not_decided_here(service: Service, decision: str) -> None:
    instance = _instance(service, purpose="attempt")
    assert service.post(f"/v1/instances/{instance}:{decision}").status_code == 409
    assert service.post(f"/v1/instances/i-unknown:{decision}").status_code == 404
    assert _state(service, instance)[0] is InstanceState.RUNNING


def test_an_admin_turns_the_sweep_on_again_after_a_restore(service: Service) -> None:
    def off(session: Session) -> None:
        session.merge(Deployment(id=service.ctx.deployment_id, created_at=service.now, sweep_confirmed=False))

    service.database.write(off)
    assert (
        service.post("/v1/deployment:confirm-sweep", token=service.token(Role.ADMIN, "mine")).status_code
        == 403
    )
    assert service.post("/v1/deployment:confirm-sweep").json()["changed"] is True
    row = service.database.read(lambda session: session.get_one(Deployment, service.ctx.deployment_id))
    assert row.sweep_confirmed
    assert service.get("/v1/events?kind=sweep_confirmed").json()["items"]
    assert service.post("/v1/deployment:confirm-sweep").json()["changed"] is False
