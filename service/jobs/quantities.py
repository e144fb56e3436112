"""Durations, sizes and ranges as people write them. Each function raises ValueError saying what is wrong."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"^(\d+(?:\.\d+)?)\s*([smhdw])")
_NUMBER = r"\d+(?:\.\d+)?"
_SIZE = re.compile(rf"^({_NUMBER})\s*([kmgt]i?b?)?$", re.IGNORECASE)
_IN_GIB = {"k": 1 / 1024**2, "m": 1 / 1024, "g": 1.0, "t": 1024.0}


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high`, both included; None where that end is open."""

    low: float | None
    high: float | None


def duration_seconds(value: Any) -> int:
    """`72h`, `1d12h`, `90m`, or a number of seconds; rounded up to a whole second."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("is not a duration; write for example 72h, 30m or 1d12h")
    if isinstance(value, (int, float)) or re.fullmatch(_NUMBER, value.strip()):
        seconds = _float(value)
    else:
        seconds = _spelt_duration(value.strip().lower())
    if math.isnan(seconds) or seconds < 0:
        raise ValueError("is not a duration: it must not be negative")
    if seconds > 100 * 365 * 86400:
        raise ValueError("is longer than a century")
    return math.ceil(seconds)


def _spelt_duration(text: str) -> float:
    seconds, rest = 0.0, text
    while rest:
        found = _DURATION.match(rest)
        if not found:
            raise ValueError(f"{text!r} is not a duration; write for example 72h, 30m or 1d12h")
        seconds += float(found[1]) * _UNITS[found[2]]
        rest = rest[found.end() :].strip()
    if not text:
        raise ValueError("is empty; write for example 72h, 30m or 1d12h")
    return seconds


def size_gib(value: Any) -> float:
    """`200GB`, `512MB`, `1TB`, or a number of GiB. GB and GiB mean the same here, as on the clouds' lists."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("is not a size; write for example 64GB")
    found = _SIZE.match(str(value).strip())
    if not found:
        raise ValueError(f"{value!r} is not a size; write for example 64GB")
    size = float(found[1]) * _IN_GIB[(found[2] or "g")[0].lower()]
    if not math.isfinite(size):
        raise ValueError("is not a size: it is too large")
    return size


def number(value: Any) -> float:
    """A plain number, also as text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("is not a number")
    try:
        result = _float(value)
    except ValueError:
        raise ValueError(f"{value!r} is not a number") from None
    if not math.isfinite(result):
        raise ValueError("is not a number")
    return result


def _float(value: float | str) -> float:
    """As `float`; infinite where a whole number is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def span(value: Any, read: Any) -> Span:
    """`8+`, `16..`, `24GB..80GB`, `..64GB`, `{min, max}` or a plain value, which means exactly that."""
    if isinstance(value, dict):
        if not value or set(value) - {"min", "max"}:
            raise ValueError("as a mapping it has min and max")
        low, high = value.get("min"), value.get("max")
        return _ordered(None if low is None else read(low), None if high is None else read(high))
    if isinstance(value, str):
        text = value.strip()
        if text.endswith("+"):
            return Span(read(text[:-1]), None)
        if ".." in text:
            low_text, _, high_text = text.partition("..")
            if not low_text and not high_text:
                raise ValueError("'..' has neither a lower nor an upper end")
            return _ordered(
                read(low_text) if low_text.strip() else None, read(high_text) if high_text.strip() else None
            )
    exact = read(value)
    return Span(exact, exact)


def _ordered(low: float | None, high: float | None) -> Span:
    if low is not None and high is not None and low > high:
        raise ValueError(f"the lower end {low:g} is above the upper end {high:g}")
    return Span(low, high)


def whole(value: float) -> int:
    """The number as an int; ValueError if it has a fraction."""
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"{value:g} is not a whole number")
    return int(value)


def deadline_at(value: Any, now: datetime) -> datetime:
    """A moment with an offset, or a duration from now on. ValueError if it is neither, or is over."""
    if isinstance(value, str) and re.match(r"^\d{4}-\d", value.strip()):
        try:
            moment = datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"{value!r} is not a time; write for example 2030-05-01T18:00:00Z") from None
        if moment.tzinfo is None:
            raise ValueError("has no offset; write for example 2030-05-01T18:00:00Z or …+02:00")
    else:
        moment = now + timedelta(seconds=duration_seconds(value))
    if moment <= now:
        raise ValueError(f"{value} is in the past")
    return moment
