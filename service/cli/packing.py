"""Packs a working directory for a job: what git would take, in one archive, the same bytes every time."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from service.cli.failure import UsageError

MAX_BYTES = 200 << 20
_NEVER = frozenset({".git", ".corral", ".venv", "__pycache__"})
_LARGEST_NAMED = 3


@dataclass(frozen=True)
class Package:
    """A packed directory. `left_out` names links that lead outside and things that are no files."""

    path: Path
    sha256: str
    bytes: int
    files: int
    left_out: tuple[str, ...] = ()


@dataclass
class _Rules:
    """The .gitignore files from the root down to one directory."""

    specs: list[tuple[PurePosixPath, Any]] = field(default_factory=list)

    def below(self, directory: Path, relative: PurePosixPath) -> _Rules:
        file = directory / ".gitignore"
        if not file.is_file() or file.is_symlink():
            return self
        from pathspec import GitIgnoreSpec

        try:
            lines = file.read_text("utf-8", errors="replace").splitlines()
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from error
        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except ValueError:  # git passes over what is no pattern, a lone `!` for example
            spec = GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))
        return _Rules([*self.specs, (relative, spec)])

    def ignores(self, path: PurePosixPath, directory: bool) -> bool:
        """The deepest file that says anything of a path decides, as in git."""
        for root, spec in reversed(self.specs):
            text = str(path.relative_to(root)) + ("/" if directory else "")
            verdict = spec.check_file(text).include
            if verdict is not None:
                return bool(verdict)
        return False


def _is_pattern(line: str) -> bool:
    from pathspec import GitIgnoreSpec

    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def pack(directory: Path, target: Path, *, limit: int = MAX_BYTES) -> Package:
    """Write `directory` to `target` as tar.gz: same files and modes, same bytes; no times, no owners.

    Honours every .gitignore. Symbolic links are kept where they stay inside, and left out where they do
    not. UsageError if the directory cannot be read or the archive is larger than `limit` bytes.
    """
    root = directory.resolve()
    if not root.is_dir():
        raise UsageError(f"workdir {directory}: no such directory")
    left_out: list[str] = []
    sizes: list[tuple[int, str]] = []
    packed = 0
    try:
        with target.open("wb") as raw:
            output = _Counted(raw, limit)
            with (
                gzip.GzipFile("", "wb", 6, cast(IO[bytes], output), mtime=0) as zipped,
                tarfile.open(fileobj=zipped, mode="w|", format=tarfile.PAX_FORMAT) as archive,
            ):
                for path, relative in _walk(root, PurePosixPath(), _Rules(), left_out):
                    sizes.append((path.lstat().st_size, str(relative)))
                    packed += _add(archive, root, path, relative, left_out)
    except _TooLargeError as error:
        largest = ", ".join(
            f"{name} ({size / 1e6:.0f} MB)" for size, name in sorted(sizes)[: -_LARGEST_NAMED - 1 : -1]
        )
        raise UsageError(
            f"workdir {directory}: more than {limit >> 20} MB packed; the largest so far: {largest};"
            " leave files out with .gitignore"
        ) from error
    except OSError as error:
        raise UsageError(f"workdir {directory}: {error.filename or ''} {error.strerror or error}") from error
    return Package(target, output.digest.hexdigest(), output.written, packed, tuple(left_out))


def _walk(
    directory: Path, relative: PurePosixPath, rules: _Rules, left_out: list[str]
) -> Iterator[tuple[Path, PurePosixPath]]:
    rules = rules.below(directory, relative)
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        below = relative / entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if entry.name in _NEVER or rules.ignores(below, is_directory):
            continue
        if is_directory:
            yield from _walk(Path(entry.path), below, rules, left_out)
        elif entry.is_symlink() or stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
            yield Path(entry.path), below
        else:
            left_out.append(f"{below} (neither file nor directory)")


def _add(
    archive: tarfile.TarFile, root: Path, path: Path, relative: PurePosixPath, left_out: list[str]
) -> bool:
    member = tarfile.TarInfo(str(relative))
    if path.is_symlink():
        destination = Path(
            os.path.realpath(path)
        )  # unlike `resolve`, it takes links that go round in circles
        if not destination.is_relative_to(root):
            left_out.append(f"{relative} (a link that leads outside)")
            return False
        member.type, member.mode = tarfile.SYMTYPE, 0o777
        member.linkname = os.path.relpath(destination, path.parent)
        archive.addfile(member)
        return True
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        member.size = status.st_size
        member.mode = 0o755 if status.st_mode & 0o100 else 0o644
        archive.addfile(member, file)
    return True


class _TooLargeError(Exception):
    pass


class _Counted:
    """Counts and hashes what is written, and stops at the limit instead of filling the disk."""

    def __init__(self, raw: IO[bytes], limit: int) -> None:
        self._raw = raw
        self._limit = limit
        self.written = 0
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.written += len(data)
        if self.written > self._limit:
            raise _TooLargeError
        self.digest.update(data)
        return self._raw.write(data)

    def flush(self) -> None:
        self._raw.flush()
