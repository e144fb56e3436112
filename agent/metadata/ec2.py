"""EC2's instance metadata, version 2 only (EC2 User Guide: "Use the Instance Metadata Service", "Spot
Instance interruption notices", "EC2 instance rebalance recommendations").
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from agent.metadata import Connection, MetadataError, Notice, Reply
from clock import Clock

_TOKEN_SECONDS = 21600  # the longest that EC2 grants


class Ec2Watcher:
    """`spot/instance-action` says when (about 2 minutes ahead, best effort); a rebalance recommendation is
    a hint that may come earlier, at the same time, or never.
    """

    interval = 5.0

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._token = ""
        self._token_until = 0.0
        self._seen: set[str] = set()

    def instance_id(self) -> str:
        """For example `i-0123456789abcdef0`."""
        reply = self._get("/latest/meta-data/instance-id")
        if reply.status != 200 or not reply.body:
            raise MetadataError(f"instance-id: the answer was {reply.status}")
        return reply.body.strip()

    def poll(self) -> Notice | None:
        """An interruption notice first; then a recommendation."""
        return self._interruption() or self._rebalance()

    def _interruption(self) -> Notice | None:
        reply = self._get("/latest/meta-data/spot/instance-action")
        value = _object(reply, "spot/instance-action")
        if value is None or not self._fresh(reply.body):
            return None
        deadline = parse_time(str(value.get("time", "")))
        return Notice("preemption", deadline, f"spot/instance-action {value.get('action')}", urgent=True)

    def _rebalance(self) -> Notice | None:
        reply = self._get("/latest/meta-data/events/recommendations/rebalance")
        value = _object(reply, "rebalance")
        if value is None or not self._fresh(reply.body):
            return None
        return Notice("maintenance", None, "rebalance recommendation", urgent=False)

    def _fresh(self, body: str) -> bool:
        if body in self._seen:
            return False
        self._seen.add(body)
        return True

    def _get(self, path: str) -> Reply:
        """A 401 says that the token ran out or was withdrawn: one new token and one repeat, in this poll."""
        if self._clock.monotonic() >= self._token_until:
            self._renew()
        reply = self._connection.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if reply.status == 401:
            self._renew()
            reply = self._connection.ask("GET", path, {"X-aws-ec2-metadata-token": self._token})
        if reply.status not in (200, 404):
            raise MetadataError(f"{path}: the answer was {reply.status}")
        return reply

    def _renew(self) -> None:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS), "Content-Length": "0"}
        reply = self._connection.ask("PUT", "/latest/api/token", headers)
        if reply.status != 200:
            raise MetadataError(f"/latest/api/token: the answer was {reply.status}")
        self._token = reply.body
        self._token_until = self._clock.monotonic() + _TOKEN_SECONDS * 0.9


def parse_time(text: str) -> datetime | None:
    """RFC 3339 with Z; None for anything else."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _object(reply: Reply, what: str) -> dict[str, object] | None:
    if reply.status == 404:
        return None
    try:
        value = json.loads(reply.body)
    except ValueError as error:
        raise MetadataError(f"{what}: no JSON: {reply.body[:80]!r}") from error
    if not isinstance(value, dict):
        raise MetadataError(f"{what}: expected an object: {reply.body[:80]!r}")
    return value
