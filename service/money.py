"""Money is kept in whole millionths of a USD, so that sums are exact."""

from __future__ import annotations

MICROS = 1_000_000


def to_micros(usd: float) -> int:
    """USD to millionths, to the nearest."""
    return round(usd * MICROS)


def from_micros(micros: int) -> float:
    """Millionths to USD."""
    return micros / MICROS
