"""Counters of what this process did, for Prometheus. They begin at zero with the process."""

from __future__ import annotations

from functools import partial

from prometheus_client import Counter, Histogram
from sqlmodel import Session

from service.db import after_commit

EVENTS = Counter("corral_events", "Events recorded, by kind.", ["kind"])
LAUNCHES = Counter(
    "corral_launches",
    "Answers of clouds to launches: `accepted`, or the kind of error.",
    ["provider", "capacity_type", "result"],
)
BOOT_SECONDS = Histogram(
    "corral_boot_seconds",
    "From the cloud's acceptance of a launch to the agent's hello, by provider.",
    ["provider"],
    buckets=(10, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200),
)


def count_event(session: Session, kind: str) -> None:
    """One more event, once its transaction is committed."""
    after_commit(session, partial(EVENTS.labels(kind).inc))


def count_launch(session: Session, provider: str, capacity_type: str, result: str) -> None:
    """One more answer of a cloud to a launch, once its transaction is committed."""
    after_commit(session, partial(LAUNCHES.labels(provider, capacity_type, result).inc))


def observe_boot(session: Session, provider: str, seconds: float) -> None:
    """How long an instance took to boot, once its transaction is committed."""
    after_commit(session, partial(BOOT_SECONDS.labels(provider).observe, seconds))
