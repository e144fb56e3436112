"""What attempts and jobs cost, from the charges that are booked for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

_MICROSECOND = timedelta(microseconds=1)
_HOUR = 3_600_000_000  # microseconds


@dataclass(frozen=True, slots=True)
class Span:
    """A time at a price: `price_micros` is millionths of a USD per instance-hour; `ends` None is still on."""

    starts: datetime
    ends: datetime | None
    price_micros: int


def cost_micros(spans: Iterable[Span], now: datetime) -> int:
    """Millionths of a USD for all the spans together, up to `now`.

    Added up as whole numbers of micro-USD × microseconds and rounded once, half up, so that the cost of the
    parts never disagrees with the cost of the whole by more than the last digit.
    """
    total = 0
    for span in spans:
        length = (span.ends or now) - span.starts
        total += span.price_micros * max(0, length // _MICROSECOND)
    return (2 * total + _HOUR) // (2 * _HOUR)
