"""Spot placement scores: how likely spot machines are to be had, in three grades, from what pools hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError, Call
from sandbox.faces.arm.market import must_be_known
from sandbox.faces.arm.state import Face

_MOST_PLACES, _MOST_SIZES, _MOST_MACHINES = 8, 5, 1000


def generate(face: Face, call: Call) -> Response:
    """A grade for each size and region, or for each size and zone."""
    must_be_known(call)
    places = _list(call, "desiredLocations", _MOST_PLACES)
    sizes = [str(one.get("sku")) for one in _list(call, "desiredSizes", _MOST_SIZES)]
    count = call.body.get("desiredCount", 1)
    if not isinstance(count, int) or not 1 <= count <= _MOST_MACHINES:
        raise ArmError(400, "BadRequest", f"desiredCount must be from 1 to {_MOST_MACHINES}.")
    zonal = call.body.get("availabilityZones") is True
    rows = [
        row
        for place in places
        for size in sizes
        for row in _rows(face, str(place).lower(), size, count, zonal=zonal)
    ]
    return JSONResponse({**call.body, "placementScores": rows})


def _list(call: Call, name: str, most: int) -> Sequence[Any]:
    value = call.body.get(name)
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise ArmError(400, "BadRequest", f"{name} must have from 1 to {most} items.")
    return value


def _rows(face: Face, region: str, size: str, count: int, *, zonal: bool) -> Iterator[dict[str, Any]]:
    table = catalogue("azure")
    if region not in table.regions or size not in table.types:
        return
    zones = [(zone.key, zone.name) for zone in table.zones_of(region)] if zonal else [(region, "")]
    limits = {row.name: row for row in face.world.quotas("azure", region)}
    cores = limits["lowPriorityCores"]
    enough = cores.limit - cores.usage >= table.types[size].vcpus * count
    for key, number in zones:
        row = {"sku": size, "region": region, "score": _grade(face, region, key, size, count)}
        yield {**row, "isQuotaAvailable": enough, **({"availabilityZone": number} if number else {})}


def _grade(face: Face, region: str, zone: str, size: str, count: int) -> str:
    if not catalogue("azure").sold(zone, size):
        return "RestrictedSkuNotAvailable"
    free = face.world.free("azure", region, zone, size, "spot")
    if free < count:
        return "Low"
    return "High" if free >= 4 * count else "Medium"
