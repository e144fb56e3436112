"""Capacity reservations on the EC2 face: DescribeCapacityReservations, and what a launch says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import Getter, filtered, no_ids_and_pages, page
from sandbox.faces.ec2.shapes import RESERVATION_ID, reservation_id, tags
from sandbox.faces.ec2.site import ACCOUNT
from sandbox.reservations import Reservation

_STATES = {"scheduled": "scheduled", "active": "active", "ended": "expired"}
_PREFERENCES = ("open", "none", "capacity-reservations-only")
_SHOWN_AFTER_END = timedelta(hours=1)

_FILTERS: dict[str, Getter] = {
    "availability-zone": lambda row: [row["AvailabilityZone"]],
    "availability-zone-id": lambda row: [row["AvailabilityZoneId"]],
    "instance-match-criteria": lambda row: [row["InstanceMatchCriteria"]],
    "instance-type": lambda row: [row["InstanceType"]],
    "reservation-type": lambda row: [row["ReservationType"]],
    "state": lambda row: [row["State"]],
    "tag:": lambda row: {tag["Key"]: tag["Value"] for tag in row["Tags"]},
}


def describe(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """By ids, filters and pages; those that are over for an hour more."""
    no_ids_and_pages(params, "CapacityReservationIds")
    dry_run(params)
    now = context.world.now()
    shown = [
        (one, used)
        for one, used in context.world.reservations("aws")
        if one.region == context.region and (one.ends_at is None or now < one.ends_at + _SHOWN_AFTER_END)
    ]
    wanted = params.get("CapacityReservationIds", [])
    known = {reservation_id(one.name) for one, _ in shown}
    for one_id in wanted:
        if one_id not in known:
            raise _unknown(one_id)
    rows = [
        _row(context, one, used) for one, used in shown if not wanted or reservation_id(one.name) in wanted
    ]
    rows = filtered(rows, params.get("Filters", []), _FILTERS)
    part, token = page(rows, params, "reservations")
    return {"CapacityReservations": part, "NextToken": token}


def _row(context: Context, one: Reservation, used: int) -> dict[str, Any]:
    state = one.state(context.world.now())
    name = {"Name": one.name} if one.name != reservation_id(one.name) else {}
    return {
        "CapacityReservationId": reservation_id(one.name),
        "OwnerId": ACCOUNT,
        "CapacityReservationArn": (
            f"arn:aws:ec2:{one.region}:{ACCOUNT}:capacity-reservation/{reservation_id(one.name)}"
        ),
        "AvailabilityZone": context.table.zones[one.zone].name,
        "AvailabilityZoneId": one.zone,
        "InstanceType": one.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": one.count,
        "AvailableInstanceCount": max(0, one.count - used) if state == "active" else 0,
        "State": _STATES[state],
        "StartDate": one.starts_at,
        "EndDate": one.ends_at,
        "EndDateType": "limited" if one.ends_at else "unlimited",
        "InstanceMatchCriteria": "targeted" if one.targeted else "open",
        "CreateDate": one.made_at,
        "ReservationType": "capacity-block" if one.kind == "block" else "default",
        "Tags": tags(name),
    }


def target(context: Context, params: Mapping[str, Any], zone: str | None, market: str | None) -> str | None:
    """The name of the reservation that a launch is for; AwsError where EC2 would refuse it."""
    specification = params.get("CapacityReservationSpecification", {})
    preference = specification.get("CapacityReservationPreference")
    if preference is not None and preference not in _PREFERENCES:
        raise AwsError("InvalidParameterValue", f"Invalid CapacityReservationPreference: '{preference}'")
    wanted = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId")
    if wanted is None:
        if preference == "capacity-reservations-only":
            raise AwsError(
                "InvalidParameterCombination", "the local clouds want a target for that preference"
            )
        if market == "capacity-block":
            raise AwsError("MissingParameter", "A Capacity Block needs a CapacityReservationTarget")
        return None
    if market == "spot" or preference in ("open", "none"):
        text = "A capacity reservation target cannot be combined with Spot or with another preference"
        raise AwsError("InvalidParameterCombination", text)
    found = _named([one for one, _ in context.world.reservations("aws")], context.region, wanted)
    if (found.kind == "block") != (market == "capacity-block"):
        text = f"The market type does not fit the reservation '{wanted}'"
        raise AwsError("InvalidParameterCombination", text)
    if (zone, params.get("InstanceType")) != (found.zone, found.instance_type):
        text = f"The instance does not match the attributes of the capacity reservation '{wanted}'"
        raise AwsError("InvalidParameterValue", text)
    return found.name


def matching(params: Mapping[str, Any], market: str | None) -> bool:
    """Whether a launch without a target takes open reservations, as all but spot do unless told otherwise."""
    specification = params.get("CapacityReservationSpecification", {})
    return market != "spot" and specification.get("CapacityReservationPreference", "open") != "none"


def _named(known: Sequence[Reservation], region: str, wanted: str) -> Reservation:
    for one in known:
        if one.region == region and reservation_id(one.name) == wanted:
            return one
    raise _unknown(wanted)


def _unknown(wanted: str) -> AwsError:
    if not RESERVATION_ID.fullmatch(wanted):
        return AwsError("InvalidCapacityReservationId.Malformed", f"Invalid id: '{wanted}'")
    text = f"The capacity reservation ID '{wanted}' does not exist"
    return AwsError("InvalidCapacityReservationId.NotFound", text)


def refusal(obstacle: str) -> AwsError:
    """What EC2 says of a reservation that cannot be used now."""
    if obstacle == "inactive":
        return AwsError("InvalidCapacityReservationState", "The capacity reservation is not active.")
    text = "The requested reservation does not have sufficient compatible and available capacity"
    return AwsError("ReservationCapacityExceeded", text)
