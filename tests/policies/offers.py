"""Offers, jobs and a market in memory, for asking the policy `deadline` one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from policies.model import Block, Evidence, Job, Needs, RunClass
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey, Scope

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TYPE = InstanceType("t", "T", 8, 32.0)


def offer(zone: str, price: float | None, capacity_type: CapacityType = CapacityType.SPOT) -> Offer:
    return Offer(OfferKey("aws", "main", zone[:-1], zone, "t", capacity_type), TYPE, price)


def on_demand(zone: str, price: float | None) -> Offer:
    return offer(zone, price, CapacityType.ON_DEMAND)


@dataclass
class StillMarket:
    """A `policies.model.ObservedMarket` at one moment."""

    offers: Sequence[Offer]
    evidence: Mapping[OfferKey, Evidence] = field(default_factory=dict)
    blocked: frozenset[OfferKey] = frozenset()
    observations: Mapping[str, float] = field(default_factory=dict)

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        if offer.key not in self.blocked:
            return None
        return Block(Scope(zone=offer.key.zone), "stock_out", now, now + timedelta(minutes=10))


def job(work: float, slack: float, **more: Any) -> Job:
    """A job with `work` hours to do and `slack` hours to lose, restarts of six minutes."""
    given: dict[str, Any] = {
        "id": "j",
        "run_class": RunClass.EXPLORATION,
        "needs": Needs(),
        "submitted_at": NOW,
        "waiting_since": NOW,
        "work_left": timedelta(hours=work),
        "restart": timedelta(hours=0.1),
        "resumes": True,
        "deadline": NOW + timedelta(hours=work + slack + 0.1),
    }
    return Job(**{**given, **more})


def seen(available: bool, hours: float, **more: Any) -> Evidence:
    """What was last seen, and for how long without a break."""
    spell = {"up_seconds": hours * 3600} if available else {"down_seconds": hours * 3600}
    return Evidence(available, NOW - timedelta(hours=hours), NOW, **{**spell, **more})
