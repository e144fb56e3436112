"""Capacity advice: how likely spot instances are obtained, as the market stands."""

from __future__ import annotations

from typing import Any

from sandbox.catalogue import Catalogue
from sandbox.faces.gce.answers import Call, invalid
from sandbox.world import World

Body = dict[str, Any]
_MOST_TYPES = 5
# What is asked for is there, or a part of it, or nothing.
_SURE, _NONE = 0.9, 0.1


class Advice:
    """Answers advice.capacity for one zone and one or several machine types."""

    def __init__(self, world: World, table: Catalogue) -> None:
        self._world = world
        self._table = table

    def capacity(self, call: Call) -> Body:
        """One recommendation: the best of the places and types that were asked about."""
        body, region = call.body, call.path["region"]
        model = body.get("instanceProperties", {}).get("scheduling", {}).get("provisioningModel")
        size = int(body.get("size", 0))
        if model != "SPOT":
            raise invalid("instanceProperties.scheduling.provisioningModel", model, "Must be SPOT.")
        if size < 1:
            raise invalid("size", size, "Must be above zero.")
        zones = self._zones(call, region)
        pools = [(zone, name) for zone in zones for name in self._names(call, zone)]
        found = [(self._world.free("gcp", region, *pool, "spot"), *pool) for pool in pools]
        best = max(found, default=None)
        if best is None:
            raise invalid("instanceFlexibilityPolicy", body, "No such machine type in these zones.")
        free, zone, name = best
        share = min(1.0, free / size)
        shard = {
            "zone": call.link("zones", zone),
            "machineType": name.partition("+")[0],
            "instanceCount": size,
            "provisioningModel": "SPOT",
        }
        scores = {"obtainability": round(_NONE + (_SURE - _NONE) * share, 3), "estimatedUptime": "3600s"}
        return {"recommendations": [{"scores": scores, "shards": [shard]}]}

    def _zones(self, call: Call, region: str) -> list[str]:
        given = call.body.get("distributionPolicy", {}).get("zones", ())
        named = [str(entry.get("zone", "")).rpartition("/")[2] for entry in given]
        zones = [zone.key for zone in self._table.zones_of(region) if not named or zone.key in named]
        if not zones:
            raise invalid("distributionPolicy.zones", named, "They are not in the region.")
        return zones

    def _names(self, call: Call, zone: str) -> list[str]:
        selections = call.body.get("instanceFlexibilityPolicy", {}).get("instanceSelections", {})
        found = []
        for selection in selections.values():
            machine_types = selection.get("machineTypes", ())
            if len(machine_types) > _MOST_TYPES:
                raise invalid("machineTypes", len(machine_types), f"At most {_MOST_TYPES}.")
            cards = selection.get("guestAccelerators", ())
            suffix = f"+{cards[0]['acceleratorType']}x{cards[0]['acceleratorCount']}" if cards else ""
            found += [f"{name}{suffix}" for name in machine_types]
        return [name for name in found if self._table.sold(zone, name)]
