"""What was spent, added up."""

from __future__ import annotations

import pytest

from service.projects.model import Role
from tests.api.service import Service


@pytest.fixture
def spent(service: Service) -> Service:
    """36 USD an hour: two hours in one project, over; half an hour so far in another, still on."""
    service.project("theirs")
    done = service.submit()["id"]
    service.attempt(done, hours=2)
    service.attempt(service.submit(service.token(Role.MEMBER, "theirs"))["id"])
    service.clock.advance(1800)
    return service


def groups(service: Service, query: str = "", token: str | None = None) -> dict[str, float]:
    answer = service.get(f"/v1/costs{query}", token)
    assert answer.status_code == 200
    assert answer.json()["total_usd"] == sum(item["cost_usd"] for item in answer.json()["items"])
    return {item["group"]: item["cost_usd"] for item in answer.json()["items"]}


def test_costs_are_added_up_the_dearest_first_and_what_is_on_counts_up_to_now(spent: Service) -> None:
    assert groups(spent) == {"default": 18.0, "theirs": 18.0}
    spent.clock.advance(3600)
    assert groups(spent) == {"theirs": 54.0, "default": 54.0}
    spent.clock.advance(3600)
    assert list(groups(spent).items()) == [("theirs", 90.0), ("default", 72.0)]
    assert groups(spent, "?by=capacity_type") == {"spot": 162.0}
    assert len(groups(spent, "?by=job")) == 2


def test_only_what_falls_into_the_days_asked_for_counts(spent: Service) -> None:
    spent.clock.advance(9.5 * 3600)
    assert groups(spent, f"?days={1 / 24}") == {"theirs": 36.0}
    assert groups(spent, f"?days={1 / 24}&until=2026-03-01T13:00:00Z") == {"default": 36.0, "theirs": 36.0}
    assert groups(spent, "?until=2026-03-01T11:00:00Z") == {}


def test_a_token_of_one_project_sees_its_own_costs_only(spent: Service) -> None:
    assert groups(spent, token=spent.token(Role.VIEWER, "theirs")) == {"theirs": 18.0}


@pytest.mark.parametrize(
    "query", ["?by=colour", "?days=0", "?days=nan", "?until=0001-01-01T00:00:00Z", "?until=2026-03-01"]
)
def test_a_question_that_makes_no_sense_is_refused(service: Service, query: str) -> None:
    assert service.get(f"/v1/costs{query}").status_code == 422
