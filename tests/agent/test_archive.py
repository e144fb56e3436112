"""Archives that mean harm."""

from __future__ import annotations

import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.archive import HostileArchiveError, unpack

Member = tuple[str, bytes | None, dict[str, object]]


def pack(place: Path, *members: Member, mode: str = "w:gz") -> Path:
    with tarfile.open(place, mode) as tar:  # type: ignore[call-overload]
        for name, data, changes in members:
            member = tarfile.TarInfo(name)
            member.size = len(data or b"")
            for key, value in changes.items():
                setattr(member, key, value)
            tar.addfile(member, io.BytesIO(data or b""))
    return place


def link(name: str, target: str) -> Member:
    return name, None, {"type": tarfile.SYMTYPE, "linkname": target}


def hard(name: str, target: str) -> Member:
    return name, None, {"type": tarfile.LNKTYPE, "linkname": target}


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "outside").write_text("untouched")
    place = tmp_path / "inner" / "work"
    place.mkdir(parents=True)
    return place


HOSTILE: dict[str, list[Member]] = {
    "absolute": [("/tmp/evil", b"x", {})],
    "parent": [("../outside", b"x", {})],
    "parent in the middle": [("a/../../../outside", b"x", {})],
    "link outside": [link("a", "../../outside"), ("b", b"x", {})],
    "absolute link": [link("a", "/etc/passwd")],
    "write through a link": [link("a", "."), ("a/b", b"x", {})],
    "chain of links": [link("a", "."), link("a/b", ".."), ("a/b/outside", b"x", {})],
    "link then file of its name below": [link("d", "e"), ("e/x", b"1", {}), ("d/y", b"2", {})],
    "hard link outside": [hard("a", "../../outside")],
    "absolute hard link": [hard("a", "/etc/passwd")],
    "hard link to a link": [link("a", "b"), hard("c", "a")],
    "device": [("dev", None, {"type": tarfile.CHRTYPE})],
    "pipe": [("fifo", None, {"type": tarfile.FIFOTYPE})],
    "file where a folder is": [("a/b", b"x", {}), ("a", b"y", {})],
    "folder where a file is": [("a", b"x", {}), ("a/b", b"y", {})],
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_refused_and_touches_nothing_outside(
    tmp_path: Path, target: Path, case: str
) -> None:
    archive = pack(tmp_path / "a.tgz", *HOSTILE[case])
    with pytest.raises(HostileArchiveError):
        unpack(archive, target)
    assert (tmp_path / "outside").read_text() == "untouched"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "inner", "outside"]
    assert [path.name for path in (tmp_path / "inner").iterdir()] == ["work"]


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _flip(data: bytes) -> bytes:
    return data[:30] + bytes([data[30] ^ 0xFF]) + data[31:]


@pytest.mark.parametrize("harm", [_cut, _flip, lambda data: b"", lambda data: b"no archive at all"])
def test_archive_that_is_not_whole_is_refused(
    tmp_path: Path, target: Path, harm: Callable[[bytes], bytes]
) -> None:
    archive = pack(tmp_path / "a.tgz", ("big", bytes(range(256)) * 400, {}))
    archive.write_bytes(harm(archive.read_bytes()))
    with pytest.raises(HostileArchiveError):
        unpack(archive, target)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_honest_archive_is_unpacked_whole(tmp_path: Path, target: Path, mode: str) -> None:
    archive = pack(
        tmp_path / "a.tar",
        ("./", None, {"type": tarfile.DIRTYPE}),
        ("./src/run.sh", b"#!/bin/sh\n", {"mode": 0o755}),
        ("src/twice", b"first", {}),
        ("src/twice", b"second", {}),
        ("suid", b"x", {"mode": 0o4777}),
        ("empty", None, {"type": tarfile.DIRTYPE}),
        link("latest", "src/run.sh"),
        hard("copy", "src/twice"),
        link("src/up", "../suid"),
        mode=mode,
    )
    unpack(archive, target)
    assert (target / "src/run.sh").stat().st_mode & 0o111
    assert (target / "src/twice").read_text() == "second"
    assert stat.S_IMODE((target / "suid").stat().st_mode) == 0o755
    assert (target / "empty").is_dir()
    assert (target / "latest").read_text() == "#!/bin/sh\n"
    assert (target / "copy").read_text() == "second"
    assert (target / "src/up").read_text() == "x"


def test_a_link_over_a_link_does_not_lead_out_though_its_text_stays_inside(
    tmp_path: Path, target: Path
) -> None:
    folder: Member = ("d/e/f", None, {"type": tarfile.DIRTYPE})
    archive = pack(tmp_path / "a.tgz", folder, link("d/e/up", "../.."), link("s", "d/e/up/.."))
    with pytest.raises(HostileArchiveError, match="leads out of the working directory"):
        unpack(archive, target)
    assert not (target / "s").is_symlink()


def test_links_that_go_round_in_circles_are_kept(tmp_path: Path, target: Path) -> None:
    unpack(pack(tmp_path / "a.tgz", link("a", "b"), link("b", "a")), target)
    assert (target / "a").is_symlink()


@pytest.mark.parametrize("header", ["GNU.sparse.map", "GNU.sparse.size", "GNU.sparse.realsize"])
def test_a_sparse_file_whose_map_holds_no_numbers_is_refused(
    tmp_path: Path, target: Path, header: str
) -> None:
    archive = pack(tmp_path / "a.tgz", ("big", b"hello", {"pax_headers": {header: "a,b"}}))
    with pytest.raises(HostileArchiveError):
        unpack(archive, target)
