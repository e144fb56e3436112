"""What every loop and route is given: time, chance, rows, clouds, bytes, a way to run something elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Protocol

from clock import Clock
from providers.interface import Provider
from service.db import Database
from service.keys import SecretKeys
from service.market.book import OfferBook
from service.settings import Settings

Place = tuple[str, str, str]
"""(provider, account, region): calls to one place share a bounded pool, so that one that hangs holds up
nobody else."""

STANDING = "standing"
"""The provider of nodes that are ours: enrolled, not launched; no account of the settings."""


class Submit(Protocol):
    """Runs a call elsewhere, soon. The only way in the service to start work beside the present one."""

    def __call__(self, place: Place, call: Callable[[], None]) -> None: ...


class ObjectStore(Protocol):
    """Bytes by key. Keys are `/`-separated; a missing one raises FileNotFoundError."""

    def put(self, key: str, data: bytes) -> None: ...

    def get(self, key: str) -> bytes: ...

    def delete(self, key: str) -> None: ...


@dataclass
class Context:
    """One process's view. `settings` is replaced as a whole on reload; read it where it is used.

    `service_url` is what agents call, `service_ca` the PEM they trust for it where that is private.
    `deployment_key` signs claim codes, `secret_keys` open projects' secrets. `owner` names this process in
    claims. `wake` asks a loop to run now: a lost call costs a little time, never correctness. `stopping` is
    set when no new launch may be sent. `listening_since`: since when this process could hear agents, kept by
    the lifecycle. `environment`: the variables that settings may refer to. `standing` gives out the nodes
    that are ours. `book`: the offers as this process has read them.
    """

    clock: Clock
    chance: Random
    database: Database
    settings: Settings
    deployment_id: str
    deployment_key: bytes
    service_url: str
    store: ObjectStore
    submit: Submit
    wake: Callable[[str], None]
    owner: str
    providers: Mapping[tuple[str, str], Provider] = field(default_factory=dict)
    stopping: Callable[[], bool] = lambda: False
    service_ca: str | None = None
    secret_keys: SecretKeys | None = None
    listening_since: datetime | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    standing: Provider | None = None
    book: OfferBook = field(default_factory=OfferBook)

    def __post_init__(self) -> None:
        self.database.wake = self.wake

    def now(self) -> datetime:
        """The time, UTC."""
        return self.clock.now()

    def provider(self, provider: str, account: str) -> Provider | None:
        """The adapter of an account; None if the settings no longer name it."""
        if provider == STANDING:
            return self.standing
        return self.providers.get((provider, account))
