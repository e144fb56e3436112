"""Lists of Service Quotas as a region answers with them, and offers that they gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from providers.aws.instance_types import quota_family
from providers.aws.quotas import Reading, drawn, matched, quotas_from
from providers.quotas import Quota
from providers.vocabulary import Accelerator, CapacityType, InstanceType, Offer, OfferKey, Scope
from tests.providers.aws.conftest import REGION

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HERE = Scope("aws", "lab", REGION)
ON_DEMAND, SPOT = CapacityType.ON_DEMAND, CapacityType.SPOT

# As a region lists them, with others that must not be mistaken for them.
NAMES = {
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
    "L-417A185B": "Running On-Demand P instances",
    "L-7212CCBC": "All P Spot Instance Requests",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-2C3B7624": "Running On-Demand Trn instances",
    "L-6B0D517C": "All Trn Spot Instance Requests",
    "L-1945791B": "Running On-Demand Inf instances",
    "L-B5D1601B": "All Inf Spot Instance Requests",
    "L-6E869C2A": "Running On-Demand DL instances",
    "L-85EED4F7": "All DL Spot Instance Requests",
    "L-74FC7D96": "Running On-Demand F instances",
    "L-88CF9481": "All F Spot Instance Requests",
}
OTHERS = {
    "L-7295265B": "Running On-Demand X instances",
    "L-F7808C92": "Running On-Demand HPC instances",
    "L-43DA4232": "Running On-Demand High Memory instances",
    "L-5136197D": "Running Dedicated p5 Hosts",
    "L-DA6814F2": "Concurrent P5 Capacity Blocks per account",
}
SPLIT = {
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
}


def entry(code: str, value: float | None, name: str | None = None, **more: Any) -> dict[str, Any]:
    known = name or SPLIT.get(code) or NAMES.get(code) or OTHERS[code]
    row = {"QuotaCode": code, "QuotaName": known, "Adjustable": True, **more}
    return row if value is None else {**row, "Value": value}


def listed(values: Mapping[str, float], names: Mapping[str, str] = NAMES) -> list[dict[str, Any]]:
    return [entry(code, values.get(code, 0.0), name) for code, name in names.items()]


def offer(name: str, vcpus: int, capacity_type: CapacityType) -> Offer:
    key = OfferKey("aws", "lab", REGION, "use1-az4", name, capacity_type)
    gpu = Accelerator("H100", 8, 80) if name[0] in "pg" else None
    return Offer(key, InstanceType(name, quota_family(name), vcpus, 64.0, gpu), 1.0)


def reading(
    entries: Iterable[Mapping[str, Any]],
    types: tuple[str, ...] = (),
    counts: Mapping[tuple[str, CapacityType], int] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Quota]:
    rows = matched(entries)
    usage = drawn(counts or {}, sizes or {}, frozenset(rows))
    return list(quotas_from(Reading(rows, types, usage, NOW), HERE))
