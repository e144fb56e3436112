"""Taking secrets out of texts, by value: wherever a known secret stands, in whatever field, it is masked.

Besides the value itself its common disguises are found: JSON-escaped, as Python and shells quote it,
URL-encoded, base64 at any alignment; and of one of several lines each longer line.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"
LINE_WORTH_HIDING = 8  # a shorter line of a longer value says nothing by itself
MIN_LENGTH = 4  # shorter ones would mask half of every text; no secret that short is accepted


class Redactor:
    """Knows some values and masks them. Immutable, safe to share."""

    def __init__(self, values: Iterable[str]) -> None:
        forms = {form for value in values if len(value) >= MIN_LENGTH for form in _forms(value)}
        ordered = sorted(forms, key=len, reverse=True)
        self._longest = len(ordered[0]) if ordered else 0
        self._forms = tuple(ordered)
        self._initials = frozenset(form[:1] for form in ordered)
        self._pattern = re.compile(b"|".join(re.escape(form) for form in ordered)) if ordered else None

    def redact(self, text: str) -> str:
        """The text with each known value replaced by `***`."""
        if self._pattern is None:
            return text
        data = text.encode("utf-8", "surrogateescape")
        return self._pattern.sub(MASK.encode(), data).decode("utf-8", "surrogateescape")

    def redact_all(self, value: Any) -> Any:
        """As `redact`, of every text inside lists and mappings; keys and other values stay as they are."""
        if self._pattern is None:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, dict):
            return {key: self.redact_all(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.redact_all(item) for item in value]
        return value

    def mask(self, data: bytes) -> bytes:
        """The bytes with each known value replaced by as many `*`: offsets stay what they were."""
        if self._pattern is None:
            return data
        return self._pattern.sub(lambda found: b"*" * len(found[0]), data)

    def undecided(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a known value: show them once more is known."""
        for start in range(max(0, len(data) - self._longest + 1), len(data)):
            if data[start : start + 1] in self._initials:
                tail = data[start:]
                if any(len(form) > len(tail) and form.startswith(tail) for form in self._forms):
                    return len(tail)
        return 0

    @property
    def reach(self) -> int:
        """How many bytes must be seen together so that no value is missed."""
        return self._longest


_ESCAPE = re.compile(r"%[0-9A-F]{2}")


def _forms(value: str) -> set[bytes]:
    forms = set()
    # Around the value programs put and take off blanks: `$(cat key)` has no last newline.
    for text in {value, value.strip()}:
        raw = text.encode("utf-8", "surrogateescape")
        quoted = (quote(text), quote(text, safe=""), quote_plus(text))
        forms |= {
            raw,
            json.dumps(text)[1:-1].encode(),
            json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogateescape"),
            repr(text)[1:-1].encode("utf-8", "surrogateescape"),
            shlex.quote(text).encode("utf-8", "surrogateescape"),
            *(form.encode("ascii", "replace") for form in quoted),
            *(
                _ESCAPE.sub(lambda found: found[0].lower(), form).encode("ascii", "replace")
                for form in quoted
            ),
        }
        for skip in range(3):
            forms |= _base64_forms(raw, skip)
    lines = value.splitlines()
    if len(lines) > 1:  # of a key in several lines a log may hold each behind a time of its own
        forms |= {
            line.strip().encode("utf-8", "surrogateescape")
            for line in lines
            if len(line.strip()) >= LINE_WORTH_HIDING
        }
    return {form for form in forms if len(form) >= MIN_LENGTH}


def _base64_forms(raw: bytes, skip: int) -> set[bytes]:
    """The base64 digits that depend on `raw` alone when it starts `skip` bytes into a group of three."""
    forms = set()
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        digits = encode(b"\0" * skip + raw)
        first = (skip * 8 + 5) // 6
        last = (skip + len(raw)) * 8 // 6
        if last - first >= 2 * MIN_LENGTH:
            forms.add(digits[first:last])
    return forms
