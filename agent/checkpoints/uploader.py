"""The thread that looks for whole checkpoint directories and brings them to the store."""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.backoff import Backoff
from agent.checkpoints.manifest import Manifest
from agent.checkpoints.objects import StoreError
from agent.checkpoints.store import CancelledError, ChangedError, CheckpointStore
from agent.durable import read_json, write_json
from clock import Clock

LOOK_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Pending:
    path: Path
    signature: list[int]
    name: str
    sequence: int


class Uploader:
    """Uploads what the job leaves in `directory`, each directory once.

    A single node that cannot keep up uploads the newest and lets older ones go. Nodes of a gang upload each
    one in order, since only what all of them have is worth anything; at the end the newest comes first.
    uploaded: called with each manifest after it is stored. warn: a line for the job's log.
    """

    def __init__(
        self,
        store: CheckpointStore,
        directory: Path,
        memory: Path,
        clock: Clock,
        chance: random.Random,
        *,
        gang: bool,
        uploaded: Callable[[Manifest], None],
        warn: Callable[[str], None],
    ) -> None:
        self._store = store
        self._directory = directory
        self._memory = memory
        self._clock = clock
        self._backoff = Backoff(chance, ceiling=30.0)
        self._gang = gang
        self._uploaded = uploaded
        self._warn = warn
        self._known: dict[str, list[int]] = read_json(memory) or {}
        self._pending: list[_Pending] = []
        self._reserved: dict[str, tuple[str, int]] = {}
        self._unsteady: set[str] = set()
        self._troubled = False
        self._finishing = False
        self._wake = threading.Event()
        self._cancelled = threading.Event()
        self._idle = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
        self.newest: str | None = None
        self._newest_sequence = 0

    def start(self) -> None:
        self._thread.start()

    def skip(self, directory: Path) -> None:
        """What was restored is in the store already."""
        signature = _signature(directory)
        if signature:
            self._remember(directory.name, signature)

    def finish(self, seconds: float, halted: Callable[[], bool]) -> None:
        """Upload what is left, now that nobody writes; returns when that is done, at the latest after
        `seconds`, or as soon as `halted()`. Nothing is uploaded after it has returned.
        """
        until = self._clock.monotonic() + seconds
        self._finishing = True
        self._wake.set()
        while not self._idle.is_set() and not halted() and self._clock.monotonic() < until:
            self._clock.wait(self._idle, min(0.5, until - self._clock.monotonic()))
        self.cancel()

    def cancel(self) -> None:
        """Stop at once: an upload under way gets no manifest."""
        self._cancelled.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._cancelled.is_set():
            finishing = self._finishing
            pause = self._step()
            if pause == 0.0:
                continue
            if finishing and not self._pending and not self._troubled:
                break
            self._clock.wait(self._wake, pause)
            self._wake.clear()
        self._idle.set()

    def _step(self) -> float:
        """Upload one directory, if there is one. Seconds until the next look; 0 for at once."""
        try:
            self._look()
            if not self._pending:
                self._troubled = False
                return LOOK_SECONDS
            self._upload(self._choose())
        except (CancelledError, ChangedError):
            return LOOK_SECONDS
        except Exception as error:  # whatever goes wrong with one upload, there will be a next
            if not self._troubled:
                self._warn(f"checkpoints cannot be uploaded now, trying again: {error}")
            self._troubled = True
            return self._backoff.failed()
        self._troubled = False
        self._backoff.reset()
        return 0.0

    def _look(self) -> None:
        """Queue directories that are whole and new, oldest first."""
        queued = {item.path.name: item.signature for item in self._pending}
        for path, signature in _whole_directories(self._directory):
            if signature not in (self._known.get(path.name), queued.get(path.name)):
                if path.name not in self._reserved:
                    self._reserved[path.name] = self._store.reserve(path.name)
                name, sequence = self._reserved[path.name]
                self._pending = [item for item in self._pending if item.path != path]
                self._pending.append(_Pending(path, signature, name, sequence))

    def _choose(self) -> _Pending:
        if self._gang and not self._finishing:
            return self._pending[0]
        return self._pending[-1]

    def _upload(self, item: _Pending) -> None:
        try:
            manifest = self._store.upload(item.path, item.name, item.sequence, self._cancelled)
        except ChangedError as error:
            self._pending.remove(item)  # what it has become is looked at afresh
            if item.path.exists() and item.path.name not in self._unsteady:
                self._unsteady.add(item.path.name)
                self._warn(f"checkpoint {error}; write into a new directory and rename it when it is whole")
            raise
        self._done(item)
        if not self._gang:
            for older in [other for other in self._pending if other.sequence < item.sequence]:
                self._done(older)
        if item.sequence > self._newest_sequence:
            self._newest_sequence, self.newest = item.sequence, item.name
        self._uploaded(manifest)
        with contextlib.suppress(StoreError):  # the next upload prunes again
            self._store.prune()

    def _done(self, item: _Pending) -> None:
        self._pending.remove(item)
        del self._reserved[item.path.name]
        self._remember(item.path.name, item.signature)

    def _remember(self, name: str, signature: list[int]) -> None:
        self._known[name] = signature
        with contextlib.suppress(OSError):  # only a restart of the agent would miss it
            write_json(self._memory, self._known)


def _whole_directories(directory: Path) -> list[tuple[Path, list[int]]]:
    """Those that bear a final name and hold something, by age."""
    found = []
    try:
        entries = list(os.scandir(directory))
    except FileNotFoundError:
        return []
    for entry in entries:
        if (
            entry.name.startswith(".")
            or entry.name.endswith(".tmp")
            or not entry.is_dir(follow_symlinks=False)
        ):
            continue
        path = Path(entry.path)
        signature = _signature(path)
        if signature and any(path.iterdir()):
            found.append((path, signature))
    return sorted(found, key=lambda pair: (pair[1][1], pair[0].name))


def _signature(directory: Path) -> list[int]:
    """Changes when another directory takes the name, or an entry comes or goes. Empty if it is gone."""
    try:
        status = directory.stat()
    except FileNotFoundError:
        return []
    return [status.st_ino, status.st_mtime_ns]
