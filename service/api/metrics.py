"""Prometheus metrics of the API, and those that are read from the database when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import func, select
from sqlmodel import Session, col

from service.attempts.model import Attempt
from service.instances.model import Instance
from service.jobs.model import Job
from service.market.model import OfferRow, Poll
from service.notifications.model import Channel, Message

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)


class HttpMetrics:
    """Requests by method, route and status. One registry per application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.seconds = Histogram(
            "corral_http_request_seconds",
            "How long requests took, by route.",
            ["method", "route", "status"],
            registry=self.registry,
            buckets=_BUCKETS,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.seconds.labels(method, route, str(status)).observe(seconds)

    def text(self, families: Iterable[Metric]) -> bytes:
        """Everything in the exposition format: the process's, the API's, and the families given."""
        return generate_latest(REGISTRY) + generate_latest(self.registry) + generate_latest(_Given(families))


class _Given(CollectorRegistry):
    """Metric families that were made elsewhere."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def counted(session: Session) -> list[Metric]:
    """How many jobs, attempts, instances and notifications are in each state, offers per cloud, and what
    fails: reading places, sending to channels.
    """
    connection = session.connection()
    families: list[Metric] = []
    of_state: tuple[tuple[str, Any], ...] = (
        ("jobs", Job),
        ("attempts", Attempt),
        ("instances", Instance),
        ("notifications", Message),
    )
    for name, model in of_state:
        family = GaugeMetricFamily(f"corral_{name}", f"{name.capitalize()} by state.", labels=["state"])
        state = col(model.state)
        for named, count in connection.execute(select(state, func.count()).group_by(state)):
            family.add_metric([str(named)], count)
        families.append(family)
    offers = GaugeMetricFamily("corral_offers", "Offers known, by provider.", labels=["provider"])
    provider = col(OfferRow.provider)
    for value, count in connection.execute(select(provider, func.count()).group_by(provider)):
        offers.add_metric([value], count)
    failing = GaugeMetricFamily(
        "corral_poll_failures", "Failures in a row of reading a place.", labels=["poll"]
    )
    for poll, failures in connection.execute(select(col(Poll.id), col(Poll.failures))):
        failing.add_metric([poll], failures)
    silent = GaugeMetricFamily(
        "corral_channel_failures", "Failures in a row of sending to a channel.", labels=["channel"]
    )
    for channel, failures in connection.execute(select(col(Channel.id), col(Channel.failures))):
        silent.add_metric([channel], failures)
    return [*families, offers, failing, silent]


def loop_age(status: Mapping[str, Mapping[str, Any]], now: datetime) -> Metric:
    """Seconds since each loop last ran well; one that never did is missing."""
    family = GaugeMetricFamily(
        "corral_loop_age_seconds", "Seconds since each loop last ran well.", labels=["loop"]
    )
    for name, known in status.items():
        if known["last_run"] is not None:
            family.add_metric([name], (now - known["last_run"]).total_seconds())
    return family
