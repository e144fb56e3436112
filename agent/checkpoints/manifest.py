"""A manifest: what one rank's part of a checkpoint consists of. Written last, so that it proves the rest."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from urllib.parse import quote

# What object stores and their clients pass through unchanged; anything else in a name is percent-encoded.
_PLAIN = "-_.=+@,:()"


class DamageError(Exception):
    """It cannot be read, so the checkpoint cannot be trusted."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a checkpoint: path relative to its directory, size in bytes, SHA-256 in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One rank's part. `name`: the folder in the store. `directory`: what the job called it, which is the
    same unless that name was taken. `sequence`: the order of checkpoints.
    """

    name: str
    directory: str
    rank: int
    num_nodes: int
    epoch: int
    sequence: int
    files: tuple[StoredFile, ...]

    @property
    def size(self) -> int:
        return sum(file.bytes for file in self.files)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """DamageError if it is not one."""
        try:
            value = json.loads(data)
            files = tuple(StoredFile(**file) for file in value.pop("files"))
            manifest = cls(**value, files=files)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamageError(str(error)) from error
        if any(_unsafe(file.path) for file in files) or _unsafe(manifest.directory):
            raise DamageError("a path points outside")
        return manifest


def file_key(prefix: str, name: str, rank: int, path: str) -> str:
    """Where a file's bytes are."""
    return f"{prefix}/{encode(name)}/rank-{rank}/{encode(path)}"


def manifest_key(prefix: str, name: str, rank: int) -> str:
    """Where a rank's manifest is."""
    return f"{prefix}/{encode(name)}/manifest-{rank}.json"


def damage_key(prefix: str, name: str, rank: int) -> str:
    """A mark by the rank that found its part damaged: no rank of the gang restores this one again."""
    return f"{prefix}/{encode(name)}/damaged-{rank}.json"


def encode(path: str) -> str:
    """A path as part of a key."""
    return quote(path, safe=_PLAIN + "/", errors="surrogateescape")


def _unsafe(path: str) -> bool:
    parts = path.split("/")
    return not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts)
