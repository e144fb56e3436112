"""The vCPU limits of a region: what Service Quotas says they are, and what instances draw on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from re import fullmatch
from typing import Any

from clock import Clock
from providers.aws.api import Api
from providers.aws.cache import Cache
from providers.aws.catalogue import Catalogue
from providers.aws.instance_types import read_sizes
from providers.aws.instances import LIFECYCLES
from providers.aws.quota_table import LIMITS, Limit, is_split, limit_of
from providers.aws.reservations import read_reservations, unused
from providers.errors import ProviderError
from providers.quotas import Quota, QuotaListing, QuotaUnit
from providers.vocabulary import CapacityType, Scope

DEFAULTS_SECONDS = 24 * 3600.0  # the vendor's own values, not the account's
COUNTED_STATES = ("pending", "running")
NOTHING_APPLIED = "NoSuchResourceException"

Usage = Mapping[Limit, float | None]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a region. rows: the vendor's entry of each limit that the region has. types: the
    names of what is offered; None if that could not be read. usage: vCPUs; None likewise.
    """

    rows: Mapping[Limit, Mapping[str, Any]]
    types: Sequence[str] | None
    usage: Usage | None
    read_at: datetime


class Quotas:
    """Reads the account's limits. Sizes of types never change and are kept, default limits for a day."""

    def __init__(self, api: Api, catalogue: Catalogue, clock: Clock) -> None:
        self._api, self._catalogue, self._clock = api, catalogue, clock
        self._defaults: Cache[str, list[Mapping[str, Any]]] = Cache(clock, DEFAULTS_SECONDS)
        self._sizes: dict[str, int] = {}

    def read(self, region: str) -> QuotaListing:
        """The region's limits. Raises ProviderError if the account's own cannot be read. Without anything
        else the listing is incomplete: a limit that AWS keeps at its default is left out, usage is unknown.
        """
        incomplete: list[str] = []

        def attempt(what: str, read: Callable[[], Any]) -> Any:
            try:
                return read()
            except ProviderError:
                incomplete.append(f"{region} {what}")
                return None

        rows = matched(self._applied(region))
        if len(rows) < len(LIMITS):
            defaults = attempt(
                "quota defaults", lambda: self._defaults.get(region, lambda: self._vendor(region))
            )
            rows = {**matched(defaults or ()), **rows}
        present = frozenset(rows)
        types: Sequence[str] | None = ()
        if any(is_split(limit, present) for limit in present):
            types = attempt("instance types", lambda: self._catalogue.type_names(region))
        usage = attempt("quota usage", lambda: self._usage(region, present))
        reading = Reading(rows, types, usage, self._clock.now())
        scope = self._api.subject(region)
        return QuotaListing(tuple(quotas_from(reading, scope)), tuple(incomplete))

    def _applied(self, region: str) -> list[Mapping[str, Any]]:
        """The limits with a value of the account's own. [Service Quotas API Reference, ListServiceQuotas]"""
        try:
            return self._list(region, "list_service_quotas")
        except ProviderError as error:
            if error.code != NOTHING_APPLIED:
                raise
            return []

    def _vendor(self, region: str) -> list[Mapping[str, Any]]:
        """The limits of an account that never asked for more; only those in the table are kept."""
        return list(matched(self._list(region, "list_aws_default_service_quotas")).values())

    def _list(self, region: str, action: str) -> list[Mapping[str, Any]]:
        pages = self._api.pages("service-quotas", region, action, "Quotas", ServiceCode="ec2", MaxResults=100)
        return list(pages)

    def _usage(self, region: str, present: frozenset[Limit]) -> Usage:
        wanted = [{"Name": "instance-state-name", "Values": list(COUNTED_STATES)}]
        pages = self._api.pages(
            "ec2", region, "describe_instances", "Reservations", Filters=wanted, MaxResults=1000
        )
        counts = counted(instance for reservation in pages for instance in reservation["Instances"])
        for name, free in unused(read_reservations(self._api, region)):
            counts[name, CapacityType.ON_DEMAND] += free
        unsized = {name for name, _ in counts} - self._sizes.keys()
        if unsized:
            self._sizes.update(read_sizes(self._api, region, unsized))
        return drawn(counts, self._sizes, present)


def matched(listed: Iterable[Mapping[str, Any]]) -> dict[Limit, Mapping[str, Any]]:
    """The entry of each limit that is listed, found by its name, or else by the code that it used to have."""
    entries = list(listed)
    by_code = {entry["QuotaCode"]: entry for entry in entries}
    named = {
        limit: entry
        for limit in LIMITS
        for entry in entries
        if fullmatch(limit.name, entry.get("QuotaName", ""))
    }
    known = {limit: by_code[limit.code] for limit in LIMITS if limit not in named and limit.code in by_code}
    return {**named, **known}


def counted(instances: Iterable[Mapping[str, Any]]) -> Counter[tuple[str, CapacityType]]:
    """How many instances of a type were bought in which way. Capacity blocks and Dedicated Hosts have
    limits of their own.
    """
    counts: Counter[tuple[str, CapacityType]] = Counter()
    for one in instances:
        if one.get("Placement", {}).get("Tenancy") != "host":
            lifecycle = LIFECYCLES.get(one.get("InstanceLifecycle", ""), CapacityType.ON_DEMAND)
            counts[one["InstanceType"], lifecycle] += 1
    return counts


def drawn(
    counts: Mapping[tuple[str, CapacityType], int], sizes: Mapping[str, int], present: frozenset[Limit]
) -> dict[Limit, float | None]:
    """vCPUs in use of each limit; None, unknown, where the size of a type that draws on it is not known."""
    usage: dict[Limit, float | None] = dict.fromkeys(present, 0.0)
    for (name, capacity_type), count in counts.items():
        limit = limit_of(name, capacity_type, present)
        if limit is None:
            continue
        size, so_far = sizes.get(name), usage[limit]
        usage[limit] = None if size is None or so_far is None else so_far + size * count
    return usage


def quotas_from(reading: Reading, region: Scope) -> Iterable[Quota]:
    """The limits in the table's order. One whose types cannot be told is left out."""
    present = frozenset(reading.rows)
    for limit in (limit for limit in LIMITS if limit in present):
        gates = _gates(limit, present, reading.types, region)
        if gates is None:
            continue
        entry = reading.rows[limit]
        yield Quota(
            key=entry["QuotaCode"],
            name=entry.get("QuotaName", limit.code),
            region=region.region,
            unit=QuotaUnit.VCPU,
            limit=_value(entry),
            usage=reading.usage[limit] if reading.usage is not None else None,
            gates=gates,
            read_at=reading.read_at,
            adjustable=entry.get("Adjustable"),
        )


def _gates(
    limit: Limit, present: frozenset[Limit], types: Sequence[str] | None, region: Scope
) -> tuple[Scope, ...] | None:
    """A family as a whole, or its types one by one where a region counts generations apart."""

    def scope(type_name: str | None = None) -> Scope:
        return Scope(
            provider=region.provider,
            account=region.account,
            region=region.region,
            instance_type=type_name,
            family=limit.family,
            capacity_type=limit.capacity_type,
        )

    if not is_split(limit, present):
        return (scope(),)
    if types is None:
        return None
    return tuple(scope(name) for name in types if limit_of(name, limit.capacity_type, present) == limit)


def _value(entry: Mapping[str, Any]) -> float | None:
    """None where AWS says that it could not find out. [Service Quotas API Reference, ErrorReason]"""
    if entry.get("ErrorReason") or entry.get("Value") is None:
        return None
    return float(entry["Value"])
