"""Unpacking a tar archive that somebody else made. Nothing gets outside the target, whatever it holds."""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zlib
from pathlib import Path

# ValueError: tarfile lets it through from a sparse file's map that holds no numbers.
_BROKEN = (tarfile.TarError, EOFError, ValueError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


class HostileArchiveError(Exception):
    """The archive is broken, or holds something that has no place in a working directory."""


def unpack(archive: Path, target: Path) -> None:
    """Unpack a tar (plain, gz, bz2 or xz) into an existing directory.

    Refused: absolute paths, `..`, links to anything outside, entries below a link, devices, pipes. Owners
    are ignored; of the mode only read, write and execute are kept, setuid and its like never. Raises
    HostileArchiveError (also for what is no archive) and OSError.
    """
    try:
        with tarfile.open(archive, "r:*") as tar:
            members = tar.getmembers()
            for member in members:
                _inspect(member)
            for member in members:
                _place(tar, member, target)
        for member in members:
            if member.issym():
                _follow(member, target)
    except _BROKEN as error:
        raise HostileArchiveError(f"not a whole tar archive: {error}") from error


def _inspect(member: tarfile.TarInfo) -> None:
    parts = member.name.split("/")
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise HostileArchiveError(f"{member.name!r} points outside the working directory")
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        raise HostileArchiveError(f"{member.name!r} is neither file, folder nor link")
    if member.issym():
        _inspect_link(member, os.path.join(os.path.dirname(member.name), member.linkname))
    elif member.islnk():
        _inspect_link(member, member.linkname)


def _inspect_link(member: tarfile.TarInfo, destination: str) -> None:
    if member.linkname.startswith("/") or os.path.normpath(destination).split("/")[0] == "..":
        raise HostileArchiveError(
            f"{member.name!r} links to {member.linkname!r}, outside the working directory"
        )


def _follow(member: tarfile.TarInfo, target: Path) -> None:
    """A link over another link may end elsewhere than its text says: look where, once all stand."""
    place = os.path.join(target, member.name)
    end, inside = os.path.realpath(place), os.path.realpath(target)
    if os.path.commonpath([end, inside]) != inside:
        if os.path.islink(place):
            os.unlink(place)
        raise HostileArchiveError(
            f"{member.name!r} links to {member.linkname!r}, which leads out of the working directory"
        )


def _place(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if not parts:
        return
    folder = _folder(target, parts[:-1])
    place = folder / parts[-1]
    if member.isdir():
        _folder(target, parts)
        return
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.exists():
        raise HostileArchiveError(f"{member.name!r} is a folder and something else")
    if member.issym():
        # What it points to was checked by name. That holds only where no folder on the way is a link, and
        # `_folder` lets none be.
        place.symlink_to(member.linkname)
    elif member.islnk():
        _copy_linked(member, target, place)
    else:
        source = tar.extractfile(member)
        if source is None:
            raise HostileArchiveError(f"{member.name!r} has no content")
        with source, place.open("xb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        place.chmod(0o600 | (member.mode & 0o755))


def _folder(target: Path, parts: list[str]) -> Path:
    """Make the folders on the way, none of which may be a link."""
    place = target
    for part in parts:
        place = place / part
        try:
            mode = place.lstat().st_mode
        except FileNotFoundError:
            place.mkdir(mode=0o755)
            continue
        if not stat.S_ISDIR(mode):
            raise HostileArchiveError(f"{place.relative_to(target)} is no folder, and is used as one")
    return place


def _copy_linked(member: tarfile.TarInfo, target: Path, place: Path) -> None:
    parts = [part for part in os.path.normpath(member.linkname).split("/") if part not in ("", ".")]
    source = _folder(target, parts[:-1]) / parts[-1] if parts else target
    if source.is_symlink() or not source.is_file():
        raise HostileArchiveError(f"{member.name!r} links to {member.linkname!r}, no file of the archive")
    shutil.copy2(source, place)
