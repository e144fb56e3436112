"""What Reservation and FutureReservation messages say. Pure; they are read elsewhere.

Shapes: Compute Engine API v1. Which model a launch needs: Compute Engine, "Provisioning models" (reservation-
bound, for blocks of capacity and for future reservations in calendar mode).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from providers.gcp.machine_types import Shape
from providers.gcp.observation import tail, time_of
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import InstanceType

KEY = "compute.googleapis.com/reservation-name"
_SSD_GIB = 375

_STATES: dict[str, ReservationState] = {
    "CREATING": ReservationState.SCHEDULED,
    "READY": ReservationState.ACTIVE,
    "UPDATING": ReservationState.ACTIVE,
    "DELETING": ReservationState.ENDED,
}

_PROCUREMENT: dict[str, ReservationState] = {
    "PENDING_APPROVAL": ReservationState.SCHEDULED,
    "PENDING_AMENDMENT_APPROVAL": ReservationState.SCHEDULED,
    "APPROVED": ReservationState.SCHEDULED,
    "COMMITTED": ReservationState.SCHEDULED,
    "PROCURING": ReservationState.SCHEDULED,
    "PROVISIONING": ReservationState.SCHEDULED,
    "FULFILLED": ReservationState.ACTIVE,
    "FAILED_PARTIALLY_FULFILLED": ReservationState.ACTIVE,
    "FAILED": ReservationState.ENDED,
    "DECLINED": ReservationState.ENDED,
    "CANCELLED": ReservationState.ENDED,
}


@dataclass(frozen=True, slots=True)
class Target:
    """How a launch names a reservation and what it must have in common with it. bound: its instances are
    RESERVATION_BOUND, and end with it. policy: the placement policy that the reservation was made with.
    """

    name: str
    bound: bool
    cpu_platform: str = ""
    policy: str = ""


def id_of(zone: str, name: str) -> str:
    """Names are unique in a zone only."""
    return f"{tail(zone)}/{name}"


def place_of(reservation_id: str) -> tuple[str, str]:
    """Zone and name of an id."""
    zone, _, name = reservation_id.partition("/")
    return zone, name


def type_name(properties: Any) -> str:
    """The instance type of what is reserved."""
    cards = properties.guest_accelerators
    if cards and properties.machine_type.startswith("n1-"):
        first = cards[0]
        return str(Shape(properties.machine_type, tail(first.accelerator_type), first.accelerator_count))
    return str(properties.machine_type)


def made_ahead(futures: Iterable[Any]) -> frozenset[str]:
    """The ids of reservations that future reservations have made."""
    return frozenset(found for message in futures for found in delivered(message))


def made_by_calendar(futures: Iterable[Any]) -> frozenset[str]:
    """The ids of those that are for a fixed time, paid ahead."""
    return made_ahead(message for message in futures if message.reservation_mode == "CALENDAR")


def delivered(message: Any) -> frozenset[str]:
    """The ids of the reservations that a future reservation has become."""
    urls = message.status.auto_created_reservations
    return frozenset(id_of(message.zone, tail(url)) for url in urls)


def is_bound(message: Any, calendar: frozenset[str]) -> bool:
    """Whether instances in it must be RESERVATION_BOUND."""
    return message.deployment_type == "DENSE" or id_of(message.zone, message.name) in calendar


def current(
    message: Any,
    size: InstanceType,
    region: str,
    now: datetime,
    made: frozenset[str],
    price: float | None,
) -> Reservation:
    """A Reservation. What is usable now counts, where the API tells it, and not what was ordered."""
    sku = message.specific_reservation
    own_id = id_of(message.zone, message.name)
    ends_at = time_of(message.delete_at_time)
    state = _STATES.get(message.status, ReservationState.UNKNOWN)
    if ends_at is not None and ends_at <= now:
        state = ReservationState.ENDED
    elif state is ReservationState.ACTIVE and fault_in(message, size.name, size):
        state = ReservationState.UNKNOWN  # nothing that we launch would match it
    future = own_id in made
    return Reservation(
        id=own_id,
        kind=ReservationKind.FUTURE_RESERVATION if future else ReservationKind.CAPACITY_RESERVATION,
        region=region,
        zone=tail(message.zone),
        type=size,
        state=state,
        total=sku.assured_count if "assured_count" in sku else sku.count,
        used=sku.in_use_count,
        starts_at=time_of(message.creation_timestamp),
        ends_at=ends_at,
        price=price,
        targeted=message.specific_reservation_required,
        name=message.name,
    )


def future(message: Any, size: InstanceType, region: str, now: datetime) -> Reservation | None:
    """A FutureReservation that has become no reservation yet; None for a mere draft."""
    if message.status.procurement_status in ("DRAFTING", ""):
        return None
    window = message.time_window
    ends_at = time_of(window.end_time)
    state = _PROCUREMENT.get(message.status.procurement_status, ReservationState.UNKNOWN)
    if ends_at is not None and ends_at <= now:
        state = ReservationState.ENDED
    elif state is ReservationState.ACTIVE:
        state = ReservationState.UNKNOWN  # fulfilled, and what it was fulfilled by is not among the others
    return Reservation(
        id=id_of(message.zone, message.reservation_name or message.name),
        kind=ReservationKind.FUTURE_RESERVATION,
        region=region,
        zone=tail(message.zone),
        type=size,
        state=state,
        total=message.specific_sku_properties.total_count,
        used=0,
        starts_at=time_of(window.start_time),
        ends_at=ends_at,
        targeted=message.specific_reservation_required,
        name=message.name,
    )


def fault_in(message: Any, instance_type: str, size: InstanceType | None) -> str:
    """Why a launch of that type could not use the reservation, whatever is free in it; empty if it could."""
    properties = message.specific_reservation.instance_properties
    if type_name(properties) != instance_type:
        return f"it is of {type_name(properties) or 'no machine type'}, not of {instance_type}"
    bundled = size.local_disk_gib if size else 0.0
    ssds = sum(disk.disk_size_gb or _SSD_GIB for disk in properties.local_ssds)
    if ssds > bundled:
        return f"it has {ssds} GB of local SSD; instances here have {bundled:g}, and both must be alike"
    return ""


def target(message: Any, bound: bool) -> Target:
    """What a launch into it says."""
    platform = message.specific_reservation.instance_properties.min_cpu_platform
    policy = next((tail(message.resource_policies[key]) for key in sorted(message.resource_policies)), "")
    return Target(message.name, bound, platform, policy)
