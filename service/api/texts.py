"""Texts that every part can carry: the database, a process's environment, a file, a terminal.

U+0000 ends a text in most of these, and half a surrogate pair has no UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator

_BROKEN = re.compile("[\x00\ud800-\udfff]")
# What steers a terminal; tab and line feed stay.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def is_plain(text: str) -> bool:
    """False if the text holds a NUL or half a surrogate pair."""
    return _BROKEN.search(text) is None


def unclean(data: Any) -> Iterator[str]:
    """The dotted paths of the texts, keys included, in a document of any depth that are not plain."""
    waiting: list[tuple[str, Any]] = [("", data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, str):
            if not is_plain(value):
                yield path
        elif isinstance(value, Mapping):
            for key, below in value.items():
                if not is_plain(str(key)):
                    yield _joined(path, _BROKEN.sub("\ufffd", str(key)))
                waiting.append((_joined(path, key), below))
        elif isinstance(value, list):
            waiting.extend((_joined(path, index), item) for index, item in enumerate(value))


def _joined(path: str, last: object) -> str:
    return f"{path}.{last}" if path else str(last)


def _cleaned(value: Any) -> Any:
    return _CONTROL.sub("\ufffd", value) if isinstance(value, str) else value


Reported = Annotated[str, BeforeValidator(_cleaned)]
"""A text that is kept as it was reported, with U+FFFD for what no part can carry: refusing it would lose
the report.
"""
