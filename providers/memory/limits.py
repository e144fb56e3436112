"""The limits of an account in memory: what each counts, and what it gates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from providers.quotas import Quota, QuotaUnit, needed
from providers.vocabulary import Offer, Scope


@dataclass(slots=True)
class Limit:
    """One limit. `limit` in `unit`; None is no limit. `region` None: it counts over all regions."""

    key: str
    name: str
    region: str | None
    unit: QuotaUnit
    limit: float | None
    gates: tuple[Scope, ...]
    adjustable: bool = True

    def covers(self, offer: Offer) -> bool:
        """True if the offer draws on it."""
        here = self.region in (None, offer.key.region)
        return here and any(scope.covers(offer) for scope in self.gates) and self.drawn(offer, 1) > 0

    def drawn(self, offer: Offer, nodes: int) -> float:
        """How much of it so many instances draw."""
        return needed(self.unit, offer.type, nodes)

    def shown(self, provider: str, account: str, usage: float, now: datetime) -> Quota:
        """The limit as the vendor reports it."""
        gates = tuple(
            replace(scope, provider=provider, account=account, region=self.region) for scope in self.gates
        )
        return Quota(
            self.key, self.name, self.region, self.unit, self.limit, usage, gates, now, self.adjustable
        )
