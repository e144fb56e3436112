"""What the Cloud Quotas API says of the limits that matter here, and which of its values holds where. No I/O.

Shapes: Cloud Quotas API v1, QuotaInfo. It tells limits only, never usage.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.gcp import quota_metrics as metrics

# `PREEMPTIBLE-NVIDIA-H200-GPUS-per-project-region`, `GPUS-ALL-REGIONS-per-project`; zonal ones end otherwise.
_QUOTA_ID = re.compile(r"(?P<metric>[A-Z0-9-]+)-per-project(?P<regional>-region)?")
_PASSED_OVER = re.compile(r"^COMMITTED_|_VWS_")
_VCPUS = frozenset({*metrics.VCPU_METRIC.values(), metrics.PREEMPTIBLE_VCPUS})

#: Where a limit on the whole project holds.
GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Value:
    """A limit, for all places and dimensions that no narrower one is given for. Infinite: there is none."""

    dimensions: Mapping[str, str]
    locations: frozenset[str]
    limit: float | None

    def holds(self, target: Mapping[str, str]) -> bool:
        """True if it is about the target, which has a `region`."""
        here = not self.locations or target["region"] in self.locations
        return here and self.dimensions.items() <= target.items()


@dataclass(frozen=True, slots=True)
class Info:
    """A quota: the vendor's name and id, whether it is counted by region, whether an increase can be
    asked for and why not, values from narrow to general.
    """

    name: str
    quota_id: str
    regional: bool
    adjustable: bool | None
    values: tuple[Value, ...]
    fixed_because: str = ""

    def limit(self, region: str, dimensions: Mapping[str, str]) -> float | None:
        """The limit that is in force; None if it is not told. The first value that is about it counts."""
        target = {"region": region, **dimensions}
        return next((value.limit for value in self.values if value.holds(target)), None)


def read(quota_infos: Iterable[Mapping[str, Any]], regions: frozenset[str]) -> dict[str, Info]:
    """metric (`GPUS_PER_GPU_FAMILY`) -> what is said of it in these regions."""
    found: dict[str, Info] = {}
    for info in quota_infos:
        metric = _metric(info)
        if metric is not None:
            found[metric] = Info(
                name=str(info.get("quotaDisplayName") or info.get("metricDisplayName") or metric),
                quota_id=str(info["quotaId"]),
                regional=metric not in metrics.PROJECT_WIDE,
                adjustable=_adjustable(info),
                values=tuple(_values(info, regions | {GLOBAL})),
                fixed_because=_reason(info),
            )
    return found


def _metric(info: Mapping[str, Any]) -> str | None:
    return metric_of(str(info.get("quotaId", "")))


def metric_of(quota_id: str) -> str | None:
    """The metric of a quota on GPUs or on vCPUs that GPU machines draw on; None for all others."""
    match = _QUOTA_ID.fullmatch(quota_id)
    if match is None:
        return None
    metric = match["metric"].replace("-", "_")
    if match["regional"] is None:
        return metric if metric in metrics.PROJECT_WIDE else None
    if metric in _VCPUS:
        return metric
    return metric if "GPU" in metric and not _PASSED_OVER.search(metric) else None


def _reason(info: Mapping[str, Any]) -> str:
    """Why no increase can be asked for, in the vendor's word; empty if it can or none is given."""
    if info.get("isFixed"):
        return "IS_FIXED"
    return str((info.get("quotaIncreaseEligibility") or {}).get("ineligibilityReason") or "")


def _adjustable(info: Mapping[str, Any]) -> bool | None:
    """False is left out of JSON, as every default is; an eligibility without it says no."""
    if info.get("isFixed"):
        return False
    eligibility = info.get("quotaIncreaseEligibility")
    return None if eligibility is None else bool(eligibility.get("isEligible", False))


def _values(info: Mapping[str, Any], regions: frozenset[str]) -> Iterable[Value]:
    for entry in info.get("dimensionsInfos") or ():
        dimensions = dict(entry.get("dimensions") or {})
        places = frozenset(entry.get("applicableLocations") or ())
        if places and not places & regions:
            continue
        yield Value(dimensions, places & regions, _limit((entry.get("details") or {}).get("value")))


def _limit(value: Any) -> float | None:
    """64-bit numbers are text in JSON. -1 stands for no limit; what is left out is not taken for zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return math.inf if number < 0 else number
