"""Capacity that was paid for ahead: machines that stand apart from the pools, for those who may use them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sandbox.catalogue import Zone, catalogue
from sandbox.vm import Vm

ReservationKind = Literal["plain", "block"]
ReservationState = Literal["scheduled", "active", "ended"]
#: Why a launch cannot use the reservation that it names.
Obstacle = Literal["unknown", "mismatch", "inactive", "full"]

Seconds = Annotated[float, Field(ge=0, le=100_000_000)]

# EC2 begins to end the instances of a capacity block so long before the block ends ("Capacity Blocks for
# ML": 30 minutes); elsewhere they end with it.
_CLEARED_BEFORE = {"aws": timedelta(minutes=30)}


class ReservationRule(BaseModel):
    """A reservation of `count` instances of a type in a zone. The same name again replaces its terms.

    zone: by key or by name. kind: `plain` is billed like on-demand and its instances outlive it; `block` has
    a fixed term, was paid ahead, takes no quota, and its instances end with it. targeted: only a launch that
    names it may use it; else whatever matches and does not decline takes its slots first. starts, ends:
    seconds from when the rule is put in force; ends null: until it is replaced.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["aws", "gcp", "azure"]
    name: str = Field(min_length=1, max_length=200)
    zone: str
    instance_type: str
    count: int = Field(ge=0)
    kind: ReservationKind = "plain"
    targeted: bool = True
    starts: Seconds = 0.0
    ends: Seconds | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        table = catalogue(self.provider)
        if table.zone(self.zone) is None:
            raise ValueError(
                f"zone {self.zone!r} is in no catalogue; known: {', '.join(sorted(table.zones))}"
            )
        if self.instance_type not in table.types:
            known = ", ".join(sorted(table.types))
            raise ValueError(f"instance_type {self.instance_type!r} is in no catalogue; known: {known}")
        if self.kind == "block" and (self.ends is None or not self.targeted):
            raise ValueError("a block has an end (`ends`) and is used by name only (`targeted`)")
        if self.ends is not None and self.ends < self.starts:
            raise ValueError(f"ends {self.ends:g} is before starts {self.starts:g}")
        return self

    @property
    def place(self) -> Zone:
        """The zone that `zone` means."""
        found = catalogue(self.provider).zone(self.zone)
        if found is None:
            raise LookupError(self.zone)
        return found


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation as it stands. `zone` is the catalogue's key; `extra` is for the face of its cloud."""

    provider: str
    name: str
    kind: ReservationKind
    region: str
    zone: str
    instance_type: str
    count: int
    targeted: bool
    made_at: datetime
    starts_at: datetime
    ends_at: datetime | None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    def state(self, now: datetime) -> ReservationState:
        """Whether it can be used."""
        if now < self.starts_at:
            return "scheduled"
        return "active" if self.ends_at is None or now < self.ends_at else "ended"

    @property
    def cleared_at(self) -> datetime | None:
        """When the cloud ends what runs in it; None: never."""
        if self.kind != "block" or self.ends_at is None:
            return None
        return self.ends_at - _CLEARED_BEFORE.get(self.provider, timedelta())


class Reservations:
    """All reservations, and who sits in which. Not locked: the world is."""

    def __init__(self, vms: Mapping[tuple[str, str], Vm]) -> None:
        self._vms = vms
        self._known: dict[tuple[str, str], Reservation] = {}

    def put(self, rule: ReservationRule, now: datetime) -> Reservation:
        """A new reservation, or new terms for the one of that name; who sits in it stays."""
        before = self._known.get((rule.provider, rule.name))
        made = Reservation(
            provider=rule.provider,
            name=rule.name,
            kind=rule.kind,
            region=rule.place.region,
            zone=rule.place.key,
            instance_type=rule.instance_type,
            count=rule.count,
            targeted=rule.targeted,
            made_at=before.made_at if before else now,
            starts_at=now + timedelta(seconds=rule.starts),
            ends_at=None if rule.ends is None else now + timedelta(seconds=rule.ends),
            extra=before.extra if before else {},
        )
        self._known[rule.provider, rule.name] = made
        return made

    def get(self, provider: str, name: str) -> Reservation | None:
        """The reservation of that name, ended ones included."""
        return self._known.get((provider, name))

    def of(self, provider: str) -> list[Reservation]:
        """A cloud's reservations in the order they were made, ended ones included."""
        return [found for found in self._known.values() if found.provider == provider]

    def used(self, reservation: Reservation) -> int:
        """Instances that sit in it; those that end sit there until they are gone."""
        return len(self.inside(reservation))

    def inside(self, reservation: Reservation) -> list[Vm]:
        """The instances that sit in it."""
        key = reservation.provider, reservation.name
        return [vm for vm in self._vms.values() if vm.live and (vm.provider, vm.reservation) == key]

    def free(self, reservation: Reservation, now: datetime) -> int:
        """How many more instances it can hold now."""
        if reservation.state(now) != "active":
            return 0
        return max(0, reservation.count - self.used(reservation))

    def obstacle(
        self, provider: str, name: str, zone: str, instance_type: str, count: int, now: datetime
    ) -> Obstacle | None:
        """What keeps `count` instances out of the reservation that they name."""
        found = self.get(provider, name)
        if found is None:
            return "unknown"
        if (found.zone, found.instance_type) != (zone, instance_type):
            return "mismatch"
        cleared = found.cleared_at
        if found.state(now) != "active" or (cleared is not None and now >= cleared):
            return "inactive"
        return None if self.free(found, now) >= count else "full"

    def open_slots(self, provider: str, zone: str, instance_type: str, now: datetime) -> Iterator[str]:
        """A reservation's name for each free slot that a launch without a target takes."""
        for found in self.of(provider):
            if not found.targeted and (found.zone, found.instance_type) == (zone, instance_type):
                yield from [found.name] * self.free(found, now)

    def held(self, provider: str, now: datetime) -> Iterator[Reservation]:
        """Those that count against quota, whether used or not."""
        return (r for r in self.of(provider) if r.kind == "plain" and r.state(now) == "active")
