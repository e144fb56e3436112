"""What a subscription may have in a region: the location's usages as quotas, and what they leave possible.

One listing tells limit and usage of all that the compute provider counts (Azure REST reference, Compute,
Usage - List). On demand takes from the region's cores and from its family's; spot takes from one pool of the
region, whatever the size (Azure documentation, "Use Azure Spot Virtual Machines").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from clock import Clock
from providers.azure.arm import Arm
from providers.azure.errors import family_key
from providers.azure.market import Market
from providers.azure.skus import Size
from providers.azure.versions import COMPUTE, NETWORK
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.quotas import Quota, QuotaListing, QuotaUnit, needed
from providers.vocabulary import CapacityType, Offer, OfferKey, Scope

CORES, SPOT_CORES, MACHINES = "cores", "lowPriorityCores", "virtualMachines"
_DEMAND, _SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT


class Quotas:
    """One account's limits. Nothing is kept: usage changes with every machine."""

    def __init__(self, config: AccountConfig, arm: Arm, market: Market, clock: Clock) -> None:
        self._config = config
        self._arm = arm
        self._market = market
        self._clock = clock

    def listing(self, region: str) -> QuotaListing:
        """The region's quotas; what cannot be read is named with the reason instead of failing the rest."""
        # Sizes may take half a minute; what is launched meanwhile must not seem to be in the usage.
        now = self._clock.now()
        try:
            rows = self._usages(region)
        except ProviderError as error:
            return QuotaListing((), (f"usages of {region} ({error})",))
        incomplete: tuple[str, ...] = ()
        sizes: Mapping[str, Size] = {}
        try:
            sizes = self._market.sizes(region)
        except ProviderError as error:
            incomplete = (f"families of {region} ({error})",)
        found = quotas(rows, sizes, self._place(region), now)
        if self._config.regions[region].public_address:
            try:
                found += addresses(self._network_usages(region), self._place(region), now)
            except ProviderError as error:
                incomplete += (f"addresses of {region} ({error})",)
        return QuotaListing(found, incomplete)

    def review(self, region: str) -> str:
        """For a person: what is free, and which limits are too low for a size. ProviderError of kind quota
        if they leave nothing that could be launched, of another kind if they cannot be read.
        """
        rows, sizes = self._usages(region), self._market.sizes(region)
        found = quotas(rows, sizes, self._place(region), self._clock.now())
        return judged(found, _offers(sizes, self._arm.account, region))

    def limits(self, region: str) -> dict[str, tuple[str, float | None]]:
        """Everything that Azure counts in a region: squeezed key -> (key as it spells it, limit)."""
        rows = self._usages(region)
        return {family_key(_key(row)): (_key(row), _count(row.get("limit"))) for row in rows}

    def _usages(self, region: str) -> list[dict[str, Any]]:
        path = f"{self._arm.subscription}/providers/Microsoft.Compute/locations/{region}/usages"
        return self._arm.pages(path, COMPUTE)

    def _network_usages(self, region: str) -> list[dict[str, Any]]:
        path = f"{self._arm.subscription}/providers/Microsoft.Network/locations/{region}/usages"
        return self._arm.pages(path, NETWORK)

    def _place(self, region: str) -> Scope:
        return Scope("azure", self._arm.account, region)


@dataclass(frozen=True, slots=True)
class _Counter:
    """Something that Azure counts in a region, `key` and `name` as it spells them; family None: whatever the
    size; capacity_type None: on demand and spot alike.
    """

    key: str
    name: str
    capacity_type: CapacityType | None = _DEMAND
    family: str | None = None
    unit: QuotaUnit = QuotaUnit.VCPU
    # vCPU limits can be raised (Azure documentation, "Azure quotas").
    adjustable: bool | None = True


_REGIONAL = (
    _Counter(CORES, "Total Regional vCPUs"),
    _Counter(SPOT_CORES, "Total Regional Low-priority vCPUs", _SPOT),
    _Counter(MACHINES, "Virtual Machines", None, unit=QuotaUnit.INSTANCE, adjustable=None),
)


