"""Whether the market lets somebody have instances, and if not, why."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Literal

from sandbox.catalogue import catalogue
from sandbox.market import Market, Pool, pool_of
from sandbox.quotas import GLOBAL, PROJECT_WIDE, Draw, QuotaRow, draws, names, unit
from sandbox.reservations import Reservations
from sandbox.timeline import Timeline
from sandbox.vm import Vm

RefusalKind = Literal["capacity", "quota", "spot_quota", "price", "unsupported", "reservation"]


class Refusal(Exception):  # noqa: N818 - it is an answer, not a mishap
    """The market says no; nothing was made.

    facts: what a vendor's message needs. All kinds: provider, region, zone, instance_type, capacity_type,
    required (how many). quota and spot_quota: name, quota_region, limit, usage, needed, unit, family. price:
    price, max_price. capacity: zones_available (keys of the region's zones that could hold it). reservation:
    name, obstacle (see sandbox.reservations.Obstacle).
    """

    def __init__(self, kind: RefusalKind, message: str, facts: dict[str, Any]) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.facts = facts


class Admission:
    """The checks before anything is made, in the clouds' order: sold at all, price, quota, capacity."""

    def __init__(
        self,
        market: Market,
        vms: Mapping[tuple[str, str], Vm],
        reservations: Reservations,
        timeline: Timeline,
    ) -> None:
        self._market = market
        self._vms = vms
        self._reservations = reservations
        self._timeline = timeline

    def admit(
        self, pool: Pool, count: int, max_price: float | None, reservation: str | None, matching: bool
    ) -> list[str | None]:
        """The reservation that each of `count` more instances will sit in, None for the pool; Refusal if they
        cannot be had. matching: what names no reservation takes the free slots of open ones first.
        """
        try:
            if reservation is not None:
                self._reserved(pool, count, reservation)
                return [reservation] * count
            self._price(pool, max_price)
            slots = self._open_slots(pool, count) if matching else []
            if len(slots) < count:
                self._quota(pool, count - len(slots))
                self._capacity(pool, count - len(slots))
            return [*slots, *[None] * (count - len(slots))]
        except Refusal as refusal:
            refusal.facts |= {
                "provider": pool.provider,
                "region": pool.region,
                "zone": pool.zone,
                "instance_type": pool.instance_type,
                "capacity_type": pool.capacity_type,
                "required": count,
            }
            raise

    def free(self, pool: Pool) -> int:
        """How many more instances the pool can hold."""
        inside = [vm for vm in self._vms.values() if vm.live and vm.reservation is None]
        taken = sum(1 for vm in inside if pool_of(vm) == pool)
        return max(0, self._market.capacity(pool) - taken)

    def quotas(self, provider: str, region: str) -> list[QuotaRow]:
        """Limits and usage of a region, or of the project as a whole (`global`)."""
        wanted = PROJECT_WIDE if region == GLOBAL else names(catalogue(provider))
        rows = []
        for name in wanted:
            limit = self._market.limit(provider, region, name)
            if limit is not None:
                usage = self._usage(provider, region, name)
                rows.append(QuotaRow(provider, region, name, limit, usage, unit(name, provider)))
        return rows

    def _reserved(self, pool: Pool, count: int, name: str) -> None:
        obstacle = self._reservations.obstacle(
            pool.provider, name, pool.zone, pool.instance_type, count, self._timeline.now()
        )
        if pool.capacity_type == "spot":
            obstacle = "mismatch"
        if obstacle is not None:
            text = f"reservation {name} cannot take {count} {pool.instance_type} in {pool.zone}: {obstacle}"
            raise Refusal("reservation", text, {"name": name, "obstacle": obstacle})

    def _open_slots(self, pool: Pool, count: int) -> list[str]:
        if pool.capacity_type == "spot":
            return []
        now = self._timeline.now()
        slots = self._reservations.open_slots(pool.provider, pool.zone, pool.instance_type, now)
        return list(itertools.islice(slots, count))

    def _price(self, pool: Pool, max_price: float | None) -> None:
        zone = catalogue(pool.provider).zones.get(pool.zone)
        price = (
            self._market.price(pool, self._timeline.now()) if zone and zone.region == pool.region else None
        )
        if price is None:
            text = f"{pool.instance_type} is not sold as {pool.capacity_type} in {pool.zone}"
            raise Refusal("unsupported", text, {})
        if max_price is not None and max_price < price:
            text = (
                f"{pool.instance_type} in {pool.zone} costs {price} USD an hour, above the bid of {max_price}"
            )
            raise Refusal("price", text, {"price": price, "max_price": max_price})

    def _quota(self, pool: Pool, count: int) -> None:
        for draw in self._draws(pool):
            limit = self._market.limit(pool.provider, draw.region, draw.name)
            usage = self._usage(pool.provider, draw.region, draw.name)
            needed = draw.amount * count
            if limit is None or usage + needed <= limit:
                continue
            facts = {
                "name": draw.name,
                "quota_region": draw.region,
                "limit": limit,
                "usage": usage,
                "needed": needed,
                "unit": unit(draw.name, pool.provider),
                "family": catalogue(pool.provider).types[pool.instance_type].family,
            }
            kind: RefusalKind = "spot_quota" if pool.capacity_type == "spot" else "quota"
            raise Refusal(kind, f"quota {draw.name} in {draw.region}: {usage:g} of {limit:g} in use", facts)

    def _capacity(self, pool: Pool, count: int) -> None:
        if self.free(pool) >= count:
            return
        zones = [zone.key for zone in catalogue(pool.provider).zones_of(pool.region) if zone.key != pool.zone]
        pools = [
            Pool(pool.provider, pool.region, key, pool.instance_type, pool.capacity_type) for key in zones
        ]
        now = self._timeline.now()
        could = [p.zone for p in pools if self._market.price(p, now) is not None and self.free(p) >= count]
        raise Refusal("capacity", f"no {pool.instance_type} left in {pool.zone}", {"zones_available": could})

    def _draws(self, pool: Pool) -> list[Draw]:
        table = catalogue(pool.provider)

        def limit(region: str, name: str) -> float | None:
            return self._market.limit(pool.provider, region, name)

        return draws(table, table.types[pool.instance_type], pool.region, pool.capacity_type, limit)

    def _usage(self, provider: str, region: str, name: str) -> float:
        """Instances that sit in a reservation are counted with it: a plain one draws whether used or not."""
        counted = [(pool_of(vm), 1) for vm in self._vms.values() if vm.live and vm.reservation is None]
        counted += [
            (Pool(held.provider, held.region, held.zone, held.instance_type, "on_demand"), held.count)
            for held in self._reservations.held(provider, self._timeline.now())
        ]
        return sum(
            draw.amount * count
            for pool, count in counted
            if pool.provider == provider
            for draw in self._draws(pool)
            if (draw.region, draw.name) == (region, name)
        )
