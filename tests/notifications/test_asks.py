"""Slack asks: approve and deny, by HTTP and by Socket Mode."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from sqlmodel import Session

from service.notifications import interactions
from service.notifications.loop import Notifier
from service.notifications.socket_mode import SocketListeners
from service.quota_desk.ask import tell_new
from service.quota_desk.model import Origin, QuotaRequest
from service.states import QuotaRequestState
from tests.api.conftest import schema
from tests.api.listening import listening
from tests.api.service import Service, copied, start
from tests.notifications.slack import BOT_TOKEN, CHANNEL, Slack, text_of
from tests.notifications.sockets import Socket, socket_server

__all__ = ["schema"]

SIGNING = "canary-signing-secret"
BOSS, OTHER = "U0BOSS", "U0OTHER"


@pytest.fixture
def sockets(slack: Slack) -> Iterator[Socket]:
    with socket_server(slack) as found:
        yield found


@pytest.fixture
def service(schema: Path, tmp_path: Path, slack: Slack, sockets: Socket) -> Iterator[Service]:
    channel = {
        "name": "ops",
        "type": "slack_bot",
        "token": "env:TOKEN",
        "channel": CHANNEL,
        "api_url": slack.api,
        "signing_secret": "env:SIGNING",
        "app_token": "env:APP_TOKEN",
        "approvers": [BOSS],
        "interval": 0,
    }
    notifications = {"channels": [channel], "routes": [{"to": ["ops"]}], "allow_hosts": ["127.0.0.1"]}
    made = start(tmp_path, copied(schema, tmp_path), overrides={"notifications": notifications})
    made.ctx.environment = {"TOKEN": BOT_TOKEN, "SIGNING": SIGNING, "APP_TOKEN": sockets.app_token}
    made.ctx.submit = lambda place, call: call()
    yield made
    made.client.close()
    made.client.app.state.api.close()  # type: ignore[attr-defined]
    made.database.close()


def turn(service: Service) -> None:
    notifier = Notifier()
    for _ in range(3):
        notifier.step(service.ctx)


def propose(service: Service, request_id: str = "qr-1") -> QuotaRequest:
    """A request that a rule proposes."""
    row = QuotaRequest(
        id=request_id,
        ask_id="ask-1",
        provider="aws",
        account="main",
        region="us-east-1",
        place_region="us-east-1",
        quota_id="aws/main/us-east-1/L-417A185B",
        key="L-417A185B",
        name="Running On-Demand P instances",
        state=QuotaRequestState.PROPOSED,
        limit_before=0,
        requested=384,
        gpu="H100",
        gpus=16,
        origin=Origin.RULE,
        created_at=service.now,
    )

    def write(session: Session) -> None:
        session.add(row)
        tell_new(session, row, now=service.now)

    service.database.write(write)
    turn(service)
    return row


def state(service: Service, request_id: str = "qr-1") -> QuotaRequest:
    return service.database.read(lambda session: session.get_one(QuotaRequest, request_id))


def payload(slack: Slack, action: str = "approve", user: str = BOSS, value: str = "qr-1") -> dict[str, Any]:
    """What Slack sends of a click."""
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "someone"},
        "channel": {"id": CHANNEL, "name": "ops"},
        "response_url": slack.hook,
        "actions": [{"action_id": f"quota_request_{action}", "value": value, "type": "button"}],
    }


def signed(
    service: Service, said: Any, *, age: int = 0, secret: str = SIGNING, at: str | None = None
) -> tuple[str, dict[str, str]]:
    """Body and headers as Slack sends them."""
    body = urlencode({"payload": json.dumps(said)})
    at = at if at is not None else str(int(service.now.timestamp()) - age)
    digest = hmac.new(secret.encode(), f"v0:{at}:{body}".encode(), hashlib.sha256).hexdigest()
    return body, {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={digest}",
    }


def click(service: Service, said: Any, **how: Any) -> int:
    body, headers = signed(service, said, **how)
    return service.call("POST", "/slack/interactions", "", content=body, headers=headers).status_code


def answers(slack: Slack) -> list[str]:
    return [one["text"] for one in slack.messages if one.get("response_type") == "ephemeral"]


def test_a_proposal_has_two_buttons_and_a_click_on_approve_files_it(service: Service, slack: Slack) -> None:
    propose(service)
    (root,) = slack.roots()
    (buttons,) = [block for block in root["blocks"] if block["type"] == "actions"]
    assert [(one["action_id"], one["value"]) for one in buttons["elements"]] == [
        ("quota_request_approve", "qr-1"),
        ("quota_request_deny", "qr-1"),
    ]
    assert click(service, payload(slack)) == 200
    row = state(service)
    assert (row.state, row.decided_by) == (QuotaRequestState.DRAFT, f"slack:{BOSS}")
    assert answers(slack) == ["The request is approved."]
    turn(service)
    assert "Quota request goes out" in text_of(root)
    assert not [block for block in root["blocks"] if block["type"] == "actions"]


def test_a_click_on_deny_turns_it_down(service: Service, slack: Slack) -> None:
    propose(service)
    assert click(service, payload(slack, "deny")) == 200
    assert state(service).state is QuotaRequestState.WITHDRAWN
    assert answers(slack) == ["The request is turned down."]


def test_only_approvers_decide(service: Service, slack: Slack) -> None:
    propose(service)
    assert click(service, payload(slack, user=OTHER)) == 200
    assert state(service).state is QuotaRequestState.PROPOSED
    assert "not among those who may decide" in answers(slack)[0]


def test_a_click_in_a_channel_of_another_app_decides_nothing(service: Service, slack: Slack) -> None:
    propose(service)
    said = payload(slack) | {"channel": {"id": "C9999999"}}
    assert click(service, said) == 200
    assert state(service).state is QuotaRequestState.PROPOSED


@pytest.mark.parametrize(
    "how",
    [{"secret": "another"}, {"age": 301}, {"age": -301}, {"at": "yesterday"}, {"at": ""}, {"at": "9" * 30}],
)
def test_what_slack_did_not_sign_just_now_is_refused(
    service: Service, slack: Slack, how: dict[str, Any]
) -> None:
    propose(service)
    assert click(service, payload(slack), **how) == 401
    assert state(service).state is QuotaRequestState.PROPOSED


def test_clicks_sent_twice_and_by_two_people_decide_once(service: Service, slack: Slack) -> None:
    propose(service)
    for action in ("approve", "approve", "deny"):
        assert click(service, payload(slack, action)) == 200
    assert state(service).state is QuotaRequestState.DRAFT
    assert "Nothing was changed" in answers(slack)[2]


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {"type": "view_submission"},
        {"type": "block_actions"},
        {"type": "block_actions", "actions": [1]},
    ],
)
def test_a_payload_that_is_no_click_of_ours_is_answered_and_changes_nothing(
    service: Service, said: Any
) -> None:
    assert click(service, said) == 200


def test_a_request_that_does_not_exist_is_said_not_to(service: Service, slack: Slack) -> None:
    assert click(service, payload(slack, value="qr-none")) == 200
    assert "no quota request qr-none" in answers(slack)[0]


def test_slack_has_its_answer_although_the_database_is_busy(
    service: Service, slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose(service)
    monkeypatch.setattr(interactions, "ANSWER_WITHIN", 0.05)
    held, free = threading.Event(), threading.Event()

    def hold(session: Session) -> None:
        held.set()
        free.wait(20)

    busy = threading.Thread(target=lambda: service.database.write(hold))
    busy.start()
    assert held.wait(10)
    with listening(service) as url:
        body, headers = signed(service, payload(slack))
        connection = HTTPConnection(urlsplit(url).netloc, timeout=10)
        connection.request("POST", "/slack/interactions", body=body, headers=headers)
        answer = connection.getresponse().status
        undecided = not free.is_set()
        free.set()
        busy.join()
        _wait_for(lambda: bool(answers(slack)))
        connection.close()
    assert (answer, undecided) == (200, True)
    assert state(service).state is QuotaRequestState.DRAFT


def test_a_decision_that_cannot_be_kept_is_said_not_to_be(
    service: Service, slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose(service)

    def fails(work: Any) -> Any:
        raise OSError("disk full")

    monkeypatch.setattr(service.database, "write", fails)
    assert click(service, payload(slack)) == 200
    assert "could not be kept" in answers(slack)[0]
    assert state(service).state is QuotaRequestState.PROPOSED


def test_without_a_public_address_clicks_come_by_socket_mode(
    service: Service, slack: Slack, sockets: Socket
) -> None:
    propose(service)
    listeners = SocketListeners(service.ctx)
    listeners.follow()
    try:
        sockets.send({"type": "interactive", "envelope_id": "e-1", "payload": payload(slack)})
        assert sockets.acknowledged(within=10) == "e-1"
        _wait_for(lambda: bool(answers(slack)))
    finally:
        listeners.close()
    assert state(service).state is QuotaRequestState.DRAFT
    assert answers(slack) == ["The request is approved."]


def _wait_for(true: Any) -> None:
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until
        threading.Event().wait(0.01)
