"""The service with channels to receivers on loopback: real HTTP and SMTP, a clock moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, col, select

from providers.memory import MemoryCloud
from service.events.record import record
from service.notifications.model import Message
from service.notifications.settings import Notifications
from service.states import MessageState
from tests.clocks import FakeClock
from tests.loops.bench import Bench
from tests.notifications.receivers import SECRET, MailBox, Program, mail_server, program
from tests.notifications.slack import BOT_TOKEN, CHANNEL, Slack, slack_server

LOOPBACK = "127.0.0.1"


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_server() as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Program]:
    with program() as found:
        yield found


@pytest.fixture
def mailbox() -> Iterator[MailBox]:
    with mail_server() as found:
        yield found


class Desk:
    """One service process that has news to tell."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def configure(
        self, *channels: dict[str, Any], routes: list[dict[str, Any]] | None = None, **more: Any
    ) -> None:
        """Take over channels, and routes: by default everything to all of them."""
        names = [channel["name"] for channel in channels]
        settings = Notifications.model_validate(
            {
                "channels": channels,
                "routes": ([{"to": names}] if names else []) if routes is None else routes,
                "allow_hosts": [LOOPBACK],
                **more,
            }
        )
        self.bench.settings = self.bench.settings.model_copy(update={"notifications": settings})
        self.bench.ctx.settings = self.bench.settings
        self.bench.ctx.wake("notifications")
        self.bench.turn()

    def happen(self, kind: str, subject: str = "job/j-1", message: str = "it happened", **data: Any) -> None:
        """An event of a topic that is an event's own kind; sent where its channel is free."""
        self.happen_at_once([(kind, subject)], message, **data)

    def happen_at_once(self, news: list[tuple[str, str]], message: str = "it happened", **data: Any) -> None:
        def write(session: Session) -> None:
            for kind, subject in news:
                of, _, name = subject.partition("/")
                job = name if of == "job" else None
                record(session, kind, of, name, message, at=self.now, job_id=job, **data)

        self.bench.database.write(write)
        self.bench.turn()

    def pass_time(self, seconds: float) -> None:
        self.bench.pass_time(seconds)

    @property
    def now(self) -> Any:
        return self.bench.clock.now()

    def messages(self, *states: MessageState) -> list[Message]:
        statement = select(Message).order_by(col(Message.id))
        if states:
            statement = statement.where(col(Message.state).in_(states))
        return self.bench.database.read(lambda session: list(session.exec(statement).all()))


@pytest.fixture
def desk(tmp_path: Path, clock: FakeClock) -> Iterator[Desk]:
    bench = Bench(tmp_path, {"aws": MemoryCloud(clock)}, clock)
    yield Desk(bench)
    bench.database.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def hook(slack: Slack, name: str = "hook", **more: Any) -> dict[str, Any]:
    """A channel of Slack's incoming webhook; the reference leads to a variable that `known` sets."""
    return {"name": name, "type": "slack_webhook", "url": "env:HOOK_URL", **more}


def bot(slack: Slack, name: str = "bot", **more: Any) -> dict[str, Any]:
    """A channel of a bot."""
    return {
        "name": name,
        "type": "slack_bot",
        "token": "env:BOT_TOKEN",
        "channel": CHANNEL,
        "api_url": slack.api,
        **more,
    }


def program_channel(name: str = "program", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "webhook", "url": "env:PROGRAM_URL", "secret": "env:PROGRAM_KEY", **more}


def mail(box: MailBox, name: str = "mail", **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": "email",
        "host": LOOPBACK,
        "port": box.port,
        "security": "none",
        "sender": "corral@example.com",
        "to": ["ops@example.com"],
        **more,
    }


@pytest.fixture(autouse=True)
def known(request: pytest.FixtureRequest) -> None:
    """The variables that the channels refer to."""
    if "desk" not in request.fixturenames:
        return
    environment = {"BOT_TOKEN": BOT_TOKEN, "PROGRAM_KEY": SECRET}
    if "slack" in request.fixturenames:
        environment["HOOK_URL"] = request.getfixturevalue("slack").hook
    if "receiver" in request.fixturenames:
        environment["PROGRAM_URL"] = request.getfixturevalue("receiver").url
    request.getfixturevalue("desk").bench.environment.update(environment)
