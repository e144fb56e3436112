"""QuotaPreferences, Cloud Quotas' way to ask for more: what they say and what is sent. No I/O.

Shapes: Cloud Quotas API v1, QuotaPreference. There is one preference for a quota and a set of dimensions; a
later request for the same changes it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from providers.gcp import quota_metrics as metrics
from providers.gcp.quota_api import COMPUTE
from providers.gcp.quota_index import metric_of
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, ReviewState

UPDATE_MASK = "quotaConfig,justification,contactEmail"

# Annotations of quotaConfig ("small amounts of arbitrary data", AIP-128): what was asked for, what the limit
# was before, and when. They stand for the request whose preferred value they name, and for no later one.
_ASKED, _BEFORE, _FILED = "corral-asked", "corral-before", "corral-filed"

_DENIED = re.compile(r"\b(denied|rejected|declined|not approved|unable to (approve|grant))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """One limit that can be asked for: the vendor's id of the quota, and the dimensions."""

    quota_id: str
    dimensions: Mapping[str, str]

    @property
    def preference_id(self) -> str:
        """The same for the same limit, so that filing twice is a conflict and no second request."""
        parts = [self.quota_id, *(f"{key}={self.dimensions[key]}" for key in sorted(self.dimensions))]
        return f"corral-{hashlib.sha256('/'.join(parts).encode()).hexdigest()[:20]}"

    def is_of(self, preference: Mapping[str, Any]) -> bool:
        """True if that preference is about this limit."""
        same = preference.get("quotaId") == self.quota_id and preference.get("service") == COMPUTE
        return same and dict(preference.get("dimensions") or {}) == dict(self.dimensions)


def dimensions_of(key: str, region: str | None) -> dict[str, str]:
    """The dimensions that a quota's key (`GPUS_PER_GPU_FAMILY/NVIDIA_H200`) and region stand for."""
    family = key.partition("/")[2]
    found = {"region": region} if region else {}
    return {**found, "gpu_family": family} if family else found


def id_of(preference: Mapping[str, Any]) -> str:
    """The last part of the preference's name."""
    return str(preference.get("name", "")).rpartition("/")[2]


def is_open(preference: Mapping[str, Any]) -> bool:
    """True while the vendor has not decided, or has not carried out what it decided."""
    return bool(preference.get("reconciling", False))


def body(target: Target, increase: QuotaIncrease, before: float, now: datetime) -> dict[str, Any]:
    """The QuotaPreference that asks for the increase."""
    asked = str(int(increase.limit))
    notes = {_ASKED: asked, _BEFORE: str(int(before)), _FILED: now.isoformat()}
    return {
        "service": COMPUTE,
        "quotaId": target.quota_id,
        "dimensions": dict(target.dimensions),
        "quotaConfig": {"preferredValue": asked, "annotations": notes},
        "justification": increase.justification,
        "contactEmail": increase.contact,
    }


def shown(preference: Mapping[str, Any], region: str) -> CloudQuotaRequest | None:
    """The request behind a preference, as seen from a region; None if it is about another region, or about
    no quota of ours.
    """
    metric = metric_of(str(preference.get("quotaId", "")))
    if metric is None or preference.get("service") != COMPUTE:
        return None
    dimensions = preference.get("dimensions") or {}
    place = dimensions.get("region")
    if place not in (None, region):
        return None
    family = dimensions.get("gpu_family")
    config = preference.get("quotaConfig") or {}
    preferred, granted = _number(config.get("preferredValue")), _number(config.get("grantedValue"))
    own = _own_notes(config)
    return CloudQuotaRequest(
        # One preference serves one request after the other; what it asks for tells them apart.
        provider_id=f"{id_of(preference)}@{config.get('preferredValue', '')}",
        key=f"{metric}/{family}" if family else metric,
        region=None if metric in metrics.PROJECT_WIDE else region,
        state=_state(preference, preferred, granted, _number(own.get(_BEFORE))),
        requested=preferred,
        granted=None if is_open(preference) else granted,
        filed_at=_time(own.get(_FILED)) or _filed(preference),
        changed_at=_time(preference.get("updateTime")),
        detail=str(config.get("stateDetail") or ""),
    )


def _state(
    preference: Mapping[str, Any], preferred: float | None, granted: float | None, before: float | None
) -> ReviewState:
    """A grant of less than was asked for may be the limit that was there before: told by what is known of
    the time of filing, else by the vendor's words, else not at all.
    """
    if is_open(preference):
        return ReviewState.IN_REVIEW
    if preferred is None:
        return ReviewState.UNKNOWN
    if granted is not None and (granted >= preferred or granted < 0):
        return ReviewState.APPROVED
    if granted is not None and before is not None:
        return ReviewState.PARTLY_GRANTED if granted > before else ReviewState.DENIED
    words = str((preference.get("quotaConfig") or {}).get("stateDetail") or "")
    return ReviewState.DENIED if _DENIED.search(words) else ReviewState.CLOSED


def _own_notes(config: Mapping[str, Any]) -> Mapping[str, str]:
    """What we wrote down, unless the preference has been changed since."""
    notes: Mapping[str, str] = config.get("annotations") or {}
    return notes if notes.get(_ASKED) == str(config.get("preferredValue")) else {}


def _filed(preference: Mapping[str, Any]) -> datetime | None:
    """An open request was filed by the last change; of a decided one only the first is known."""
    first, last = _time(preference.get("createTime")), _time(preference.get("updateTime"))
    return last or first if is_open(preference) else first


def _number(value: Any) -> float | None:
    """64-bit numbers are text in JSON, wrapped ones as well."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
