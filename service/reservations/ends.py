"""When a reservation must be left: what each cloud does to the instances in it at its end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.reservations import ReservationKind


@dataclass(frozen=True, slots=True)
class EndRule:
    """`taken_before`: how long before its end a cloud begins to end what runs in it. `margin`: how much
    earlier the job is told, so that its last checkpoint is safe.
    """

    taken_before: timedelta
    margin: timedelta


# A kind that is not listed ends no instance: those run on, billed as any other.
END_RULES: dict[ReservationKind, EndRule] = {
    # EC2 begins to terminate 30 minutes before the end of a block, and warns 10 minutes before that (Amazon
    # EC2 User Guide: "Capacity Blocks for ML", "Monitor Capacity Blocks using EventBridge").
    ReservationKind.CAPACITY_BLOCK: EndRule(timedelta(minutes=30), timedelta(minutes=15)),
    # What a future reservation in calendar mode delivered ends at its end time together with the VMs in it
    # (Compute Engine API: FutureReservation.reservationMode CALENDAR).
    ReservationKind.FUTURE_RESERVATION: EndRule(timedelta(0), timedelta(minutes=15)),
}

WORTH_A_START = timedelta(minutes=30)
"""With less time than this before a reservation must be left nothing is started in it."""


def taken_at(kind: ReservationKind, ends_at: datetime | None) -> datetime | None:
    """When the cloud begins to end what runs in a reservation; None if it never does."""
    rule = END_RULES.get(kind)
    return None if rule is None or ends_at is None else ends_at - rule.taken_before


def leave_at(
    kind: ReservationKind, ends_at: datetime | None, grace: timedelta = timedelta(0)
) -> datetime | None:
    """When a job with this grace is told to leave a reservation; None if it need not."""
    rule, taken = END_RULES.get(kind), taken_at(kind, ends_at)
    return None if rule is None or taken is None else taken - max(rule.margin, grace)
