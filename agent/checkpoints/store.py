"""Checkpoints of one job in an object store: content first, then the manifest; the newest whole one back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from agent.checkpoints import manifest as manifests
from agent.checkpoints.manifest import DamageError, Manifest, StoredFile
from agent.checkpoints.objects import MissingError, Objects

KEPT = 2
_READ = 1 << 20
_PARALLEL_FILES = 4


class CancelledError(Exception):
    """Told to stop: an upload without its manifest, a restore without its directory."""


class ChangedError(Exception):
    """The directory was changed or removed while it was read: it was not whole, or is not any more."""


class NoRoomError(Exception):
    """A checkpoint does not fit on the disk. Bytes."""

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(f"the checkpoint needs {needed} bytes, {free} bytes are free")
        self.needed = needed
        self.free = free


class GangDamageError(Exception):
    """This node's part of the checkpoint that the gang restores is damaged: the gang must start again,
    and will then take the one before.
    """


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint in the store: the manifests of its ranks. Whole: all are there and none is damaged."""

    name: str
    parts: dict[int, Manifest]
    whole: bool

    @property
    def order(self) -> tuple[int, int]:
        """Newest is greatest. A later epoch is later, whatever an outdated writer still counted."""
        part = self.parts.get(0) or next(iter(self.parts.values()))
        return part.epoch, part.sequence


