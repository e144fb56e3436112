"""The cloud's metadata service: who this instance is, and whether it is about to be taken away.

A dialect per cloud, each with `instance_id()` and `poll()`. `poll` asks once and says what is new: each
notice comes out once. It raises MetadataError and keeps no state that an error could spoil.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection, HTTPException
from typing import Protocol
from urllib.parse import urlsplit

from clock import Clock

DEFAULT_URL = "http://169.254.169.254"  # link-local, the same on all three clouds
_TIMEOUT = 2.0  # real seconds


class MetadataError(Exception):
    """The metadata service could not be asked, or said something that is no answer."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The cloud's word that this instance will end or be disturbed.

    kind: `preemption` takes the instance away; `maintenance` is everything else. deadline: when, UTC;
    None where the cloud does not say. urgent: act on it now, whatever the deadline; where it is False
    and there is no deadline it is a hint only. source: the words of the cloud.
    """

    kind: str
    deadline: datetime | None
    source: str
    urgent: bool


class Watcher(Protocol):
    """One cloud's dialect. `interval`: seconds between polls that the cloud's documents ask for."""

    interval: float

    def instance_id(self) -> str:
        """What the metadata service calls this instance. Raises MetadataError."""

    def poll(self) -> Notice | None:
        """What is new since the last poll. Raises MetadataError."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A metadata answer; header names in lower case."""

    status: int
    body: str
    headers: dict[str, str]


class Connection:
    """Plain HTTP to the metadata address, kept alive. It never uses a proxy: http.client knows none."""

    def __init__(self, url: str, timeout: float = _TIMEOUT) -> None:
        parts = urlsplit(url)
        self._prefix = parts.path.rstrip("/")
        self._connect: Callable[[], HTTPConnection] = lambda: HTTPConnection(
            parts.hostname or "", parts.port or 80, timeout=timeout
        )
        self._connection: HTTPConnection | None = None

    def ask(self, method: str, path: str, headers: dict[str, str], timeout: float | None = None) -> Reply:
        """One request; `timeout` in real seconds. MetadataError if there is no answer."""
        reused = self._connection is not None
        try:
            return self._ask(method, path, headers, timeout)
        except TimeoutError as error:
            self.close()
            raise MetadataError(f"{path}: no answer in time") from error
        except (OSError, HTTPException) as error:
            self.close()
            if reused:  # a kept connection may have been closed meanwhile; a new one tells
                return self.ask(method, path, headers, timeout)
            raise MetadataError(f"{path}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Forget the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, method: str, path: str, headers: dict[str, str], timeout: float | None) -> Reply:
        if self._connection is None:
            self._connection = self._connect()
            self._connection.connect()
            self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._connection
        connection.sock.settimeout(timeout or connection.timeout)
        connection.request(method, self._prefix + path, headers=headers)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        reply = Reply(response.status, body, {name.lower(): value for name, value in response.getheaders()})
        if response.will_close:
            self.close()
        return reply


def watcher_for(provider: str, url: str, clock: Clock) -> Watcher:
    """The dialect of `aws`, `gcp` or `azure`, spoken to at `url`."""
    if provider == "aws":
        from agent.metadata.ec2 import Ec2Watcher

        return Ec2Watcher(Connection(url), clock)
    if provider == "gcp":
        from agent.metadata.gce import GceWatcher

        return GceWatcher(Connection(url), clock)
    from agent.metadata.azure import AzureWatcher

    return AzureWatcher(Connection(url))
