"""The real service as a process: killed with SIGKILL, reloaded, and spoken to by the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from service.cli.child import Child, environment_of_child
from service.cli.client import Client
from service.cli.connection import Connection
from service.cli.failure import CommandError
from tests.notifications.conftest import bot, hook
from tests.notifications.receivers import event_ids
from tests.notifications.slack import BOT_TOKEN, HOOK, Answer, Slack

KINDS = {"hook": hook, "bot": bot}


class Deployment:
    """A service that can be killed and started again over its data."""

    def __init__(self, folder: Path, slack: Slack, kind: str) -> None:
        self.slack = slack
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "data_dir": str(folder / "data"),
            "listen": {"port": port},
            "notifications": {
                "channels": [KINDS[kind](slack, "ops", interval=0)],
                "allow_hosts": ["127.0.0.1"],
                "storm": 1000,
            },
        }
        (folder / "corral.yaml").write_text(json.dumps(settings))
        self.folder = folder
        self.environment = environment_of_child(
            CORRAL_CONFIG=str(folder / "corral.yaml"), HOOK_URL=slack.hook, BOT_TOKEN=BOT_TOKEN
        )
        command = [sys.executable, "-m", "service.cli", "init", "--json"]
        made = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        self.token = json.loads(made.stdout)["token"]
        self.child = self.start()

    def start(self) -> Child:
        child = Child(["serve"], self.folder / "service.log", self.environment)
        child.wait_until(self._is_ready, 60)
        return child

    def happen(self) -> None:
        """One event that is told to the channel."""
        with Client(Connection(self.url, self.token)) as client:
            client.post("/v1/notification-channels/ops:test")

    def until_told(self, number: int) -> None:
        """Wait until so many different events have arrived and the service knows that they have."""

        def told() -> bool:
            with Client(Connection(self.url, self.token)) as client:
                items = client.get("/v1/notifications", {"limit": 100})["items"]
            arrived = set(event_ids(self.slack.texts()))
            return len(arrived) >= number and all(item["state"] == "sent" for item in items)

        self.child.wait_until(told, 60)

    def corral(self, *arguments: str) -> str:
        """What a command says, on both streams."""
        environment = {**self.environment, "CORRAL_URL": self.url, "CORRAL_TOKEN": self.token}
        command = [sys.executable, "-m", "service.cli", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def log(self) -> str:
        return (self.folder / "service.log").read_text()

    def _is_ready(self) -> bool:
        try:
            with Client(Connection(self.url)) as client:
                client.get("/readyz")
        except CommandError:
            return False
        return True


@pytest.mark.parametrize("kind", KINDS)
def test_each_event_arrives_and_a_second_copy_only_where_the_kill_fell_between_answer_and_commit(
    slack: Slack, tmp_path: Path, kind: str
) -> None:
    deployment = Deployment(tmp_path, slack, kind)
    try:
        for _ in range(3):
            deployment.happen()
        deployment.until_told(3)
        deployment.child.kill()  # with everything told: nothing may come again

        deployment.child = deployment.start()
        slack.on_post = deployment.child.kill  # the message is there, the answer never comes
        with suppress(CommandError):  # it may be gone before it has answered us
            deployment.happen()
        with pytest.raises(CommandError):
            deployment.child.wait_until(lambda: False, 60)
        slack.on_post = None

        deployment.child = deployment.start()
        slack.fault = lambda slack, call, said: Answer(429, "", {"Retry-After": "1"})
        deployment.happen()
        deployment.child.wait_until(lambda: any(slack.calls), 30)
        deployment.child.kill()  # while the receiver has us wait
        slack.fault = None

        deployment.child = deployment.start()
        deployment.until_told(5)
    finally:
        deployment.child.stop()
    assert HOOK not in deployment.log()
    assert BOT_TOKEN not in deployment.log()
    counts = Counter(event_ids(slack.texts()))
    first_seen = list(dict.fromkeys(event_ids(slack.texts())))
    assert len(counts) == 5
    assert first_seen == sorted(first_seen)
    twice = [event for event, number in counts.items() if number > 1]
    if kind == "hook":
        assert twice == [first_seen[3]]
        assert counts[first_seen[3]] == 2
    else:
        assert len(slack.messages) == 5


def test_the_command_line_tries_a_channel_and_a_reload_that_names_no_secret_is_refused(
    slack: Slack, tmp_path: Path
) -> None:
    deployment = Deployment(tmp_path, slack, "hook")
    with deployment.child as child:
        assert "ops: the message has arrived" in deployment.corral("notifications", "test", "ops")
        assert "slack_webhook" in deployment.corral("notifications", "channels")
        slack.fault = lambda slack, call, said: Answer(403, "action_prohibited")
        assert "HTTP 403 action_prohibited; it is tried again" in deployment.corral(
            "notifications", "test", "ops"
        )
        assert "action_prohibited" in deployment.corral("notifications", "ls", "--state", "waiting")
        settings = json.loads((tmp_path / "corral.yaml").read_text())
        settings["notifications"]["channels"][0]["url"] = "env:NOT_SET"
        (tmp_path / "corral.yaml").write_text(json.dumps(settings))
        os.kill(child.pid, signal.SIGHUP)
        child.wait_until(lambda: "reload_refused" in deployment.log(), 20)
    assert "notifications.channels ops.url: the variable NOT_SET is not set" in deployment.log()
    assert HOOK not in deployment.log()
    refused = Child(["serve"], tmp_path / "second.log", deployment.environment)
    with pytest.raises(CommandError, match=r"ops\.url: the variable NOT_SET is not set"):
        refused.wait_until(lambda: False, 60)
    refused.stop()
