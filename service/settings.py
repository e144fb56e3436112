"""The settings' shape. Where they come from and how they are reloaded is in `service.configuration`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from clock import ScaledClock
from policies.model import RunClass
from providers.config import AccountConfig, is_loopback
from providers.vocabulary import CapacityType
from service.notifications.settings import Notifications
from service.quota_desk.settings import QuotaDesk

Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/[^\s]*)?$", max_length=512)]


class Part(BaseModel):
    """Unknown keys are errors that name the key; settings do not change once they are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Listen(Part):
    """Where the API listens. `metrics_port`: /metrics on a listener of its own, without a token."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    tls_cert: str | None = None
    tls_key: str | None = None
    metrics_port: int | None = Field(default=None, ge=0, le=65535)

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key are given together or not at all")
        return self


class Times(Part):
    """How long things may take, in seconds.

    heartbeat: how often an agent speaks. silent_after: when an agent that has not spoken counts as
    unreachable. lost_after: when an unreachable instance that its cloud still calls running is given up.
    boot: from acceptance until every node is ready. resend_within: how long a launch whose answer was
    lost may be sent again. orphan_grace: how old an unknown instance must be before it is ended.
    avoid_after_preemption: how long the place of a preemption is avoided for spot. keep_history: how long
    what became of launches is remembered.
    """

    heartbeat: float = Field(default=15, ge=1, le=300)
    silent_after: float = Field(default=60, ge=5, le=3600)
    lost_after: float = Field(default=1800, ge=300, le=86400)
    boot: float = Field(default=1200, ge=60, le=7200)
    resend_within: float = Field(default=600, ge=0, le=3600)
    orphan_grace: float = Field(default=900, ge=60, le=86400)
    avoid_after_preemption: float = Field(default=900, ge=0, le=86400)
    poll_offers: float = Field(default=300, ge=10, le=86400)
    poll_quotas: float = Field(default=600, ge=60, le=86400)
    poll_reservations: float = Field(default=60, ge=30, le=86400)
    poll_signals: float = Field(default=3600, ge=600, le=7 * 86400)
    poll_quota_requests: float = Field(default=900, ge=60, le=86400)
    poll_instances: float = Field(default=60, ge=5, le=3600)
    keep_history: float = Field(default=90 * 86400, ge=86400, le=3650 * 86400)
    max_age_without_limit: float = Field(default=7 * 86400, ge=3600, le=90 * 86400)


class Kept(Part):
    """How long things are kept, in seconds. logs: from the end of their attempt. blobs: uploads that no job
    names. events: also those of jobs that are over. jobs: with attempts, instances and charges, so that
    `corral cost` reaches back no further.
    """

    logs: float = Field(default=30 * 86400, ge=3600)
    blobs: float = Field(default=30 * 86400, ge=86400)
    events: float = Field(default=90 * 86400, ge=86400)
    jobs: float = Field(default=400 * 86400, ge=86400)


class Limits(Part):
    """What is refused beyond. Bytes unless the name says otherwise.

    max_spec: a job's spec as it is sent; larger than what one may hold, so that the reply can name the field
    that is too large. streams: log streams open at once; streams_per_token: of these, with one token.
    """

    max_nodes: int = Field(default=64, ge=1, le=64)
    max_instances: int = Field(default=1000, ge=1)
    max_body: int = Field(default=2 << 20, ge=1 << 16)
    max_spec: int = Field(default=16 << 20, ge=1 << 16)
    max_blob: int = Field(default=200 << 20, ge=1 << 20)
    streams: int = Field(default=500, ge=1, le=10_000)
    streams_per_token: int = Field(default=250, ge=1, le=10_000)
    log_per_attempt: int = Field(default=256 << 20, ge=1 << 16)


class Route(Part):
    """Which policy decides for which jobs, and by what rule; the first route that matches is taken. A
    parameter that is not set is as the policy has it.

    labels: the job has every one of these. capacity_types: what may be used. spot_wait: seconds to insist on
    spot where the job says nothing. moves: whether running jobs are moved to save money; min_dwell, hold:
    seconds that one has run, and that a move has been worth it, before; min_saving: the share of what is left
    to pay that it must save; max_moves: per job. spot_without_checkpoint: seconds, the longest job without a
    checkpoint that is put on spot.
    """

    policy: Literal["cheapest", "core", "exploration", "preprocessing"] = "cheapest"
    run_class: RunClass | None = Field(default=None, alias="class")
    project: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    capacity_types: tuple[CapacityType, ...] | None = Field(default=None, min_length=1)
    spot_wait: float | None = Field(default=None, ge=0, le=30 * 86400)
    moves: bool | None = None
    min_dwell: float | None = Field(default=None, ge=0, le=30 * 86400)
    min_saving: float | None = Field(default=None, ge=0, le=1)
    hold: float | None = Field(default=None, ge=0, le=86400)
    max_moves: int | None = Field(default=None, ge=0, le=1000)
    spot_without_checkpoint: float | None = Field(default=None, ge=0, le=30 * 86400)

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Settings(Part):
    """All settings. Durations in seconds; relative paths are relative to `data_dir`.

    stores: options of the stores that jobs may name in `checkpoint.to`, and of that behind `checkpoint_url`,
    by URL prefix; the longest that fits is taken. An option's value is written as it is, or as `env:NAME` or
    `file:PATH`, where it is read. Instances are handed these options, so none of them may be good for
    `storage_url`, where every project's files and logs are.
    shares: the weight of a project, by name, where capacity is scarce; 1 where none is given.
    """

    data_dir: str = Field(default="./.corral", pattern=r"^[^\x00]+$")
    database_url: str | None = Field(
        default=None, pattern=r"^(sqlite:///|postgresql(\+[a-z0-9]+)?://)[^\x00]+$"
    )
    storage_url: str | None = Field(default=None, pattern=r"^((s3|gs|az)://|file:///)[^\x00]+$")
    storage_options: dict[str, str] = Field(default_factory=dict)
    checkpoint_url: str | None = Field(default=None, pattern=r"^((s3|gs|az)://|file:///)[^\x00]+$")
    stores: dict[str, dict[str, str]] = Field(default_factory=dict)
    deployment_id: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9-]{2,38}[a-z0-9]$")
    public_url: Url | None = None
    public_ca: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    secret_key_file: str | None = None
    agent_update_key_file: str | None = None
    agent_zipapp: str | None = None
    listen: Listen = Listen()
    accounts: tuple[AccountConfig, ...] = ()
    routes: tuple[Route, ...] = ()
    shares: dict[str, Annotated[float, Field(gt=0, le=1000)]] = Field(default_factory=dict)
    quota_desk: QuotaDesk = QuotaDesk()
    times: Times = Times()
    limits: Limits = Limits()
    retention: Kept = Kept()
    notifications: Notifications = Notifications()
    clock: str = Field(default="0:1", pattern=r"^[0-9.e+]+:[0-9.e+]+$")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("clock")
    @classmethod
    def _clock_runs(cls, value: str) -> str:
        try:
            ScaledClock.parse(value).now()
        except (ValueError, OverflowError):
            raise ValueError(
                "expected ZERO:FACTOR, for example 0:1; the factor is above 0 and at most 10000"
            ) from None
        return value

    @model_validator(mode="after")
    def _accounts_are_distinct(self) -> Self:
        names = [(account.provider, account.name) for account in self.accounts]
        twice = {f"{provider}/{name}" for provider, name in names if names.count((provider, name)) > 1}
        if twice:
            raise ValueError(f"accounts: {', '.join(sorted(twice))} is listed more than once")
        return self

    @model_validator(mode="after")
    def _own_store_stays_ours(self) -> Self:
        own = self.storage_url
        handed_out = [("stores", url) for url in self.stores]
        handed_out += [("checkpoint_url", self.checkpoint_url)] if self.checkpoint_url else []
        for setting, url in handed_out:
            if own and (is_below(url, own) or is_below(own, url)):
                raise ValueError(f"{setting}: {url} overlaps storage_url, which instances must not reach")
        return self

    @model_validator(mode="after")
    def _agents_can_call(self) -> Self:
        remote = [account.name for account in self.accounts if account.endpoint is None]
        if self.public_url is None:
            if remote:
                raise ValueError(
                    f"public_url is required: the agents of account {remote[0]} must reach this service"
                )
            return self
        if self.public_url.startswith("http://") and not is_loopback(self.public_url):
            raise ValueError("public_url: https is required unless it is a loopback address")
        if self.public_url.startswith("https://") and remote and not self._ends_tls:
            raise ValueError(
                "public_url: for https give listen.tls_cert and listen.tls_key, or the addresses of the "
                "reverse proxy in trusted_proxies"
            )
        return self

    @property
    def _ends_tls(self) -> bool:
        return self.listen.tls_cert is not None or bool(self.trusted_proxies)

    @model_validator(mode="after")
    def _tokens_stay_private(self) -> Self:
        host = f"[{self.listen.host}]" if ":" in self.listen.host else self.listen.host
        if not is_loopback(f"http://{host}") and not self._ends_tls:
            raise ValueError(
                f"listen.host: on {self.listen.host} tokens would cross the network in clear; give "
                "listen.tls_cert and listen.tls_key, or the reverse proxy's addresses in trusted_proxies"
            )
        return self

    @model_validator(mode="after")
    def _clock_is_real_in_the_cloud(self) -> Self:
        if self.clock.partition(":")[2] not in ("1", "1.0"):
            real = [account.name for account in self.accounts if account.endpoint is None]
            if real:
                raise ValueError(f"clock: account {real[0]} is a real cloud; only the factor 1 is allowed")
        return self


def is_below(url: str, prefix: str) -> bool:
    """True if a store's URL is the prefix or lies below it."""
    return (url.rstrip("/") + "/").startswith(prefix.rstrip("/") + "/")
