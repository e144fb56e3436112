"""Small files that are there whole or not at all, readable by their owner only."""

from __future__ import annotations

import json
import os
from typing import Any


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Replace `path` in one step. The folder above is made if it is missing. Raises OSError."""
    place = os.fspath(path)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    draft = f"{place}.{os.getpid()}.tmp"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(value, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)
    except BaseException:
        os.unlink(draft)
        raise


def read_json(path: str | os.PathLike[str]) -> Any:
    """What `write_json` wrote; None if there is no such file, or nothing that can be read as JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
