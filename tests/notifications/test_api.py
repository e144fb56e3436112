"""Notifications over HTTP and on the command line's paths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.notifications.loop import Notifier
from service.projects.model import Role
from tests.api.conftest import schema
from tests.api.service import Service, copied, start
from tests.notifications.slack import Answer, Slack

__all__ = ["schema"]


@pytest.fixture
def service(schema: Path, tmp_path: Path, slack: Slack) -> Iterator[Service]:
    channel = {"name": "ops", "type": "slack_webhook", "url": "env:HOOK", "interval": 0}
    notifications = {"channels": [channel], "allow_hosts": ["127.0.0.1"], "tries": 1}
    made = start(tmp_path, copied(schema, tmp_path), overrides={"notifications": notifications})
    made.ctx.environment = {"HOOK": slack.hook}
    made.ctx.submit = lambda place, call: call()
    yield made
    made.client.close()
    made.client.app.state.api.close()  # type: ignore[attr-defined]
    made.database.close()


def turn(service: Service) -> None:
    notifier = Notifier()
    for _ in range(3):
        notifier.step(service.ctx)


def test_a_channel_is_tried_and_the_message_listed(service: Service, slack: Slack) -> None:
    turn(service)
    answer = service.post("/v1/notification-channels/ops:test")
    assert answer.status_code == 202
    turn(service)
    assert len(slack.messages) == 1
    (item,) = service.get("/v1/notifications", params={"subject": answer.json()["subject"]}).json()["items"]
    assert (item["state"], item["channel"], item["topic"]) == ("sent", "ops", "channel_test")
    full = service.get(f"/v1/notifications/{item['id']}").json()
    assert full["title"] == "A test of this channel"
    assert len(full["event_ids"]) == 1


def test_a_dead_letter_is_seen_and_sent_again_under_its_old_id(service: Service, slack: Slack) -> None:
    turn(service)
    slack.fault = lambda slack, call, said: Answer(403, "action_prohibited")
    service.post("/v1/notification-channels/ops:test")
    turn(service)
    (dead,) = service.get("/v1/notifications", params={"state": "dead"}).json()["items"]
    assert "403" in dead["error"]
    (channel,) = service.get("/v1/notification-channels").json()["items"]
    assert (channel["name"], channel["dead"]) == ("ops", 1)
    slack.fault = None
    assert service.post(f"/v1/notifications/{dead['id']}:resend").status_code == 202
    turn(service)
    assert len(slack.messages) == 1
    assert service.get(f"/v1/notifications/{dead['id']}").json()["state"] == "sent"
    again = service.post(f"/v1/notifications/{dead['id']}:resend")
    assert (again.status_code, again.json()["type"]) == (409, "urn:corral:problem:not_dead")


def test_what_does_not_exist_is_404_and_a_wrong_state_is_named(service: Service) -> None:
    assert service.post("/v1/notification-channels/none:test").status_code == 404
    assert service.get("/v1/notifications/m-none").status_code == 404
    wrong = service.get("/v1/notifications", params={"state": "lost"})
    assert wrong.status_code == 422
    assert "waiting" in str(wrong.json()["errors"])


def test_only_admins_of_all_projects_see_them(service: Service) -> None:
    for token in (service.token(Role.MEMBER), service.token(Role.ADMIN, project="research")):
        assert service.get("/v1/notifications", token).status_code == 403
        assert service.post("/v1/notification-channels/ops:test", token=token).status_code == 403


def test_dead_letters_and_failing_channels_are_in_the_metrics(service: Service, slack: Slack) -> None:
    turn(service)
    slack.fault = lambda slack, call, said: Answer(403, "action_prohibited")
    service.post("/v1/notification-channels/ops:test")
    turn(service)
    text = service.get("/metrics").text
    assert 'corral_notifications{state="dead"} 1.0' in text
    assert 'corral_channel_failures{channel="ops"} 1.0' in text
