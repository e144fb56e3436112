"""Capacity that was paid for ahead: what a cloud says of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from providers.vocabulary import InstanceType


class ReservationKind(StrEnum):
    """How it was bought."""

    CAPACITY_RESERVATION = "capacity_reservation"
    CAPACITY_BLOCK = "capacity_block"
    FUTURE_RESERVATION = "future_reservation"
    STANDING = "standing"


class ReservationState(StrEnum):
    """Whether it can be used. `unknown`: the cloud said something that we have no word for."""

    SCHEDULED = "scheduled"
    ACTIVE = "active"
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation of instances of one type in one zone.

    id: what `OfferKey.reservation` names and a launch targets. total, used: instances; None is unknown, never
    zero. `price` is USD per instance-hour as billed whether used or not; None where it was paid ahead or is
    unknown. `targeted`: only a launch that names it can use it; an open one is eaten by whatever matches.
    """

    id: str
    kind: ReservationKind
    region: str
    zone: str
    type: InstanceType
    state: ReservationState
    total: int | None
    used: int | None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    price: float | None = None
    targeted: bool = True
    name: str = ""

    @property
    def free(self) -> int | None:
        """Instances that could be started in it now; None is unknown."""
        if self.total is None or self.used is None:
            return None
        return max(0, self.total - self.used)


@dataclass(frozen=True, slots=True)
class ReservationListing:
    """The reservations of a region. `incomplete` names what could not be read: older readings of it stand."""

    reservations: tuple[Reservation, ...]
    incomplete: tuple[str, ...] = ()
