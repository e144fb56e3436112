"""What the cloud in memory sells: offers, how many of each there are, prices and quotas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from providers.errors import ErrorKind, ProviderError
from providers.memory.limits import Limit
from providers.memory.machines import Machine
from providers.memory.reserved import MemoryReservations
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import CapacityType, Offer, OfferKey, Scope


@dataclass(slots=True)
class _Shelf:
    offer: Offer
    capacity: int | None
    machines: list[Machine]


class MemoryMarket:
    """Capacity counts instances per offer; None is no limit. An offer draws on every limit that covers it."""

    def __init__(self) -> None:
        self.reservations = MemoryReservations()
        self._shelves: dict[OfferKey, _Shelf] = {}
        self._limits: dict[tuple[str | None, str], Limit] = {}

    def put(self, offer: Offer, capacity: int | None) -> None:
        """Sell an offer, or change its price and capacity; instances of it stay."""
        shelf = self._shelves.get(offer.key)
        self._shelves[offer.key] = _Shelf(offer, capacity, shelf.machines if shelf else [])

    def set_capacity(self, key: OfferKey, capacity: int | None) -> None:
        self._shelves[key].capacity = capacity

    def set_price(self, key: OfferKey, price: float | None) -> None:
        shelf = self._shelves[key]
        shelf.offer = replace(shelf.offer, price=price)

    def set_quota(self, region: str, family: str, capacity_type: CapacityType, vcpus: int | None) -> None:
        """A limit in vCPUs of a family and capacity type in a region; None is no limit."""
        scope = Scope(region=region, family=family, capacity_type=capacity_type)
        name = f"{family} {capacity_type} vCPUs"
        self.set_limit(Limit(f"{family}-{capacity_type}", name, region, QuotaUnit.VCPU, vcpus, (scope,)))

    def set_limit(self, limit: Limit) -> None:
        """Any limit: in another unit, over several families, or over all regions."""
        there = self._limits.get((limit.region, limit.key))
        if there is None:
            self._limits[limit.region, limit.key] = limit
        else:
            there.limit = limit.limit

    def limit(self, key: str, region: str | None) -> Limit | None:
        return self._limits.get((region, key))

    def quotas(self, provider: str, account: str, region: str, now: datetime) -> list[Quota]:
        """The limits that are set for a region and for all of them, with what is in use."""
        return [
            limit.shown(provider, account, self._used(limit, now), now)
            for limit in self._limits.values()
            if limit.region in (region, None) and limit.limit is not None
        ]

    def get(self, key: OfferKey) -> Offer | None:
        if key.reservation is not None:
            return self.reservations.offer(key)
        shelf = self._shelves.get(key)
        return shelf.offer if shelf else None

    def zones(self, region: str) -> frozenset[str]:
        return frozenset(key.zone for key in self._shelves if key.region == region)

    def sold_in(self, region: str, now: datetime) -> list[Offer]:
        """The region's offers with prices of now, in the order in which they were first put on sale."""
        return [
            replace(shelf.offer, priced_at=now)
            for key, shelf in self._shelves.items()
            if key.region == region
        ]

    def in_use(self, key: OfferKey, now: datetime) -> int:
        """Instances of an offer that are not over."""
        shelf = self._shelves[key]
        shelf.machines = [machine for machine in shelf.machines if not machine.over(now)]
        return len(shelf.machines)

    def occupy(self, key: OfferKey, machines: Iterable[Machine]) -> None:
        if key.reservation is not None:
            self.reservations.occupy(key, machines)
            return
        self._shelves[key].machines.extend(machines)

    def refusal(self, key: OfferKey, nodes: int, now: datetime) -> ProviderError | None:
        """Why so many more instances of an offer cannot be had now; None if they can. Raises ProviderError
        (unsupported) for what is not sold at all.
        """
        if key.reservation is not None:
            return self.reservations.refusal(key, nodes, now)
        shelf = self._shelves.get(key)
        if shelf is None:
            raise _not_sold(key)
        return self._over_quota(shelf.offer, nodes, now) or self._out_of_stock(shelf, nodes, now)

    def _over_quota(self, offer: Offer, nodes: int, now: datetime) -> ProviderError | None:
        for limit in self._limits.values():
            if limit.limit is None or not limit.covers(offer):
                continue
            used, asked = self._used(limit, now), limit.drawn(offer, nodes)
            if used + asked > limit.limit:
                return _over(limit, offer, used, asked)
        return None

    def _used(self, limit: Limit, now: datetime) -> float:
        """What is in use of a limit, in its unit."""
        return sum(
            limit.drawn(shelf.offer, self.in_use(key, now))
            for key, shelf in self._shelves.items()
            if limit.covers(shelf.offer)
        )

    def _out_of_stock(self, shelf: _Shelf, nodes: int, now: datetime) -> ProviderError | None:
        key = shelf.offer.key
        if shelf.capacity is None or self.in_use(key, now) + nodes <= shelf.capacity:
            return None
        return ProviderError(
            ErrorKind.CAPACITY,
            f"no capacity for {nodes} of {key.instance_type} ({key.capacity_type}) in {key.zone}",
            code="InsufficientCapacity",
            scope=_exactly(key),
        )


def _over(limit: Limit, offer: Offer, used: float, asked: float) -> ProviderError:
    key = offer.key
    gate = next(scope for scope in limit.gates if scope.covers(offer))
    return ProviderError(
        ErrorKind.QUOTA,
        f"{asked:g} more {limit.unit} with {used:g} of {limit.limit:g} in use ({limit.name}, {key.region})",
        code="QuotaExceeded",
        scope=replace(gate, provider=key.provider, account=key.account, region=limit.region),
    )


def _exactly(key: OfferKey) -> Scope:
    return Scope(
        provider=key.provider,
        account=key.account,
        region=key.region,
        zone=key.zone,
        instance_type=key.instance_type,
        capacity_type=key.capacity_type,
        reservation=key.reservation,
    )


def _not_sold(key: OfferKey) -> ProviderError:
    return ProviderError(
        ErrorKind.UNSUPPORTED,
        f"{key.instance_type} is not sold as {key.capacity_type} in {key.zone}",
        code="Unsupported",
        scope=_exactly(key),
    )
