"""`corral run --workdir`: what is packed, and what never is."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from service.cli.failure import UsageError
from service.cli.packing import Package, pack


def _write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def _names(package: Package) -> list[str]:
    with tarfile.open(package.path) as archive:
        return archive.getnames()


def test_packs_what_git_would_take(tmp_path: Path) -> None:
    source = _write(
        tmp_path / "source",
        {
            ".gitignore": "*.log\n/data/\n!keep.log\n",
            "train.py": "print(1)",
            "a.log": "x",
            "keep.log": "x",
            "data/big.bin": "x",
            "nested/.gitignore": "*.tmp\n!../a.log\n",
            "nested/data/small.bin": "x",
            "nested/x.tmp": "x",
            ".git/config": "x",
            "__pycache__/train.pyc": "x",
        },
    )
    names = _names(pack(source, tmp_path / "out.tar.gz"))
    assert names == [
        ".gitignore",
        "keep.log",
        "nested/.gitignore",
        "nested/data/small.bin",
        "train.py",
    ]


def test_the_same_files_give_the_same_bytes_whatever_their_times(tmp_path: Path) -> None:
    one = _write(tmp_path / "one", {"b.py": "b", "a/c.py": "c"})
    two = _write(tmp_path / "two", {"a/c.py": "c", "b.py": "b"})
    os.utime(two / "b.py", (1, 1))
    first, second = pack(one, tmp_path / "1.tgz"), pack(two, tmp_path / "2.tgz")
    assert first.sha256 == second.sha256
    assert (tmp_path / "1.tgz").read_bytes() == (tmp_path / "2.tgz").read_bytes()


def test_an_executable_stays_executable(tmp_path: Path) -> None:
    source = _write(tmp_path / "source", {"run.sh": "#!/bin/sh", "data": ""})
    (source / "run.sh").chmod(0o700)
    package = pack(source, tmp_path / "out.tgz")
    with tarfile.open(package.path) as archive:
        assert {member.name: member.mode for member in archive} == {"run.sh": 0o755, "data": 0o644}


def test_links_are_kept_inside_and_left_out_when_they_lead_outside(tmp_path: Path) -> None:
    _write(tmp_path, {"secret.txt": "do not pack me"})
    source = _write(tmp_path / "source", {"real/file.txt": "x"})
    (source / "inside").symlink_to("real/file.txt")
    (source / "absolute").symlink_to(source / "real")
    (source / "outside").symlink_to("../secret.txt")
    (source / "root").symlink_to("/")
    package = pack(source, tmp_path / "out.tgz")
    with tarfile.open(package.path) as archive:
        links = {member.name: member.linkname for member in archive if member.issym()}
    assert links == {"inside": "real/file.txt", "absolute": "real"}
    assert b"do not pack me" not in package.path.read_bytes()
    assert package.left_out == ("outside (a link that leads outside)", "root (a link that leads outside)")


def test_a_directory_that_is_too_large_is_refused_by_name(tmp_path: Path) -> None:
    source = _write(tmp_path / "source", {"small.txt": "x"})
    (source / "model.bin").write_bytes(os.urandom(300_000))
    (source / "zz.bin").write_bytes(os.urandom(3_000_000))
    with pytest.raises(
        UsageError, match=r"more than 1 MB packed; the largest so far: zz\.bin \(3 MB\), model\.bin"
    ):
        pack(source, tmp_path / "out.tgz", limit=1 << 20)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such directory"):
        pack(tmp_path / "nowhere", tmp_path / "out.tgz")


def test_links_that_go_round_in_circles_are_packed_as_they_are(tmp_path: Path) -> None:
    source = _write(tmp_path / "source", {"file": "x"})
    (source / "self").symlink_to("self")
    (source / "one").symlink_to("two")
    (source / "two").symlink_to("one")
    package = pack(source, tmp_path / "out.tgz")
    assert set(_names(package)) == {"file", "self", "one", "two"}


def test_what_is_no_pattern_in_gitignore_is_passed_over_as_git_does(tmp_path: Path) -> None:
    source = _write(tmp_path / "source", {".gitignore": "!\n*.log\n", "a.log": "x", "b.txt": "x"})
    package = pack(source, tmp_path / "out.tgz")
    assert set(_names(package)) == {".gitignore", "b.txt"}
