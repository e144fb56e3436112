"""What the settings say of notifications: channels, and routes to them. Secrets are references, never
values.
"""

from __future__ import annotations

from datetime import time
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from providers.config import Name
from service.notifications.topics import TOPICS, Severity

Host = Annotated[str, Field(pattern=r"^[a-z0-9.:-]+$", max_length=253)]


def _is_reference(text: str) -> str:
    if not text.startswith(("env:", "file:")) or text in ("env:", "file:"):
        raise ValueError("expected env:NAME or file:PATH: a secret does not stand in the settings")
    return text


Reference = Annotated[str, Field(max_length=512), AfterValidator(_is_reference)]


def _is_topic(name: str) -> str:
    if name not in TOPICS:
        raise ValueError(f"{name} is no event that can be told of (allowed: {', '.join(TOPICS)})")
    return name


Topic = Annotated[str, AfterValidator(_is_topic)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_NEEDS = {
    "slack_webhook": ("url",),
    "slack_bot": ("token", "channel"),
    "webhook": ("url", "secret"),
    "email": ("host", "sender", "to"),
}
_MAY = {
    "slack_webhook": (),
    "slack_bot": ("signing_secret", "app_token", "approvers", "api_url"),
    "webhook": (),
    "email": ("port", "security", "username", "password"),
}
_EVERY = frozenset({"name", "type", "interval"})
_INTERVALS = {"slack_webhook": 1.0, "slack_bot": 1.0, "webhook": 0.0, "email": 1.0}


class ChannelConfig(_Part):
    """One way out. `type` says which of the other settings it takes.

    slack_webhook: `url`. slack_bot: `token`, `channel` (an id, C…); for buttons `approvers` (ids of users,
    U…) and `signing_secret`, or `app_token` where Slack cannot reach this service (Socket Mode). webhook:
    `url`, `secret`. email: `host`, `port`, `security`, `username`, `password`, `sender`, `to`.
    interval: seconds between two messages at least; not set: 1 for Slack and mail, 0 for a webhook.
    """

    name: Name
    type: Literal["slack_webhook", "slack_bot", "webhook", "email"]
    url: Reference | None = None
    secret: Reference | None = None
    token: Reference | None = None
    channel: str | None = Field(default=None, pattern=r"^[CDG][A-Z0-9]{2,20}$")
    api_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^\s]+/$", max_length=512)
    signing_secret: Reference | None = None
    app_token: Reference | None = None
    approvers: tuple[Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{2,20}$")], ...] = ()
    host: Host | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str | None = Field(default=None, max_length=256)
    password: Reference | None = None
    sender: str | None = Field(default=None, pattern=r"^[^\s@<>]+@[^\s@<>]+$", max_length=254)
    to: tuple[Annotated[str, Field(pattern=r"^[^\s@<>]+@[^\s@<>]+$", max_length=254)], ...] = ()
    interval: float | None = Field(default=None, ge=0, le=3600)

    @model_validator(mode="before")
    @classmethod
    def _only_its_own(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("type") in _NEEDS:
            kind = data["type"]
            its = {*_EVERY, *_NEEDS[kind], *_MAY[kind]}
            wrong = sorted(set(data) & set(cls.model_fields) - its)
            if wrong:
                allowed = ", ".join(sorted(its))
                raise ValueError(f"{wrong[0]}: a {kind} channel has no such setting (allowed: {allowed})")
        return data

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = [name for name in _NEEDS[self.type] if not getattr(self, name)]
        if missing:
            raise ValueError(f"a {self.type} channel needs {' and '.join(missing)}")
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password are given together or not at all")
        if self.approvers and not (self.signing_secret or self.app_token):
            raise ValueError(
                "approvers: give signing_secret, or app_token for Socket Mode, to hear of clicks"
            )
        return self

    @property
    def pause(self) -> float:
        """Seconds between two messages at least."""
        return _INTERVALS[self.type] if self.interval is None else self.interval

    def references(self) -> dict[str, str]:
        """Its secrets, by the setting's name."""
        names = ("url", "secret", "token", "signing_secret", "app_token", "password")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class Quiet(_Part):
    """From `start` to `end` (HH:MM in `timezone`, an IANA name) nothing is sent; it goes out as one message
    at the end. `end` before `start` is the next day's.
    """

    start: str = Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    end: str = Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    timezone: str

    @field_validator("timezone")
    @classmethod
    def _exists(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name} is no time zone; expected an IANA name like Europe/Berlin") from None
        return name

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.start == self.end:
            raise ValueError("start and end are the same")
        return self

    @property
    def span(self) -> tuple[time, time]:
        """Its two times of the day."""
        return time.fromisoformat(self.start), time.fromisoformat(self.end)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.timezone)


class NotificationRoute(_Part):
    """What goes where. Every route that matches is taken; a channel gets an event once, as soon as any of
    them wants. digest: seconds that are collected into one message. page: what matches is for now.
    """

    to: tuple[Name, ...] = Field(min_length=1)
    events: tuple[Topic, ...] = ()
    project: str | None = None
    severity: Severity = Severity.INFO
    digest: float | None = Field(default=None, ge=60, le=7 * 86400)
    quiet: Quiet | None = None
    page: bool = False


class Notifications(_Part):
    """Who is told what. Durations in seconds.

    allow_hosts: hosts that webhooks and mail may use although they are private or speak no TLS. tries: how
    often a message is refused before it is given up. storm: this many of one kind within a minute become one
    message. waiting_after: when a job that waits is told of. keep: how long what was sent stays listed.
    templates: text, in jinja2, that stands in a message of an event instead of ours.
    """

    channels: tuple[ChannelConfig, ...] = ()
    routes: tuple[NotificationRoute, ...] = ()
    allow_hosts: tuple[Host, ...] = ()
    tries: int = Field(default=12, ge=1, le=100)
    storm: int = Field(default=5, ge=2, le=1000)
    waiting_after: float = Field(default=1800, ge=60, le=30 * 86400)
    keep: float = Field(default=30 * 86400, ge=3600, le=366 * 86400)
    templates: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _channels_exist(self) -> Self:
        names = [channel.name for channel in self.channels]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"channels: {', '.join(twice)} is listed more than once")
        for number, route in enumerate(self.routes):
            unknown = [name for name in route.to if name not in names]
            if unknown:
                known = ", ".join(names) or "none"
                raise ValueError(f"routes.{number}.to: there is no channel {unknown[0]} (channels: {known})")
        return self

    @model_validator(mode="after")
    def _templates_are_usable(self) -> Self:
        if not self.templates:
            return self
        from service.notifications.templates import check

        for topic, text in self.templates.items():
            if topic not in TOPICS:
                raise ValueError(f"templates.{topic}: no such event (allowed: {', '.join(TOPICS)})")
            problem = check(text)
            if problem:
                raise ValueError(f"templates.{topic}: {problem}")
        return self

    def channel(self, name: str) -> ChannelConfig | None:
        """The channel of that name; None if the settings have none."""
        return next((channel for channel in self.channels if channel.name == name), None)
