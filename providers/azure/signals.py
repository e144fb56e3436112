"""What Azure says of its spot capacity: placement scores and eviction rates.

Sources: Azure documentation, "Spot Placement Score" (at most 5 sizes and 8 regions a question; three grades;
it speaks of the number asked for, in each zone or in the region) and "Use Azure Spot Virtual Machines"
(SpotResources of Resource Graph: evictions per hour over the last 28 days, in bands of five per cent).
Neither promises anything; what is not told is unknown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clock import Clock
from providers.azure.arm import Arm, same_place
from providers.azure.market import Market
from providers.azure.skus import Size
from providers.azure.versions import RESOURCE_GRAPH, SCORES
from providers.errors import ProviderError
from providers.signals import SignalListing, SpotSignal

SCORE, EVICTIONS = "spot_placement_score", "eviction_rate"
KEPT_FOR = 1800.0  # seconds; Azure's own figures move no faster
SIZES_PER_QUESTION = 5

# Azure gives grades. The figures are ours, so that they can be compared with those of other clouds.
GRADES = {"high": 0.9, "medium": 0.5, "low": 0.1, "restrictedskunotavailable": 0.0}
_TOP_BAND = 0.2  # `20+`


@dataclass(frozen=True, slots=True)
class _Kept:
    listing: SignalListing
    until: float


class SpotSignals:
    """One account's readings, kept for a while. Thread-safe."""

    def __init__(self, arm: Arm, market: Market, clock: Clock) -> None:
        self._arm = arm
        self._market = market
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[str, _Kept] = {}

    def listing(self, region: str) -> SignalListing:
        """The signals of a region; a source that cannot be read is named, and asked again next time."""
        with self._lock:
            kept = self._kept.get(region)
        if kept is not None and self._clock.monotonic() < kept.until:
            return kept.listing
        found = self._read(region)
        if not found.incomplete:
            with self._lock:
                self._kept[region] = _Kept(found, self._clock.monotonic() + KEPT_FOR)
        return found

    def _read(self, region: str) -> SignalListing:
        try:
            sizes = {name: size for name, size in self._market.sizes(region).items() if _wanted(size, region)}
        except ProviderError as error:
            return SignalListing((), (f"sizes of {region} ({error})",))
        found: list[SpotSignal] = []
        incomplete: list[str] = []
        sources: tuple[tuple[str, Callable[[str, Mapping[str, Size]], list[SpotSignal]]], ...] = (
            (SCORE, self._scores),
            (EVICTIONS, self._evictions),
        )
        for name, read in sources:
            try:
                found += read(region, sizes) if sizes else []
            except ProviderError as error:
                incomplete.append(f"{name} of {region} ({error})")
        return SignalListing(tuple(found), tuple(incomplete))

    def _scores(self, region: str, sizes: Mapping[str, Size]) -> list[SpotSignal]:
        """For one machine, in the region as a whole and in each zone."""
        rows: list[tuple[bool, Mapping[str, Any]]] = []
        for zonal in (False, True):
            names = [name for name, size in sizes.items() if size.zones or not zonal]
            for first in range(0, len(names), SIZES_PER_QUESTION):
                some = names[first : first + SIZES_PER_QUESTION]
                rows += [(zonal, row) for row in self._ask(region, some, zonal=zonal)]
        return list(self._scored(region, sizes, rows))

    def _ask(self, region: str, names: Sequence[str], *, zonal: bool) -> list[Mapping[str, Any]]:
        home = f"{self._arm.subscription}/providers/Microsoft.Compute/locations/{region}"
        body = {
            "desiredLocations": [region],
            "desiredSizes": [{"sku": name} for name in names],
            "desiredCount": 1,
            "availabilityZones": zonal,
        }
        answer = self._arm.look_up(f"{home}/placementScores/spot/generate", SCORES, body)
        return list(answer.get("placementScores") or ())

    def _scored(
        self, region: str, sizes: Mapping[str, Size], rows: Sequence[tuple[bool, Mapping[str, Any]]]
    ) -> Iterator[SpotSignal]:
        now = self._clock.now()
        spelled = {name.lower(): name for name in sizes}
        for zonal, row in rows:
            name = spelled.get(str(row.get("sku")).lower())
            grade = GRADES.get(str(row.get("score")).lower())
            number = str(row.get("availabilityZone") or "")
            if name is None or grade is None or not same_place(str(row.get("region")), region):
                continue
            if not zonal or number in sizes[name].zones:
                zone = f"{region}-{number}" if zonal else None
                yield SpotSignal(name, region, zone, SCORE, now, obtainability=grade)

    def _evictions(self, region: str, sizes: Mapping[str, Size]) -> list[SpotSignal]:
        now = self._clock.now()
        spelled = {name.lower(): name for name in sizes}
        quoted = ", ".join(f"'{name}'" for name in sorted(spelled))
        query = (
            "SpotResources | where type =~ 'microsoft.compute/skuspotevictionrate/location' "
            f"and location =~ '{region}' and sku.name in~ ({quoted}) "
            "| project size = tostring(sku.name), rate = tostring(properties.evictionRate)"
        )
        body = {
            "subscriptions": [self._arm.subscription.rpartition("/")[2]],
            "query": query,
            "options": {"resultFormat": "objectArray"},
        }
        answer = self._arm.look_up("/providers/Microsoft.ResourceGraph/resources", RESOURCE_GRAPH, body)
        rates = {str(row.get("size")).lower(): _rate(row.get("rate")) for row in answer.get("data") or ()}
        return [
            SpotSignal(spelled[name], region, None, EVICTIONS, now, eviction_rate=rate)
            for name, rate in rates.items()
            if name in spelled and rate is not None
        ]


def _wanted(size: Size, region: str) -> bool:
    return size.spot and size.type.accelerator is not None and bool(size.placements(region))


def _rate(band: Any) -> float | None:
    """The middle of a band in per cent, as a share; the last has no end, so its beginning counts."""
    text = str(band or "").strip().removesuffix("%")
    if text.endswith("+"):
        return _TOP_BAND
    low, mark, high = text.partition("-")
    if not mark or not low.strip().isdecimal() or not high.strip().isdecimal():
        return None
    return (int(low) + int(high)) / 200
