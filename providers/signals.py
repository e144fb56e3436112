"""What vendors say of their spot capacity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SpotSignal:
    """A vendor's word on spot instances of a type, in a zone or (None) anywhere in the region.

    obtainability: 0 to 1, how likely a request is granted now. eviction_rate: 0 to 1, the share of instances
    taken back per hour. Either is None where the vendor does not say. `source` names the vendor's measure.
    """

    instance_type: str
    region: str
    zone: str | None
    source: str
    read_at: datetime
    obtainability: float | None = None
    eviction_rate: float | None = None


@dataclass(frozen=True, slots=True)
class SignalListing:
    """The signals of a region. `incomplete` names what could not be read."""

    signals: tuple[SpotSignal, ...]
    incomplete: tuple[str, ...] = ()