class CheckpointStore:
    """One node's view. `epoch` and `rank` are this node's; every other node of the gang has its own."""

    def __init__(self, objects: Objects, prefix: str, *, rank: int, num_nodes: int, epoch: int) -> None:
        self._objects = objects
        self._prefix = prefix
        self._rank = rank
        self._num_nodes = num_nodes
        self._epoch = epoch
        self._sequence: int | None = None
        self._taken: set[str] = set()
        self._reserved: set[str] = set()
        self._leftovers: set[str] = set()

    def catalogue(self, unreadable: Callable[[str], None] | None = None) -> list[Stored]:
        """All that have a manifest, newest first. Raises StoreError. `unreadable`: told each name that has a
        manifest, but none that can be read.
        """
        found: list[Stored] = []
        for name, keys in self._folders().items():
            if stored := self._stored(name, keys):
                found.append(stored)
            elif unreadable and any(_beside_ranks(key, "manifest-") for key in keys):
                unreadable(name)
        return sorted(found, key=lambda stored: stored.order, reverse=True)

    def reserve(self, directory: str) -> tuple[str, int]:
        """A name and a sequence number for what the job calls `directory`. All nodes of a gang count alike,
        since they count from what earlier attempts left. A name that is taken becomes `name@2`, `name@3`:
        a whole checkpoint is never written over.
        """
        sequence = self._last_sequence() + 1
        name, use = directory, 1
        while name in self._taken:
            use += 1
            name = f"{directory}@{use}"
        self._sequence = sequence
        self._taken.add(name)
        self._reserved.add(name)
        return name, sequence

    def upload(self, directory: Path, name: str, sequence: int, cancelled: threading.Event) -> Manifest:
        """Store a whole directory. Raises CancelledError, ChangedError or StoreError: no manifest then."""
        before = _listing(directory)
        with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
            files = tuple(
                pool.map(lambda path: self._upload_file(directory, name, path, cancelled), sorted(before))
            )
        if _listing(directory) != before:
            raise ChangedError(f"{directory.name} was changed while it was uploaded")
        if cancelled.is_set():
            raise CancelledError
        manifest = Manifest(name, directory.name, self._rank, self._num_nodes, self._epoch, sequence, files)
        self._objects.put(manifests.manifest_key(self._prefix, name, self._rank), manifest.encode())
        return manifest

    def restore(
        self, into: Path, warn: Callable[[str], None], cancelled: threading.Event
    ) -> tuple[str, Path] | None:
        """Bring back the newest whole checkpoint that verifies: its name and its directory below `into`.
        None if there is none. Damaged ones are passed over, with a warning each. Raises StoreError,
        NoRoomError, GangDamageError, CancelledError or OSError.
        """

        def unreadable(name: str) -> None:
            warn(f"checkpoint {name} is damaged and is passed over: its manifest cannot be read")

        for stored in self.catalogue(unreadable):
            if not stored.whole:
                continue
            part = stored.parts[self._rank]
            try:
                return stored.name, self._fetch(part, into, cancelled)
            except (MissingError, DamageError) as error:
                warn(f"checkpoint {stored.name} is damaged and is passed over: {error}")
                self._mark_damaged(stored.name, str(error))
                if self._num_nodes > 1:
                    raise GangDamageError(f"checkpoint {stored.name}: {error}") from error
        return None

    def prune(self) -> list[str]:
        """Remove what is older than the last two whole ones, and what uploads that were cut off before this
        attempt have left; names. Rank 0 does it for all. Manifests go first, so that nothing half-removed
        looks whole.
        """
        if self._rank != 0:
            return []
        folders = self._folders()
        stored = {name: found for name, keys in folders.items() if (found := self._stored(name, keys))}
        whole = sorted((item.order for item in stored.values() if item.whole), reverse=True)
        old: set[str] = set()
        if len(whole) >= KEPT:
            old |= {name for name, item in stored.items() if item.order < whole[KEPT - 1]}
        if whole and whole[0][0] == self._epoch:  # every node of this attempt has got past its first one
            old |= self._leftovers & set(folders) - set(stored) - self._reserved
        for name in old:
            for key in sorted(folders[name], key=lambda key: not _beside_ranks(key, "manifest-")):
                self._objects.delete(key)
        return sorted(old)

    def write_beside(self, name: str, value: object) -> None:
        """Leave a note where the next attempt, or a person, will look."""
        self._objects.put(f"{self._prefix}/{name}", json.dumps(value).encode())

    # -- reading ------------------------------------------------------------------------------------------

    def _folders(self) -> dict[str, list[str]]:
        folders: dict[str, list[str]] = {}
        for key in self._objects.list(self._prefix):
            folder, slash, _ = key.removeprefix(f"{self._prefix}/").partition("/")
            if slash:
                folders.setdefault(unquote(folder, errors="surrogateescape"), []).append(key)
        return folders

    def _stored(self, name: str, keys: list[str]) -> Stored | None:
        parts: dict[int, Manifest] = {}
        sound = True
        for key in keys:
            if not _beside_ranks(key, "manifest-"):
                continue
            try:
                part = Manifest.decode(self._objects.get(key))
            except MissingError:  # pruned meanwhile
                continue
            except DamageError:
                sound = False
                continue
            parts[part.rank] = part
        if not parts:
            return None
        wanted = set(range(self._num_nodes))
        marked = any(_beside_ranks(key, "damaged-") for key in keys)
        same = len({part.epoch for part in parts.values()}) == 1  # parts of two attempts make no checkpoint
        return Stored(name, parts, sound and same and not marked and wanted <= set(parts))

    def _fetch(self, part: Manifest, into: Path, cancelled: threading.Event) -> Path:
        free = shutil.disk_usage(into).free
        if part.size > free:
            raise NoRoomError(part.size, free)
        draft = into / f".{part.directory.replace('/', '_')}.restore.tmp"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        try:
            with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
                list(pool.map(lambda file: self._fetch_file(part, file, draft, cancelled), part.files))
            target = into / part.directory
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        return target

    def _fetch_file(self, part: Manifest, file: StoredFile, draft: Path, cancelled: threading.Event) -> None:
        target = draft / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        digest, size = hashlib.sha256(), 0
        with target.open("wb") as sink:
            for chunk in self._objects.stream(
                manifests.file_key(self._prefix, part.name, self._rank, file.path)
            ):
                if cancelled.is_set():
                    raise CancelledError
                digest.update(chunk)
                size += len(chunk)
                sink.write(chunk)
        if size != file.bytes:
            raise DamageError(f"{file.path} has {size} bytes, not {file.bytes}")
        if digest.hexdigest() != file.sha256:
            raise DamageError(f"{file.path} does not have the bytes that were stored")

    def _mark_damaged(self, name: str, why: str) -> None:
        note = json.dumps({"rank": self._rank, "epoch": self._epoch, "detail": why}).encode()
        self._objects.put(manifests.damage_key(self._prefix, name, self._rank), note)

    # -- writing ------------------------------------------------------------------------------------------

    def _last_sequence(self) -> int:
        """Counting goes on where earlier attempts stopped, and where this node did before a restart. What
        other nodes of this very attempt have written is left out, so that all count from the same number.
        """
        if self._sequence is None:
            folders = self._folders()
            parts: list[Manifest] = []
            for name, keys in folders.items():
                stored = self._stored(name, keys)
                if stored is None:
                    self._leftovers.add(name)
                else:
                    parts += stored.parts.values()
            known = [part for part in parts if part.epoch < self._epoch or part.rank == self._rank]
            self._taken = {part.name for part in known}
            self._sequence = max((part.sequence for part in known), default=0)
        return self._sequence

    def _upload_file(self, directory: Path, name: str, path: str, cancelled: threading.Event) -> StoredFile:
        digest = hashlib.sha256()
        count = 0

        def chunks() -> Iterator[bytes]:
            nonlocal count
            with (directory / path).open("rb") as source:
                while data := source.read(_READ):
                    if cancelled.is_set():
                        raise CancelledError
                    digest.update(data)
                    count += len(data)
                    yield data

        if cancelled.is_set():
            raise CancelledError
        key = manifests.file_key(self._prefix, name, self._rank, path)
        try:
            size = (directory / path).stat().st_size
            self._objects.put_stream(key, chunks(), size)
        except FileNotFoundError as error:
            raise ChangedError(f"{directory.name}/{path} vanished while it was uploaded") from error
        return StoredFile(path, count, digest.hexdigest())


def _beside_ranks(key: str, beginning: str) -> bool:
    """True for our own objects; what the job calls `manifest-0.json` lies in a rank's folder."""
    folder, _, name = key.rpartition("/")
    return name.startswith(beginning) and not re.search(r"/rank-\d+(/|$)", folder)


def _listing(directory: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of each regular file below a directory. Raises ChangedError if it is gone."""
    found: dict[str, tuple[int, int]] = {}
    if not directory.is_dir():
        raise ChangedError(f"{directory.name} is gone")
    for folder, _, names in os.walk(directory):
        for name in names:
            place = Path(folder, name)
            try:
                status = place.stat()
            except FileNotFoundError:
                continue
            if place.is_file():
                found[place.relative_to(directory).as_posix()] = (status.st_size, status.st_mtime_ns)
    return found
