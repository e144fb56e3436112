"""Calls spaced out before they are sent, so that a vendor's own limit is met rarely.

Vendors throttle with token buckets per account, region and action; one here per (region, action), a good
deal smaller, leaves room for everyone else who uses the account.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from clock import Clock
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` calls in the long run, `burst` of them at once."""

    per_second: float
    burst: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimiter:
    """Shared by all threads of an account. Times are the clock's, in seconds.

    Whoever would have to wait longer than `patience` is refused at once, as the vendor would refuse it:
    ProviderError (throttled) with `retry_after`.
    """

    def __init__(
        self,
        clock: Clock,
        rates: Mapping[str, Rate],
        default: Rate,
        *,
        scope: Scope | None = None,
        patience: float = 30.0,
    ) -> None:
        self._clock = clock
        self._rates = dict(rates)
        self._default = default
        self._scope = scope or Scope()
        self._patience = patience
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def take(self, region: str, action: str) -> None:
        """Wait for this action's turn in a region."""
        delay = self._reserve(region, action)
        if delay > 0:
            self._clock.wait(self._closing, delay)

    def close(self) -> None:
        """Let everyone who waits go on at once."""
        self._closing.set()

    def _reserve(self, region: str, action: str) -> float:
        """Take a token, on credit if need be; how long until it would have been there."""
        rate = self._rates.get(action, self._default)
        now = self._clock.monotonic()
        with self._lock:
            bucket = self._buckets.setdefault((region, action), _Bucket(float(rate.burst), now))
            bucket.tokens = min(float(rate.burst), bucket.tokens + (now - bucket.at) * rate.per_second)
            bucket.at = now
            delay = max(0.0, (1 - bucket.tokens) / rate.per_second)
            if delay > self._patience:
                raise ProviderError(
                    ErrorKind.THROTTLED,
                    f"too many {action} calls of our own in {region}",
                    code="ClientSideRateLimit",
                    scope=self._scope,
                    retry_after=delay,
                )
            bucket.tokens -= 1
            return delay
