"""What there is, what it costs, what is allowed: by catalogue, by scenario, and as set since."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TypeVar

from sandbox.catalogue import catalogue
from sandbox.quotas import GLOBAL
from sandbox.scenario import CapacityRule, PriceRule, QuotaRule, Restore, Scenario, Where
from sandbox.vm import Vm

RuleT = TypeVar("RuleT", bound=Where)


@dataclass(frozen=True, slots=True)
class Pool:
    """Instances that compete for the same machines. `zone` is the catalogue's key."""

    provider: str
    region: str
    zone: str
    instance_type: str
    capacity_type: str


def pool_of(vm: Vm) -> Pool:
    """Where an instance stands in the market."""
    return Pool(vm.provider, vm.region, vm.zone, vm.instance_type, vm.capacity_type)


def covers(where: Where, pool: Pool) -> bool:
    """Whether each field that `where` gives matches the pool's; a zone may be given by its name."""
    pairs = (
        (where.provider, (pool.provider,)),
        (where.region, (pool.region,)),
        (where.zone, (pool.zone, catalogue(pool.provider).zones[pool.zone].name)),
        (where.instance_type, (pool.instance_type,)),
        (where.capacity_type, (pool.capacity_type,)),
    )
    return all(text is None or any(fnmatchcase(name, text) for name in names) for text, names in pairs)


class Market:
    """Capacity, prices and limits. Holds no instances and no lock: the world does."""

    def __init__(self, scenario: Scenario, opened: datetime) -> None:
        self._scenario = scenario
        self._opened = opened
        self._capacity: list[CapacityRule] = []
        self._prices: list[PriceRule] = []
        self._quotas: list[QuotaRule] = []

    def capacity(self, pool: Pool) -> int:
        """How many instances the pool can hold, those that run in it included."""
        rule = _last(pool, self._scenario.capacity, self._capacity)
        return self._scenario.default_capacity if rule is None else rule.count

    def price(self, pool: Pool, at: datetime) -> float | None:
        """USD per hour at a time, None where it is not sold. Spot is never dearer than on-demand."""
        table = catalogue(pool.provider)
        listed = table.list_price(pool.zone, pool.instance_type, pool.capacity_type)
        if listed is None:
            return None
        rule = _last(pool, self._scenario.prices, self._prices)
        if rule is not None:
            return rule.price
        if pool.capacity_type != "spot" or self._scenario.spot_prices is None:
            return listed
        ceiling = table.list_price(pool.zone, pool.instance_type, "on_demand")
        drawn = self._drawn(pool, listed, self.period(at))
        return drawn if ceiling is None else min(drawn, ceiling)

    def period(self, at: datetime) -> int:
        """How often spot prices have been drawn anew since the sandbox opened."""
        moves = self._scenario.spot_prices
        return 0 if moves is None else int((at - self._opened).total_seconds() // moves.every_seconds)

    def _drawn(self, pool: Pool, listed: float, period: int) -> float:
        """A pool's spot price in a period; the same seed gives the same, whoever asks in what order."""
        moves = self._scenario.spot_prices
        if moves is None or period <= 0:
            return listed
        place = pool.zone if pool.provider == "aws" else pool.region
        key = f"{self._scenario.seed}/{pool.provider}/{place}/{pool.instance_type}/{period}"
        return round(listed * (1 + moves.spread * random.Random(key).uniform(-1, 1)), 6)  # noqa: S311

    def limit(self, provider: str, region: str, name: str) -> float | None:
        """A quota's limit; None where the project has no such quota."""
        for rule in reversed([*self._scenario.quotas, *self._quotas]):
            if (
                rule.provider == provider
                and fnmatchcase(region, rule.region)
                and fnmatchcase(name, rule.name)
            ):
                return rule.limit
        if region == GLOBAL:
            return None
        limits = catalogue(provider).limits
        return next((limit for pattern, limit in limits.items() if fnmatchcase(name, pattern)), None)

    def set_capacity(self, rule: CapacityRule) -> None:
        """From now on, until it is restored or set again."""
        self._capacity.append(rule)

    def set_price(self, rule: PriceRule) -> None:
        """From now on, until it is restored or set again."""
        self._prices.append(rule)

    def set_quota(self, rule: QuotaRule) -> None:
        """From now on, until it is restored or set again."""
        self._quotas.append(rule)

    def restore(self, order: Restore) -> None:
        """Forget what was set since the start, as far as the order says."""
        if "capacity" in order.what:
            self._capacity = [rule for rule in self._capacity if not _within(rule, order.where)]
        if "price" in order.what:
            self._prices = [rule for rule in self._prices if not _within(rule, order.where)]
        if "quota" in order.what:
            provider = order.where.provider
            self._quotas = [rule for rule in self._quotas if provider not in (None, rule.provider)]


def _last(pool: Pool, *sources: Sequence[RuleT]) -> RuleT | None:
    """The last rule that covers the pool; later sources win."""
    for source in reversed(sources):
        for rule in reversed(source):
            if covers(rule, pool):
                return rule
    return None


def _within(rule: Where, where: Where) -> bool:
    """Whether a rule is about nothing outside of `where`."""
    return all(
        wanted is None or getattr(rule, name) == wanted
        for name in Where.model_fields
        if (wanted := getattr(where, name)) is not None
    )
