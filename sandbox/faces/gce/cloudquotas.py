"""Cloud Quotas' list of a project's limits on Compute Engine: every metric, those that regions hide included.

The API gives limits only, for the narrowest dimensions first (Cloud Quotas API v1, QuotaInfo).
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sandbox.catalogue import Catalogue
from sandbox.faces.gce.answers import ApiError
from sandbox.quotas import GLOBAL
from sandbox.world import World

SERVICE = "compute.googleapis.com"
METHOD = "cloudquotas.projects.locations.services.quotaInfos.list"
PROJECT_NUMBER = "100000000001"
_PARENT = f"projects/{PROJECT_NUMBER}/locations/global/services/{SERVICE}"
_PAGE = 100

#: metric -> GPU family or "" -> region -> limit.
Limits = dict[str, dict[str, dict[str, float]]]


def page(world: World, table: Catalogue, query: Mapping[str, str]) -> dict[str, Any]:
    """One page of the list."""
    return paged(query, "quotaInfos", list(quota_infos(world, table)))


def paged(query: Mapping[str, str], field: str, every: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The page of a list that the query asks for."""
    size = int(query.get("pageSize") or _PAGE)
    start = _offset(query.get("pageToken", ""))
    if size < 0:
        raise ApiError(400, "badRequest", f"pageSize {size}: expected 0 or more")
    answer: dict[str, Any] = {field: list(every[start : start + size])}
    if len(every) > start + size:
        answer["nextPageToken"] = base64.urlsafe_b64encode(str(start + size).encode()).decode()
    return answer


def _offset(token: str) -> int:
    try:
        return int(base64.urlsafe_b64decode(token or b"MA=="))
    except (ValueError, binascii.Error):
        raise ApiError(400, "badRequest", "pageToken: not one of ours") from None


def quota_infos(world: World, table: Catalogue) -> Iterator[dict[str, Any]]:
    """A QuotaInfo for each metric that the project has a limit of."""
    regional: Limits = {}
    for region in table.regions:
        for row in world.quotas("gcp", region):
            metric, _, family = row.name.partition("/")
            regional.setdefault(metric, {}).setdefault(family, {})[region] = row.limit
    for metric, families in regional.items():
        dimensions = ["region", "gpu_family"] if "" not in families else ["region"]
        narrow, general = [], []
        for family, limits in families.items():
            own, rest = _values(limits, {"gpu_family": family} if family else {})
            narrow += own
            general.append(rest)
        yield _info(metric, f"{metric.replace('_', '-')}-per-project-region", dimensions, narrow + general)
    for row in world.quotas("gcp", GLOBAL):
        value = _value({}, row.limit, ["global"])
        yield _info(row.name, f"{row.name.replace('_', '-')}-per-project", [], [value])


def _values(
    limits: Mapping[str, float], dimensions: dict[str, str]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Regions that have a limit of their own, and the most usual limit for all the others."""
    usual = Counter(limits.values()).most_common(1)[0][0]
    own = {region: limit for region, limit in limits.items() if limit != usual}
    narrow = [_value({**dimensions, "region": region}, limit, [region]) for region, limit in own.items()]
    return narrow, _value(dimensions, usual, [region for region in limits if region not in own])


def _value(dimensions: dict[str, str], limit: float, places: list[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"dimensions": dimensions} if dimensions else {}
    return {**shown, "details": {"value": str(round(limit))}, "applicableLocations": places}


def _info(metric: str, quota_id: str, dimensions: list[str], values: list[dict[str, Any]]) -> dict[str, Any]:
    words = metric.replace("_", " ").capitalize()
    return {
        "name": f"{_PARENT}/quotaInfos/{quota_id}",
        "quotaId": quota_id,
        "metric": f"{SERVICE}/{metric.lower()}",
        "service": SERVICE,
        "isPrecise": True,
        "containerType": "PROJECT",
        "dimensions": dimensions,
        "metricDisplayName": words,
        "quotaDisplayName": f"{words} per project" + (" per region" if dimensions else ""),
        "metricUnit": "1",
        "quotaIncreaseEligibility": {"isEligible": True},
        "dimensionsInfos": values,
    }
