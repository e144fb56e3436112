"""Whether a launch fits into what its account may have: limit, less usage, less what is under way.

A limit or usage that is unknown, or whose reading is old, refuses nothing: the cloud will say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from providers.quotas import Quota, QuotaUnit, needed
from providers.vocabulary import InstanceType, Offer
from service.instances.model import Instance
from service.market.model import OfferRow
from service.market.offers import to_offer
from service.market.scopes import ScopeIndex
from service.quotas.model import QuotaRow
from service.quotas.rows import to_quota
from service.states import InstanceState

TRUSTED_FOR = timedelta(hours=1)
READING_TAKES = timedelta(seconds=60)
"""How long before a reading a launch may have been asked for and still not stand in its usage."""


_UNITS = {QuotaUnit.VCPU: "vCPU", QuotaUnit.GPU: "GPUs", QuotaUnit.INSTANCE: "instances"}


@dataclass(frozen=True, slots=True)
class Drawn:
    """Something of ours that a reading may not show yet: one instance of an offer."""

    offer: Offer
    since: datetime


@dataclass(frozen=True, slots=True)
class Shortage:
    """A quota that a launch would pass. All in the quota's unit."""

    quota: Quota
    free: float
    needed: float

    @property
    def missing(self) -> float:
        """By how much the limit would have to grow."""
        return self.needed - self.free

    def __str__(self) -> str:
        unit = {QuotaUnit.VCPU: "vCPU", QuotaUnit.GPU: "GPUs", QuotaUnit.INSTANCE: "instances"}[
            self.quota.unit
        ]
        where = self.quota.region or "all regions"
        return (
            f"{self.quota.name}: {self.free:g} of {self.quota.limit:g} {unit} free, {self.needed:g} needed; "
            f"{self.missing:g} more in {where} would do"
        )


class Headroom:
    """The quotas of all accounts, with what is under way taken off."""

    def __init__(self, quotas: Iterable[Quota], drawn: Sequence[Drawn], now: datetime) -> None:
        trusted = [quota for quota in quotas if _is_known(quota)]
        self._gates: ScopeIndex[Quota] = ScopeIndex()
        for quota in trusted:
            if now - quota.read_at <= TRUSTED_FOR:
                for scope in quota.gates:
                    self._gates.add(scope, quota)
        self._drawn = list(drawn)
        self._in_flight: dict[int, float] = {}
        self._now = now

    def shortage(self, offer: Offer, nodes: int) -> Shortage | None:
        """The quota of which most is missing for so many nodes of an offer; None if they fit."""
        quotas = self._gates.covering(offer)
        found = [short for quota in quotas if (short := self._short(quota, offer, nodes)) is not None]
        return max(found, key=lambda short: short.missing, default=None)

    def in_flight(self, quota: Quota) -> float:
        """What is under way and may not stand in the quota's usage yet, in its unit."""
        return sum(
            needed(quota.unit, drawn.offer.type, 1)
            for drawn in self._drawn
            if drawn.since > quota.read_at - READING_TAKES and quota.covers(drawn.offer)
        )

    def note_planned(self, offer: Offer, nodes: int) -> None:
        """So many more are under way; for the rest of this look at the market."""
        self._drawn += [Drawn(offer, self._now)] * nodes
        self._in_flight.clear()

    def _short(self, quota: Quota, offer: Offer, nodes: int) -> Shortage | None:
        if quota.limit is None:
            return None
        if id(quota) not in self._in_flight:  # of a quota of our own, which lives as long as we do
            self._in_flight[id(quota)] = self.in_flight(quota)
        free = max(0.0, quota.limit - (quota.usage or 0.0) - self._in_flight[id(quota)])
        want = needed(quota.unit, offer.type, nodes)
        return Shortage(quota, free, want) if want > free else None


def _is_known(quota: Quota) -> bool:
    """A limit of zero leaves nothing, whatever its usage."""
    return quota.limit == 0 or (quota.limit is not None and quota.usage is not None)


def headroom(session: Session, now: datetime) -> Headroom:
    """The quotas and what is under way, as the database has them."""
    quotas = [to_quota(row) for row in session.exec(select(QuotaRow)).all()]
    return Headroom(quotas, _drawn(session, min((q.read_at for q in quotas), default=now)), now)


def _drawn(session: Session, oldest: datetime) -> list[Drawn]:
    """Instances of ours that the oldest reading may not show."""
    live = session.exec(
        select(Instance).where(
            col(Instance.state) != InstanceState.TERMINATED,
            col(Instance.planned_at) > oldest - timedelta(hours=1),
        )
    ).all()
    if not live:
        return []
    types = _types(session, {instance.instance_type for instance in live})
    return [
        Drawn(offer, instance.requested_at or instance.planned_at)
        for instance in live
        if (offer := _as_offer(instance, types)) is not None
    ]


def _types(session: Session, names: set[str]) -> dict[tuple[str, str], InstanceType]:
    rows = session.exec(select(OfferRow).where(col(OfferRow.instance_type).in_(sorted(names)))).all()
    return {(row.provider, row.instance_type): to_offer(row).type for row in rows}


def _as_offer(instance: Instance, types: dict[tuple[str, str], InstanceType]) -> Offer | None:
    type_ = types.get((instance.provider, instance.instance_type))
    return None if type_ is None else Offer(instance.offer_key, type_, None)
