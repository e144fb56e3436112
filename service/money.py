"""Money is kept in whole millionths of a USD, so that sums are exact."""

from __future__ import annotations

from datetime import datetime

MICROS = 1_000_000


def to_micros(usd: float) -> int:
    """USD to millionths, to the nearest."""
    return round(usd * MICROS)


def from_micros(micros: int) -> float:
    """Millionths to USD."""
    return micros / MICROS


def cost_micros(price_micros: int, starts: datetime, ends: datetime) -> int:
    """What a price per hour comes to over a time, to the nearest millionth; never below zero."""
    microseconds = max(0, round((ends - starts).total_seconds() * MICROS))
    return (price_micros * microseconds + 1_800_000_000) // 3_600_000_000