def quotas(
    rows: Iterable[Mapping[str, Any]], sizes: Mapping[str, Size], place: Scope, now: datetime
) -> tuple[Quota, ...]:
    """The usages that gate the sizes of a place, which is an account's region. One that Azure does not list
    has a limit that is unknown, not zero.
    """
    listed = {_key(row): row for row in rows}
    squeezed = {family_key(key): row for key, row in listed.items()}
    region = place.region or ""
    spelled = {size.type.family: size.family for size in sizes.values() if size.placements(region)}
    families = [_Counter(key, key, family=family) for family, key in sorted(spelled.items())]
    # Sizes and usages spell some families differently: only here has `Standard NCASv3_T4 Family` blanks.
    return tuple(
        _quota(listed.get(one.key) or squeezed.get(family_key(one.key), {}), one, place, now)
        for one in (*_REGIONAL, *families)
    )


# The limit on Standard addresses, of which a machine with a public one takes one; the first that is listed.
_ADDRESSES = ("ipv4standardskupublicipaddresses", "standardskupublicipaddresses")


def addresses(rows: Iterable[Mapping[str, Any]], place: Scope, now: datetime) -> tuple[Quota, ...]:
    """The limit on public addresses among a region's network usages, found by its name; none if Azure does
    not list it. Our requests are for compute quotas only.
    """
    listed = {family_key(_key(row)): row for row in rows}
    row = next((listed[name] for name in _ADDRESSES if name in listed), None)
    if row is None:
        return ()
    one = _Counter(_key(row), "Public IP addresses", None, unit=QuotaUnit.INSTANCE, adjustable=False)
    return (_quota(row, one, place, now),)


def counts_addresses(key: str) -> bool:
    """Whether a quota is the one on public addresses."""
    return family_key(key) in _ADDRESSES


def judged(found: Sequence[Quota], offers: Sequence[Offer]) -> str:
    """`Quotas.review` of what has been read. Offers with GPUs are those that matter, if there are any."""
    wanted = [offer for offer in offers if offer.type.accelerator is not None] or offers
    short = [[quota for quota in found if _too_low(quota, offer)] for offer in wanted]
    limits = ", ".join(sorted({f"{quota.key} {quota.limit:g}" for some in short for quota in some}))
    if short and all(short):
        raise ProviderError(ErrorKind.QUOTA, f"too low for any size that is offered: {limits}")
    free = {quota.key: _free(quota) for quota in found}
    text = f"free vCPUs: {free.get(CORES, '?')} on demand, {free.get(SPOT_CORES, '?')} spot"
    return f"{text}; too low for some sizes: {limits}" if limits else text


def _too_low(quota: Quota, offer: Offer) -> bool:
    """Whether a quota refuses even the first instance."""
    limit = quota.limit
    return limit is not None and limit < needed(quota.unit, offer.type, 1) and quota.covers(offer)


def _offers(sizes: Mapping[str, Size], account: str, region: str) -> list[Offer]:
    """One for each size and capacity type: zones and prices do not matter to quotas."""
    return [
        Offer(OfferKey("azure", account, region, region, size.type.name, capacity_type), size.type, None)
        for size in sizes.values()
        if size.placements(region)
        for capacity_type in (_DEMAND, _SPOT)
        if size.spot or capacity_type is _DEMAND
    ]


def _quota(row: Mapping[str, Any], one: _Counter, place: Scope, now: datetime) -> Quota:
    name = row.get("name") or {}
    gate = replace(place, family=one.family, capacity_type=one.capacity_type)
    return Quota(
        key=_key(row) or one.key,
        name=str(name.get("localizedValue") or one.name),
        region=place.region,
        unit=one.unit,
        limit=_count(row.get("limit")),
        usage=_count(row.get("currentValue")),
        gates=(gate,),
        read_at=now,
        adjustable=one.adjustable,
    )


def _key(row: Mapping[str, Any]) -> str:
    return str((row.get("name") or {}).get("value") or "")


def _count(value: Any) -> float | None:
    """A figure of a usage; what is none, or below zero (Microsoft.Quota's -1: not counted), is unknown."""
    return float(value) if isinstance(value, int | float) and value >= 0 else None


def _free(quota: Quota) -> str:
    if quota.limit is None or quota.usage is None:
        return "?"
    return f"{quota.limit - quota.usage:g}"
