"""The job's output on disk: one file that only grows, up to a limit. Its positions are the log's offsets.

Several processes may append at once (the supervisor what the job prints, the agent its own notes): each
append is one write to a file opened with O_APPEND.
"""

from __future__ import annotations

import errno
import os

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOTES = 2048  # bytes below the limit that output leaves free for notes


class Spool:
    """A bounded, append-only file. `limit` in bytes; `dropped` counts what did not fit."""

    def __init__(self, path: str | os.PathLike[str], limit: int) -> None:
        os.makedirs(os.path.dirname(os.fspath(path)), mode=0o700, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._limit = limit
        self._room_for_output = limit - min(_NOTES, limit // 2)
        self.dropped = 0
        self.disk_full = False

    @property
    def size(self) -> int:
        return os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Keep what fits and drop the rest. The first drop leaves a note; a full disk raises nothing."""
        fits = max(0, self._room_for_output - self.size)
        first = not self.dropped
        self._append(data[:fits])
        self.dropped += max(0, len(data) - fits)
        if first and self.dropped:
            why = "the disk is full" if self.disk_full else f"the log's limit is {self._limit} bytes"
            self.note(f"output beyond this point is dropped: {why}")

    def note(self, text: str) -> None:
        """A line of our own: `[corral] …`, on a line by itself."""
        line = f"[corral] {text}\n".encode()
        if not self._at_line_start():
            line = b"\n" + line
        if self.size + len(line) <= self._limit:
            self._append(line, counted=False)

    def close(self) -> None:
        """Say how much was dropped, if anything was."""
        if self.dropped:
            self.note(f"{self.dropped} bytes of output were dropped")
        os.close(self._file)

    def read(self, offset: int, size: int) -> bytes:
        """At most `size` bytes from `offset`; empty at the end."""
        return os.pread(self._file, size, offset)

    def _append(self, data: bytes, *, counted: bool = True) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._file, view) :]
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                self.disk_full = True
                self.dropped += len(view) if counted else 0
                return

    def _at_line_start(self) -> bool:
        size = self.size
        return size == 0 or os.pread(self._file, 1, size - 1) == b"\n"
