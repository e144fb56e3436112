"""EC2's spot placement scores: how likely a spot request succeeds in a zone now, 1 to 10.

A score is for a set of at least three types; with fewer EC2 always answers low. So types are asked about
together with all others of the same GPU, and a GPU that comes in fewer sizes has no score. New sets are
limited per day, so the sets are always the same and asked at most once an hour. [EC2 User Guide, "Spot
placement score"; EC2 API Reference, GetSpotPlacementScores]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from providers.aws.api import Api
from providers.aws.instance_types import Sold
from providers.errors import ProviderError
from providers.signals import SignalListing, SpotSignal
from providers.vocabulary import CapacityType

SOURCE = "spot placement score"
FEWEST, BEST = 3, 10
SECONDS = 3600.0


def read_signals(api: Api, region: str, types: Mapping[str, Sold], now: datetime) -> SignalListing:
    """The scores of a region's zones for each type. What cannot be read is named; never raises."""
    signals: list[SpotSignal] = []
    incomplete: list[str] = []
    for gpu, names in sets(types.values()).items():
        try:
            signals.extend(_signals(names, _scores(api, region, names), region, now))
        except ProviderError:
            incomplete.append(f"{region} {gpu}")
    return SignalListing(tuple(signals), tuple(incomplete))


def sets(types: Iterable[Sold]) -> dict[str, list[str]]:
    """The sets that can be scored: names of the types that have a GPU and are sold as spot, by GPU."""
    found: dict[str, list[str]] = defaultdict(list)
    for sold in types:
        if sold.type.accelerator is not None and CapacityType.SPOT in sold.capacity_types:
            found[sold.type.accelerator.name].append(sold.type.name)
    return {gpu: sorted(names) for gpu, names in sorted(found.items()) if len(names) >= FEWEST}


def _scores(api: Api, region: str, names: Sequence[str]) -> list[Mapping[str, Any]]:
    pages = api.pages(
        "ec2",
        region,
        "get_spot_placement_scores",
        "SpotPlacementScores",
        InstanceTypes=list(names),
        TargetCapacity=1,
        TargetCapacityUnitType="units",
        SingleAvailabilityZone=True,
        RegionNames=[region],
        MaxResults=10,
    )
    return list(pages)


def _signals(
    names: Sequence[str], scores: Iterable[Mapping[str, Any]], region: str, now: datetime
) -> Iterator[SpotSignal]:
    for score in scores:
        zone = score.get("AvailabilityZoneId")
        if zone and score.get("Region") == region and 1 <= score.get("Score", 0) <= BEST:
            for name in names:
                yield SpotSignal(name, region, zone, SOURCE, now, obtainability=score["Score"] / BEST)
