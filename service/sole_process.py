"""One process per SQLite file: two would decide the same things at once."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SQLITE = "sqlite:///"


@contextmanager
def sole_process(url: str) -> Iterator[None]:
    """Hold the lock beside a SQLite file; a PostgreSQL database takes any number of processes. OSError that
    names the other process if there is one.
    """
    if not url.startswith(_SQLITE):
        yield
        return
    path = Path(url.removeprefix(_SQLITE) + ".lock")
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            other = file.read(32).strip() or "unknown"
            message = f"another corral serve (process {other}) uses this database; SQLite takes one"
            raise OSError(errno.EBUSY, message, str(path)) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
