"""The part of cloud-init that local machines honour: `write_files` in a `#cloud-config`, nothing else.

Files land below the machine's own folder, which stands for `/`; no path leads out of it, not by `..` and not
through a symbolic link.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import os
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

_HEADER = "#cloud-config"
_KEYS = frozenset({"path", "content", "permissions", "owner", "encoding"})
_PLAIN = frozenset({"text/plain", "text", "plain"})
_BASE64 = frozenset({"b64", "base64"})
_GZIP = frozenset({"gz+b64", "gz+base64", "gzip+b64", "gzip+base64"})
_DEEPEST = 50
_LARGEST = 1 << 20  # bytes of one file once unpacked


class UserDataError(ValueError):
    """The user data is not what a machine takes; the text says which part and why."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One entry of `write_files`. `path` has no leading slash; `mode` is the permission bits."""

    path: PurePosixPath
    content: bytes
    mode: int


def parse(user_data: str) -> list[WrittenFile]:
    """The files that a cloud-config asks for. UserDataError for anything else that it asks for."""
    first, _, _ = user_data.partition("\n")
    if len(user_data) > _LARGEST:
        raise UserDataError(f"user data is larger than {_LARGEST} characters")
    if first.strip() != _HEADER:
        raise UserDataError(f"user data must begin with {_HEADER!r}, not {first[:40]!r}")
    try:
        _look_through(user_data)
        document = yaml.safe_load(user_data)
    except UserDataError:
        raise
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that is none
        raise UserDataError(f"user data is no YAML: {error}") from error
    if document is None:
        return []
    if not isinstance(document, dict):
        raise UserDataError("a cloud-config is a mapping of directives")
    refused = sorted(str(key) for key in document if key != "write_files")
    if refused:
        raise UserDataError(f"directive {refused[0]!r} is not honoured here; only write_files is")
    entries = document.get("write_files") or []
    if not isinstance(entries, list):
        raise UserDataError("write_files must be a list")
    return [_entry(index, entry) for index, entry in enumerate(entries)]


def _look_through(user_data: str) -> None:
    """Refuse what costs a reader far more than it weighs, event by event, before any of it is built."""
    depth = 0
    for event in yaml.parse(user_data):
        if isinstance(event, yaml.AliasEvent):
            raise UserDataError(
                "user data with YAML aliases is not honoured here: a few can stand for gigabytes"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise UserDataError(f"user data is nested more than {_DEEPEST} deep")


def _entry(index: int, entry: Any) -> WrittenFile:
    where = f"write_files[{index}]"
    if not isinstance(entry, dict):
        raise UserDataError(f"{where} must be a mapping")
    unknown = sorted(str(key) for key in entry if key not in _KEYS)
    if unknown:
        raise UserDataError(f"{where}: {unknown[0]!r} is not honoured; allowed: {', '.join(sorted(_KEYS))}")
    if entry.get("owner", "root:root") not in ("root:root", "root"):
        raise UserDataError(f"{where}.owner: only root:root is honoured")
    path = _path(where, entry.get("path"))
    return WrittenFile(path, _content(where, entry), _mode(where, entry.get("permissions", "0644")))


def _path(where: str, value: Any) -> PurePosixPath:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable():
        raise UserDataError(f"{where}.path must be an absolute path, not {value!r}")
    path = PurePosixPath(value.lstrip("/"))
    if not path.parts or ".." in path.parts:
        raise UserDataError(f"{where}.path {value!r} leads out of the machine")
    return path


def _content(where: str, entry: dict[str, Any]) -> bytes:
    value = entry.get("content", "")
    encoding = str(entry.get("encoding", "text/plain"))
    if not isinstance(value, str | bytes):
        raise UserDataError(f"{where}.content must be text")
    try:
        raw = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError as error:
        raise UserDataError(f"{where}.content is no text: {error.reason}") from error
    if encoding in _PLAIN:
        return raw
    if encoding not in _BASE64 | _GZIP:
        raise UserDataError(f"{where}.encoding {encoding!r} is not known; allowed: text/plain, b64, gz+b64")
    try:
        raw = base64.b64decode(b"".join(raw.split()), validate=True)
        if encoding in _GZIP:
            raw = gzip.decompress(raw)
    except (binascii.Error, OSError, EOFError, zlib.error) as error:
        raise UserDataError(f"{where}.content is not {encoding}: {error}") from error
    if len(raw) > _LARGEST:
        raise UserDataError(f"{where}.content is larger than {_LARGEST} bytes")
    return raw


def _mode(where: str, value: Any) -> int:
    try:
        mode = int(str(value), 8) if not isinstance(value, int) else value
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise UserDataError(f"{where}.permissions {value!r}: octal text up to '0777' is allowed")
    return mode


def write(root: Path, file: WrittenFile) -> None:
    """Put one file below `root`. UserDataError if its path meets a symbolic link or a non-directory."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    folder = os.open(root, flags)
    try:
        for part in file.path.parts[:-1]:
            inner = _enter(folder, part, flags, file)
            os.close(folder)
            folder = inner
        _put(folder, file)
    finally:
        os.close(folder)


def _enter(folder: int, part: str, flags: int, file: WrittenFile) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=folder)
    try:
        return os.open(part, flags, dir_fd=folder)
    except OSError as error:
        raise UserDataError(f"/{file.path}: {part!r} is no directory of the machine") from error


def _put(folder: int, file: WrittenFile) -> None:
    """The file appears whole and with its permissions: whoever waits for it never reads half of it."""
    name = file.path.name
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        there = None
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise UserDataError(f"/{file.path} exists and is no plain file")
    fresh = f".{name}.new"
    made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with os.fdopen(made, "wb") as stream:
        stream.write(file.content)
        os.fchmod(stream.fileno(), file.mode)
    os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
