"""From what a project and a region say of their quotas to rows, and what each one gates. No I/O."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeGuard

from providers.gcp import quota_metrics as metrics
from providers.gcp.quota_api import SERVICE
from providers.gcp.quota_feed import Reading
from providers.gcp.quota_usage import Usage
from providers.quotas import Quota, QuotaListing, QuotaUnit
from providers.vocabulary import CapacityType, Scope

_ON_DEMAND, _SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT

Kinds = frozenset[tuple[str, CapacityType]]
#: metric -> (limit, usage)
Metrics = Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Found:
    """A limit and its usage. limit: None is unknown, infinite means there is none. unread: it could have been
    told, and was not. counts: the family whose GPUs have to be counted for the usage.
    """

    limit: float | None
    usage: float | None = None
    unread: bool = False
    counts: str | None = None

    @property
    def bounded(self) -> bool:
        return self.limit != math.inf


@dataclass(frozen=True, slots=True)
class Sources:
    """All that was read for a region. metrics, project: None where they could not be told. missing: the
    places whose offers are not known.
    """

    account: str
    region: str
    now: datetime
    kinds: Kinds
    metrics: Metrics | None
    project: Metrics | None
    reading: Reading | None
    missing: tuple[str, ...] = ()

    def sold(self, families: Set[str], how: Set[CapacityType]) -> Kinds:
        """What is offered of some families in some ways."""
        return frozenset(kind for kind in self.kinds if kind[0] in families and kind[1] in how)


@dataclass(frozen=True, slots=True)
class Row:
    """A quota in the making: `gates` are families and capacity types."""

    key: str
    unit: QuotaUnit
    found: Found
    gates: Kinds


def regional_rows(sources: Sources) -> list[Row]:
    """The region's rows that gate something that is offered."""
    return [row for row in (*_gpu_rows(sources), *_vcpu_rows(sources)) if row.gates and row.found.bounded]


def _gpu_rows(sources: Sources) -> Iterator[Row]:
    for family in sorted({family for family, _ in sources.kinds} & metrics.GPU_FAMILIES):
        spot = _preemptible(sources, family)
        families, unit = {family}, QuotaUnit.GPU
        standard = _standard(sources, family)
        yield Row(metrics.standard(family), unit, standard, sources.sold(families, _standard_draws(spot)))
        if _exists(spot):
            yield Row(metrics.preemptible(family), unit, spot, sources.sold(families, {_SPOT}))


def _vcpu_rows(sources: Sources) -> Iterator[Row]:
    by_metric: dict[str, set[str]] = {}
    for family in sorted({family for family, _ in sources.kinds} & set(metrics.VCPU_METRIC)):
        by_metric.setdefault(metrics.VCPU_METRIC[family], set()).add(family)
    spot = _of_region(sources, metrics.PREEMPTIBLE_VCPUS)
    unit = QuotaUnit.VCPU
    for key, families in by_metric.items():
        standard = _of_region(sources, key) or Found(None)
        yield Row(key, unit, standard, sources.sold(families, _standard_draws(spot)))
    if _exists(spot):
        everyone = {family for families in by_metric.values() for family in families}
        yield Row(metrics.PREEMPTIBLE_VCPUS, unit, spot, sources.sold(everyone, {_SPOT}))


def _exists(preemptible: Found | None) -> TypeGuard[Found]:
    """Without a limit above zero there is no preemptible quota, and Spot draws on the standard one (Compute
    Engine: provisioning models). An unknown limit may be either.
    """
    return preemptible is not None and preemptible.limit != 0


def _standard_draws(preemptible: Found | None) -> set[CapacityType]:
    return {_ON_DEMAND} if _exists(preemptible) else {_ON_DEMAND, _SPOT}


def _standard(sources: Sources, family: str) -> Found:
    if family in metrics.OWN_METRIC:
        return _of_region(sources, metrics.standard(family)) or Found(None)
    dimensions = {"gpu_family": family}
    return _of_cloud_quotas(sources, metrics.PER_FAMILY, family, dimensions) or Found(None)


def _preemptible(sources: Sources, family: str) -> Found | None:
    """None where the project has none."""
    key = metrics.preemptible(family)
    if family in metrics.OWN_METRIC or (sources.metrics is not None and key in sources.metrics):
        return _of_region(sources, key)
    return _of_cloud_quotas(sources, key, family, {})


def _of_region(sources: Sources, metric: str) -> Found | None:
    if sources.metrics is None:
        return Found(None, unread=True)
    known = sources.metrics.get(metric)
    return None if known is None else Found(*known)


def _of_cloud_quotas(
    sources: Sources, metric: str, family: str, dimensions: Mapping[str, str]
) -> Found | None:
    if sources.reading is None or sources.reading.infos is None:
        return Found(None, unread=True)
    info = sources.reading.infos.get(metric)
    return None if info is None else Found(info.limit(sources.region, dimensions), counts=family)


def with_usage(row: Row, usage: Usage) -> Row:
    """The row with what was counted, if its source tells no usage."""
    found = row.found
    if found.counts is None:
        return row
    # What is not sold on demand any more may still run so, and draws on the standard quota.
    drawing = {capacity_type for _, capacity_type in row.gates}
    if not row.key.startswith("PREEMPTIBLE_"):
        drawing.add(_ON_DEMAND)
    counted = usage.of(found.counts, drawing)
    return replace(row, found=replace(found, usage=counted, unread=counted is None))


def listing(sources: Sources, rows: Iterable[Row], usage: Usage) -> QuotaListing:
    """`incomplete` has the keys of the quotas that could not be read in full, and what it was that failed."""
    quotas: list[Quota] = []
    unread = [*sources.missing, *usage.unread]
    if sources.reading is not None and sources.reading.failure is not None:
        unread.append(SERVICE)
    for row in rows:
        quotas.append(_quota(sources, row))
        if row.found.unread:
            unread.append(row.key)
    quotas += _project_wide(sources)
    if sources.project is None:
        unread += metrics.PROJECT_WIDE
    return QuotaListing(tuple(quotas), tuple(unread))


def _quota(sources: Sources, row: Row) -> Quota:
    account = Scope(provider="gcp", account=sources.account, region=sources.region)
    infos = (sources.reading.infos if sources.reading else None) or {}
    info = infos.get(row.key.partition("/")[0])
    gpu_family = row.key.partition("/")[2]
    name = info.name if info else row.key
    return Quota(
        key=row.key,
        name=f"{name} ({gpu_family})" if info and gpu_family else name,
        region=sources.region,
        unit=row.unit,
        limit=row.found.limit,
        usage=row.found.usage,
        gates=tuple(
            Scope(account.provider, account.account, account.region, family=family, capacity_type=how)
            for family, how in sorted(row.gates)
        ),
        read_at=sources.reading.at if row.found.counts and sources.reading else sources.now,
        adjustable=info.adjustable if info else None,
    )


def _project_wide(sources: Sources) -> Iterator[Quota]:
    gpus = any(family in metrics.GPU_FAMILIES for family, _ in sources.kinds)
    everything = Scope(provider="gcp", account=sources.account)
    for key, unit in metrics.PROJECT_WIDE.items():
        known = (sources.project or {}).get(key)
        if known is not None and (gpus or unit is not QuotaUnit.GPU):
            yield Quota(key, key, None, unit, *known, (everything,), sources.now)
