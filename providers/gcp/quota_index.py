"""What the Cloud Quotas API says of a project's GPU limits, and which of its values holds where. No I/O.

Shapes: Cloud Quotas API v1, QuotaInfo. It tells limits only, never usage.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# `PREEMPTIBLE-NVIDIA-H200-GPUS-per-project-region`; zonal and project-wide ones end otherwise.
_REGIONAL = re.compile(r"([A-Z0-9-]+)-per-project-region")
_PASSED_OVER = re.compile(r"^COMMITTED_|_VWS_")


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
    """A quota: the vendor's name, whether an increase can be asked for, values from narrow to general."""

    name: str
    adjustable: bool | None
    values: tuple[Value, ...]

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
                str(info.get("quotaDisplayName") or info.get("metricDisplayName") or metric),
                _adjustable(info),
                tuple(_values(info, regions)),
            )
    return found


def _metric(info: Mapping[str, Any]) -> str | None:
    """The metric of a regional quota on GPUs; None for all others."""
    quota_id = str(info.get("quotaId", ""))
    match = _REGIONAL.fullmatch(quota_id)
    if match is None or "GPU" not in quota_id:
        return None
    metric = match[1].replace("-", "_")
    return None if _PASSED_OVER.search(metric) else metric


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
