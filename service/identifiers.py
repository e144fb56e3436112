"""Identifiers: a letter for the kind, then time and chance, so that they sort by age and stay short."""

from __future__ import annotations

from datetime import datetime
from random import Random

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str, now: datetime, chance: Random) -> str:
    """`prefix-` and 16 characters of `[0-9a-z]`: 42 bits of milliseconds, 38 of chance."""
    number = (int(now.timestamp() * 1000) & (1 << 42) - 1) << 38 | chance.getrandbits(38)
    digits = []
    for _ in range(16):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return f"{prefix}-{''.join(reversed(digits))}"
