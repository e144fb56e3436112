"""/etc/corral/agent.json: what the instance was handed when it was made."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from agent.durable import read_json
from agent.paths import Paths
from clock import Clock

WAIT_SECONDS = 600.0
PROVIDERS = ("aws", "gcp", "azure", "standing")


class ConfigurationError(Exception):
    """The file is not there, or says something that cannot be meant."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """`claim_code` is good for hello only. `ca`: a private certificate authority, PEM. `instance_id`: given
    where no metadata service tells it, on a standing node.
    """

    service_url: str
    claim_code: str
    provider: str
    ca: str | None = None
    instance_id: str | None = None

    @property
    def attempt(self) -> str:
        """The attempt that this instance was made for."""
        return self.claim_code.partition(".")[0]


def parse(value: Any) -> Configuration:
    """ConfigurationError names the key that is wrong."""
    if not isinstance(value, dict):
        raise ConfigurationError("expected an object")
    for key in ("service_url", "claim_code", "provider"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise ConfigurationError(f"{key}: expected a text")
    if not value["service_url"].startswith(("https://", "http://")):
        raise ConfigurationError("service_url: expected https://… (http://… on loopback)")
    if value["provider"] not in PROVIDERS:
        raise ConfigurationError(f"provider {value['provider']!r}: expected one of {', '.join(PROVIDERS)}")
    if value["provider"] == "standing" and not isinstance(value.get("instance_id"), str):
        raise ConfigurationError("instance_id: expected a text")
    if value.get("protocol") != 1:
        raise ConfigurationError(f"protocol {value.get('protocol')!r}: this agent speaks 1")
    return Configuration(
        service_url=value["service_url"].rstrip("/"),
        claim_code=value["claim_code"],
        provider=value["provider"],
        ca=value.get("ca"),
        instance_id=value.get("instance_id"),
    )


def wait_for(paths: Paths, clock: Clock, seconds: float = WAIT_SECONDS) -> Configuration:
    """The configuration, as soon as it is there and whole (cloud-init does not write it in one step)."""
    never = threading.Event()
    until = clock.monotonic() + seconds
    while True:
        value = read_json(paths.configuration)
        if value is not None:
            try:
                return parse(value)
            except ConfigurationError as error:
                raise ConfigurationError(f"{paths.configuration}: {error}") from None
        if clock.monotonic() >= until:
            raise ConfigurationError(f"{paths.configuration}: not there, or no JSON, after {seconds:.0f} s")
        clock.wait(never, 0.5)
