"""Capacity that was paid for ahead: On-Demand Capacity Reservations and Capacity Blocks.

[EC2 User Guide, "Reserve compute capacity with EC2 On-Demand Capacity Reservations" and "Capacity Blocks for
ML"; EC2 API Reference, CapacityReservation]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from providers.aws.api import Api
from providers.errors import ErrorKind, ProviderError
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import InstanceType, LaunchRequest, Scope

STATES = {
    "active": ReservationState.ACTIVE,
    "assessing": ReservationState.SCHEDULED,
    "delayed": ReservationState.SCHEDULED,
    "payment-pending": ReservationState.SCHEDULED,
    "pending": ReservationState.SCHEDULED,
    "scheduled": ReservationState.SCHEDULED,
    "cancelled": ReservationState.ENDED,
    "cancelling": ReservationState.ENDED,
    "expired": ReservationState.ENDED,
    "failed": ReservationState.ENDED,
    "payment-failed": ReservationState.ENDED,
    "unavailable": ReservationState.ENDED,
    "unsupported": ReservationState.ENDED,
}

# EC2 begins to end the instances of a block so long before the block ends. ["Capacity Blocks for ML"]
CLEARED_BEFORE = timedelta(minutes=30)
BLOCK = "capacity-block"
PLATFORMS = frozenset({"Linux/UNIX"})


def read_reservations(api: Api, region: str) -> list[Mapping[str, Any]]:
    """The raw reservations of a region, in every state that EC2 still shows."""
    pages = api.pages(
        "ec2", region, "describe_capacity_reservations", "CapacityReservations", MaxResults=1000
    )
    return list(pages)


def is_ours(raw: Mapping[str, Any]) -> bool:
    """Whether our launches can use it: Linux on shared hardware that nobody else may take back."""
    return (
        raw.get("InstancePlatform", "Linux/UNIX") in PLATFORMS
        and raw.get("Tenancy", "default") == "default"
        and not raw.get("Interruptible")
    )


def is_block(raw: Mapping[str, Any]) -> bool:
    return bool(raw.get("ReservationType") == BLOCK)


def parse(
    raw: Mapping[str, Any],
    region: str,
    type_: InstanceType,
    zone_of: Callable[[str], str],
    prices: Mapping[str, float],
) -> Reservation:
    """zone_of: from a zone's name to its id. prices: on-demand list prices, which a reservation is billed at
    whether it is used or not; a block was paid ahead. A block ends, for us, when EC2 begins to clear it.
    """
    block = is_block(raw)
    total, available = raw.get("TotalInstanceCount"), raw.get("AvailableInstanceCount")
    return Reservation(
        id=raw["CapacityReservationId"],
        kind=ReservationKind.CAPACITY_BLOCK if block else ReservationKind.CAPACITY_RESERVATION,
        region=region,
        zone=raw.get("AvailabilityZoneId") or zone_of(raw.get("AvailabilityZone", "")),
        type=type_ if _is_close(raw) else replace(type_, fabric=None),
        state=STATES.get(raw.get("State", ""), ReservationState.UNKNOWN),
        total=total,
        used=None if total is None or available is None else max(0, total - available),
        starts_at=raw.get("StartDate"),
        ends_at=_end(raw.get("EndDate"), block),
        price=None if block else prices.get(raw["InstanceType"]),
        targeted=raw.get("InstanceMatchCriteria") == "targeted",
        name={tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}.get("Name", ""),
    )


def _end(at: datetime | None, block: bool) -> datetime | None:
    return at - CLEARED_BEFORE if at is not None and block else at


def unused(raw: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, int]]:
    """(type, instances) of reservations that count against the on-demand quota though nothing runs in them.
    Blocks have quotas of their own. [EC2 User Guide, "On-Demand Instance quotas"]
    """
    for one in raw:
        if one.get("State") == "active" and not is_block(one) and one.get("AvailableInstanceCount"):
            yield one["InstanceType"], one["AvailableInstanceCount"]


def find_target(api: Api, request: LaunchRequest, subject: Scope) -> Mapping[str, Any]:
    """The reservation that a launch names. Raises ProviderError where it could not be used: it is another
    type's, another zone's, or no longer there. One that is full or has not begun is EC2's to refuse.
    """
    offer = request.offer
    named = offer.reservation
    if named is None:
        message = "a launch into reserved capacity names its reservation"
        raise ProviderError(ErrorKind.INVALID_REQUEST, message, scope=subject)
    answer = api.read(
        "ec2", offer.region, "describe_capacity_reservations", subject, CapacityReservationIds=[named]
    )
    raw: Mapping[str, Any]
    for raw in answer.get("CapacityReservations", ()):
        if problem := _mismatch(raw, request):
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{named} {problem}", scope=_about(subject))
        return raw
    raise ProviderError(ErrorKind.NOT_FOUND, f"EC2 knows no {named}", scope=_about(subject))


def refuse_scattered(raw: Mapping[str, Any], subject: Scope) -> None:
    """Raise ProviderError (unsupported) for a reservation whose instances do not stand close together: it was
    made in no cluster placement group, and cannot be used in another. A block's do.
    """
    if not _is_close(raw):
        message = (
            f"{raw['CapacityReservationId']} was not made in a cluster placement group, as `fabric` needs"
        )
        raise ProviderError(ErrorKind.UNSUPPORTED, message, scope=_about(subject), avoid_for=timedelta(0))


def _is_close(raw: Mapping[str, Any]) -> bool:
    return is_block(raw) or bool(raw.get("PlacementGroupArn"))


def _mismatch(raw: Mapping[str, Any], request: LaunchRequest) -> str:
    offer = request.offer
    if STATES.get(raw.get("State", "")) is ReservationState.ENDED:
        return f"is {raw['State']}"
    if raw.get("InstanceType") != offer.instance_type:
        return f"is for {raw.get('InstanceType')}, not for {offer.instance_type}"
    if raw.get("AvailabilityZoneId", offer.zone) != offer.zone:
        return f"is in {raw['AvailabilityZoneId']}, not in {offer.zone}"
    return "" if is_ours(raw) else "is for another platform or dedicated hardware, or may be taken back"


def _about(subject: Scope) -> Scope:
    """The reservation alone."""
    return Scope(subject.provider, subject.account, subject.region, reservation=subject.reservation)
