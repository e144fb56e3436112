"""Who is told, and when: routes, digests, quiet hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.notifications.routing import handle, quiet_until
from service.notifications.settings import NotificationRoute, Quiet
from service.notifications.topics import Severity

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NIGHT = {"start": "22:00", "end": "07:00", "timezone": "Europe/Berlin"}


def route(**fields: Any) -> NotificationRoute:
    return NotificationRoute.model_validate({"to": ["ops"], **fields})


def told(
    routes: list[NotificationRoute], topic: str, severity: Severity, project: str | None = None
) -> list[str]:
    return [one.channel for one in handle(routes, topic, severity, project, NOW)]


def test_a_route_takes_its_events_its_project_and_what_matters_enough() -> None:
    routes = [
        route(to=["a"], events=["job_failed"]),
        route(to=["b"], project="research"),
        route(to=["c"], severity="error"),
    ]
    assert told(routes, "job_failed", Severity.ERROR, "research") == ["a", "b", "c"]
    assert told(routes, "job_started", Severity.INFO, "research") == ["b"]
    assert told(routes, "job_started", Severity.INFO, "other") == []
    assert told(routes, "orphan_quarantined", Severity.PAGE) == ["c"]


def test_a_channel_that_several_routes_name_gets_an_event_once_and_as_the_most_urgent_says() -> None:
    routes = [route(digest=3600), route(), route(events=["job_failed"], page=True)]
    (one,) = handle(routes, "job_failed", Severity.ERROR, None, NOW)
    assert (one.severity, one.held, one.due_at) == (Severity.PAGE, False, NOW)
    (other,) = handle(routes, "job_started", Severity.INFO, None, NOW)
    assert (other.severity, other.held) == (Severity.INFO, False)


def test_a_digest_ends_for_all_at_the_same_time() -> None:
    ends = {
        handle([route(digest=3600)], "job_started", Severity.INFO, None, NOW + timedelta(minutes=m))[0].due_at
        for m in (0, 10, 59)
    }
    assert ends == {NOW + timedelta(hours=1)}


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("2026-01-15T20:59:00+00:00", "2026-01-15T20:59:00+00:00"),
        ("2026-01-15T21:00:00+00:00", "2026-01-16T06:00:00+00:00"),
        ("2026-01-16T05:59:00+00:00", "2026-01-16T06:00:00+00:00"),
        ("2026-01-16T06:00:00+00:00", "2026-01-16T06:00:00+00:00"),
        # Clocks go forward at 01:00 UTC on 29 March, back on 25 October: 07:00 is 05:00, then 06:00 UTC.
        ("2026-03-28T22:30:00+00:00", "2026-03-29T05:00:00+00:00"),
        ("2026-10-24T21:30:00+00:00", "2026-10-25T06:00:00+00:00"),
    ],
)
def test_quiet_hours_are_those_of_the_clock_on_the_wall(at: str, until: str) -> None:
    quiet = Quiet.model_validate(NIGHT)
    assert quiet_until(quiet, datetime.fromisoformat(at)) == datetime.fromisoformat(until)


def test_quiet_hours_by_day_end_the_same_day() -> None:
    quiet = Quiet(start="09:00", end="17:00", timezone="Asia/Kolkata")
    at = datetime(2026, 1, 15, 4, 0, tzinfo=UTC)  # 09:30 there
    assert quiet_until(quiet, at) == datetime(2026, 1, 15, 11, 30, tzinfo=UTC)


def test_in_quiet_hours_news_waits_and_a_page_does_not() -> None:
    night = datetime(2026, 1, 15, 23, 0, tzinfo=UTC)
    (news,) = handle([route(quiet=NIGHT)], "job_failed", Severity.ERROR, None, night)
    assert (news.held, news.due_at) == (True, datetime(2026, 1, 16, 6, 0, tzinfo=UTC))
    (page,) = handle([route(quiet=NIGHT)], "orphan_quarantined", Severity.PAGE, None, night)
    assert (page.held, page.due_at) == (False, night)
    (made,) = handle([route(quiet=NIGHT, page=True)], "job_failed", Severity.ERROR, None, night)
    assert (made.held, made.due_at) == (False, night)
