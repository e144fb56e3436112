"""GetSpotPlacementScores: what EC2 says of its spot capacity (EC2 User Guide, "Spot placement score")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import page

_FEWEST_TYPES, _LOW = 3, 3
_MOST_SCORES, _MOST_REGIONS = 10, 10


def get_spot_placement_scores(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """A zone's score is how many instances its pools could still hold, at most 10, at least 1; of fewer than
    three types it is low whatever there is. Only the ten best are told.
    """
    names = params.get("InstanceTypes", [])
    regions = params.get("RegionNames") or list(context.table.regions)
    if not names:
        raise AwsError("MissingParameter", "InstanceTypes or InstanceRequirementsWithMetadata is needed")
    if len(regions) > _MOST_REGIONS:
        raise AwsError("InvalidParameterValue", f"At most {_MOST_REGIONS} Regions are allowed")
    unknown = [name for name in names if name not in context.table.types]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid instance type: {unknown[0]}")
    dry_run(params)
    rows = [
        {"Region": region, "AvailabilityZoneId": zone.key, "Score": score}
        for region in regions
        for zone in context.table.zones_of(region)
        if (score := _score(context, region, zone.key, names)) is not None
    ]
    if not params.get("SingleAvailabilityZone"):
        best = {region: [row["Score"] for row in rows if row["Region"] == region] for region in regions}
        rows = [{"Region": region, "Score": max(scores)} for region, scores in best.items() if scores]
    rows.sort(key=lambda row: -int(str(row["Score"])))
    shown, token = page(rows[:_MOST_SCORES], params, "scores", most=_MOST_SCORES)
    return {"SpotPlacementScores": shown, "NextToken": token}


def _score(context: Context, region: str, zone: str, names: list[str]) -> int | None:
    """None where none of the types exists."""
    sold = [name for name in names if context.table.sold(zone, name)]
    if not sold:
        return None
    free = sum(context.world.free("aws", region, zone, name, "spot") for name in sold)
    return max(1, min(free, 10 if len(names) >= _FEWEST_TYPES else _LOW))
