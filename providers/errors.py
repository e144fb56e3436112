"""The one error that adapters raise, and what each kind means for whoever catches it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from providers.vocabulary import Scope


class ErrorKind(StrEnum):
    """What went wrong, in words that hold on every cloud."""

    CAPACITY = "capacity"
    QUOTA = "quota"
    THROTTLED = "throttled"
    AUTH = "auth"
    CLOCK_SKEW = "clock_skew"
    ACCOUNT_BLOCKED = "account_blocked"
    INVALID_REQUEST = "invalid_request"
    PRICE_TOO_LOW = "price_too_low"
    IMAGE_MISSING = "image_missing"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    IDEMPOTENCY = "idempotency"
    UNSUPPORTED = "unsupported"
    TRANSIENT = "transient"
    UNKNOWN = "unknown"


class ProviderError(Exception):
    """Raised by every adapter, for every failure.

    kind: the meaning. scope: the offers it says something about. ambiguous: the launch may have happened
    all the same, so look before anything else is tried. ended: the token made something that is over.
    retry_after: seconds the vendor asked us to wait. avoid_for: how long the scope is worth avoiding at
    first; None takes the kind's own time. available: where the vendor says that it has capacity instead.
    code and message are the vendor's, for people.
    """

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        code: str = "",
        scope: Scope | None = None,
        ambiguous: bool = False,
        ended: bool = False,
        retry_after: float | None = None,
        avoid_for: timedelta | None = None,
        available: tuple[Scope, ...] = (),
    ) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.kind = kind
        self.message = message
        self.code = code
        self.scope = scope or Scope()
        self.ambiguous = ambiguous
        self.ended = ended
        self.retry_after = retry_after
        self.avoid_for = avoid_for
        self.available = available


@dataclass(frozen=True, slots=True)
class KindRule:
    """How long a scope is avoided after the first failure of a kind, how that grows, and its ceiling."""

    first: timedelta
    factor: float
    ceiling: timedelta


# Where a fact sheet of a vendor gives a time, the adapter's table says so in `avoid_for`; this is the rest.
KIND_RULES: dict[ErrorKind, KindRule] = {
    ErrorKind.CAPACITY: KindRule(timedelta(minutes=3), 2, timedelta(minutes=30)),
    ErrorKind.QUOTA: KindRule(timedelta(minutes=10), 2, timedelta(hours=6)),
    ErrorKind.THROTTLED: KindRule(timedelta(seconds=2), 2, timedelta(minutes=2)),
    ErrorKind.AUTH: KindRule(timedelta(minutes=5), 2, timedelta(minutes=30)),
    ErrorKind.CLOCK_SKEW: KindRule(timedelta(minutes=1), 2, timedelta(minutes=10)),
    ErrorKind.ACCOUNT_BLOCKED: KindRule(timedelta(minutes=30), 2, timedelta(hours=6)),
    ErrorKind.INVALID_REQUEST: KindRule(timedelta(minutes=30), 2, timedelta(hours=24)),
    ErrorKind.PRICE_TOO_LOW: KindRule(timedelta(minutes=5), 2, timedelta(hours=1)),
    ErrorKind.IMAGE_MISSING: KindRule(timedelta(minutes=5), 2, timedelta(hours=1)),
    ErrorKind.NOT_FOUND: KindRule(timedelta(minutes=1), 2, timedelta(minutes=30)),
    ErrorKind.CONFLICT: KindRule(timedelta(seconds=10), 2, timedelta(minutes=3)),
    ErrorKind.IDEMPOTENCY: KindRule(timedelta(0), 1, timedelta(0)),
    ErrorKind.UNSUPPORTED: KindRule(timedelta(hours=24), 1, timedelta(hours=24)),
    ErrorKind.TRANSIENT: KindRule(timedelta(seconds=30), 2, timedelta(minutes=10)),
    ErrorKind.UNKNOWN: KindRule(timedelta(minutes=5), 2, timedelta(hours=1)),
}
