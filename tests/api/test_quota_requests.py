"""/v1/quota-requests: plan, ask, decide, list; waits and history."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import Session, select

from providers.memory import MemoryProvider
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import CapacityType, Scope
from service.projects.model import Role
from service.quota_desk.model import QuotaRequest
from service.quotas.model import QuotaReading
from service.quotas.rows import to_row
from service.states import QuotaRequestState
from tests.api.service import Service

BODY = {"provider": "aws", "region": "us-east-1", "gpu": "H100:16", "capacity_type": "spot"}


@pytest.fixture
def desk(service: Service) -> Service:
    """One account that sells H100 as spot and has no quota for it."""
    provider = MemoryProvider("main", ["us-east-1"], service.clock, provider="aws")
    service.ctx.providers = {("aws", "main"): provider}
    service.offer(capacity_type=CapacityType.SPOT)
    gates = (Scope(region="us-east-1", family="P", capacity_type=CapacityType.SPOT),)
    quota = Quota(
        "L-7212CCBC", "All P Spot", "us-east-1", QuotaUnit.VCPU, 0, 0, gates, service.now, adjustable=True
    )
    service.database.write(lambda session: session.add(to_row("aws", "main", quota)))
    return service


def rows(desk: Service) -> list[QuotaRequest]:
    return desk.database.read(lambda session: list(session.exec(select(QuotaRequest)).all()))


def ask(desk: Service, token: str | None = None, **changes: Any) -> dict[str, Any]:
    answer = desk.post("/v1/quota-requests", {**BODY, **changes}, token)
    assert answer.status_code == 201, answer.text
    (item,) = answer.json()["items"]
    return dict(item)


def test_a_plan_shows_the_limits_and_writes_nothing(desk: Service) -> None:
    plan = desk.post("/v1/quota-requests:plan", BODY).json()
    assert (plan["instance_type"], plan["instances"], plan["gpus"]) == ("p5.48xlarge", 2, 16)
    (limit,) = plan["limits"]
    assert (limit["key"], limit["limit"], limit["requested"], limit["verdict"]) == (
        "L-7212CCBC",
        0,
        384,
        "raise",
    )
    assert "16 H100" in limit["justification"]
    assert rows(desk) == []


def test_an_admins_request_is_filed_and_wakes_the_desk(desk: Service) -> None:
    item = ask(desk)
    assert (item["state"], item["requested"], item["unit"]) == ("draft", 384, "vcpu")
    assert "quota_desk" in desk.woken
    assert desk.get(f"/v1/quota-requests/{item['id']}").json()["id"] == item["id"]


def test_a_members_request_is_proposed_and_an_admin_approves_or_denies_it(desk: Service) -> None:
    member = desk.token(Role.MEMBER, "default")
    item = ask(desk, member)
    assert item["state"] == "proposed"
    path = f"/v1/quota-requests/{item['id']}"
    assert desk.post(f"{path}:approve", token=member).status_code == 403
    assert desk.post(f"{path}:approve", token=desk.token(Role.ADMIN, "default")).status_code == 403
    for _ in range(2):
        assert desk.post(f"{path}:approve").json()["state"] == "draft"
    assert desk.post(f"{path}:deny").status_code == 409
    second = desk.post("/v1/quota-requests", {**BODY, "region": "us-east-1"}, member).json()["items"][0]
    assert second["id"] == item["id"], "the open one is adopted"


def test_a_proposal_that_was_turned_down_is_not_filed(desk: Service) -> None:
    item = ask(desk, propose=True)
    path = f"/v1/quota-requests/{item['id']}"
    denied = desk.post(f"{path}:deny", {"why": "too dear"}).json()
    assert (denied["state"], denied["reason"]) == ("withdrawn", "turned_down")
    assert "too dear" in denied["detail"]
    assert desk.post(f"{path}:approve").status_code == 409


def test_a_request_can_be_taken_back_until_it_may_have_been_sent(desk: Service) -> None:
    item = ask(desk)
    path = f"/v1/quota-requests/{item['id']}:withdraw"

    def send(session: Session) -> None:
        session.get_one(QuotaRequest, item["id"]).sent_at = desk.now

    desk.database.write(send)
    assert "console" in desk.post(path).json()["detail"]
    other = ask(desk, propose=True)
    assert other["id"] == item["id"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"provider": "gcp"}, "provider"),
        ({"region": "eu-west-1"}, "region"),
        ({"account": "other"}, "account"),
        ({"gpu": "H100"}, None),
        ({"gpu": "B200:8"}, "gpu"),
        ({"gpu": "H1000:8"}, "gpu"),
        ({"gpu": None}, ""),
        ({"instances": 2}, ""),
        ({"gpu": None, "instances": 2}, ""),
        ({"gpu": None, "instances": 2, "instance_type": "p9"}, "instance_type"),
        ({"capacity_type": "on_demand"}, "gpu"),
        ({"limits": 3}, "limits"),
    ],
)
def test_a_wish_that_cannot_be_asked_for_is_refused_by_field(
    desk: Service, changes: dict[str, Any], field: str | None
) -> None:
    answer = desk.post("/v1/quota-requests", {**BODY, **changes})
    if field is None:
        assert answer.json()["items"][0]["gpus"] == 8, "one GPU needs an instance of eight"
        return
    assert answer.status_code == 422, answer.text
    assert not field or field in [error["field"] for error in answer.json()["errors"]]
    assert rows(desk) == []


def test_gcp_wants_a_contact_before_anything_is_asked_for(service: Service) -> None:
    provider = MemoryProvider("main", ["us-central1"], service.clock, provider="gcp")
    service.ctx.providers = {("gcp", "main"): provider}
    service.offer(provider="gcp", region="us-central1", zone="us-central1-a")
    quota = Quota("Q", "Q", "us-central1", QuotaUnit.GPU, 0, 0, (Scope(),), service.now)
    service.database.write(lambda session: session.add(to_row("gcp", "main", quota)))
    answer = service.post("/v1/quota-requests", {"provider": "gcp", "region": "us-central1", "gpu": "H100:8"})
    assert answer.status_code == 422
    assert "quota_desk.contact" in answer.text


def test_requests_are_listed_by_state_and_what_is_a_projects_own_stays_there(desk: Service) -> None:
    desk.project("theirs")
    theirs = desk.token(Role.VIEWER, "theirs")
    item = ask(desk, why="for the secret plan")
    listed = desk.get("/v1/quota-requests?open=true&gpu=h100").json()["items"]
    assert [one["id"] for one in listed] == [item["id"]]
    assert "secret plan" in listed[0]["justification"]
    assert desk.get("/v1/quota-requests?state=denied").json()["items"] == []
    seen = desk.get("/v1/quota-requests", theirs)
    assert [one["id"] for one in seen.json()["items"]] == [item["id"]]
    assert "secret plan" not in seen.text
    assert desk.get("/v1/quota-requests/qr-none").status_code == 404


def test_explain_says_what_is_short_what_was_asked_for_and_how_long_that_takes(desk: Service) -> None:
    decided = ask(desk)

    def decide(session: Session) -> None:
        row = session.get_one(QuotaRequest, decided["id"])
        row.state, row.granted = QuotaRequestState.APPROVED, row.requested
        row.filed_at, row.decided_at = desk.now - timedelta(days=2), desk.now

    desk.database.write(decide)
    again = ask(desk)
    job = desk.submit()
    (short,) = desk.get(f"/v1/jobs/{job['id']}:explain").json()["quotas"]
    assert (short["missing"], short["unit"], short["limit"]) == (192, "vcpu", 0)
    assert "192 more in us-east-1 would do" in short["detail"]
    assert short["request"] == {"id": again["id"], "state": "draft"}
    assert short["similar"]["decision"] == {"p50_seconds": 172800.0, "p90_seconds": 172800.0, "n": 1}
    (group,) = desk.get("/v1/quota-waits?gpu=H100").json()["items"]
    assert (group["size"], group["decision"]["n"], group["share_granted"]) == ("9-64", 1, 1.0)


def test_without_requests_there_are_no_waits(any_service: Service) -> None:
    assert any_service.get("/v1/quota-waits").json() == {"items": [], "next_cursor": None}


def test_the_history_of_a_limit_is_newest_first_and_paged(any_service: Service) -> None:
    def write(session: Session) -> None:
        for number in range(3):
            session.add(QuotaReading(quota_id="a/b/c/d", read_at=any_service.now, limit=number, usage=None))
            session.flush()

    any_service.database.write(write)
    first = any_service.get("/v1/quota-history?quota_id=a/b/c/d&limit=2").json()
    assert [row["limit"] for row in first["items"]] == [2, 1]
    rest = any_service.get(f"/v1/quota-history?quota_id=a/b/c/d&cursor={first['next_cursor']}").json()
    assert [row["limit"] for row in rest["items"]] == [0]
    assert rest["items"][0]["usage"] is None
