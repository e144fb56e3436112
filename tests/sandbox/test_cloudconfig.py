"""What a machine takes from its user data, and that nothing leads out of its folder."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest
import yaml

from sandbox.cloudconfig import UserDataError, parse, write


def config(**directives: object) -> str:
    return "#cloud-config\n" + yaml.safe_dump(directives)


def one_file(**entry: object) -> str:
    return config(write_files=[{"path": "/etc/x", "content": "hello", **entry}])


def test_files_are_written_with_content_and_permissions(tmp_path: Path) -> None:
    text = one_file(path="/etc/corral/agent.json", content='{"protocol": 1}', permissions="0600")
    for file in parse(text):
        write(tmp_path, file)
    made = tmp_path / "etc/corral/agent.json"
    assert made.read_text() == '{"protocol": 1}'
    assert made.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in made.parent.iterdir()] == ["agent.json"]


@pytest.mark.parametrize(
    ("encoding", "content"),
    [
        ("b64", base64.b64encode(b"hello").decode()),
        ("gz+b64", base64.b64encode(gzip.compress(b"hello", mtime=0)).decode()),
        ("text/plain", "hello"),
    ],
)
def test_encoded_content_is_decoded(tmp_path: Path, encoding: str, content: str) -> None:
    write(tmp_path, parse(one_file(encoding=encoding, content=content))[0])
    assert (tmp_path / "etc/x").read_bytes() == b"hello"


def test_the_later_of_two_entries_for_a_path_stands(tmp_path: Path) -> None:
    entries = [{"path": "/etc/x", "content": text} for text in ("first", "second")]
    for file in parse(config(write_files=entries)):
        write(tmp_path, file)
    assert (tmp_path / "etc/x").read_text() == "second"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\nrm -rf /\n", "must begin with '#cloud-config'"),
        (config(runcmd=["reboot"]), "'runcmd' is not honoured"),
        (config(write_files=[], users=[{"name": "eve"}]), "'users' is not honoured"),
        (config(bootcmd=["true"], write_files=[]), "'bootcmd' is not honoured"),
        ("#cloud-config\n[1, 2]\n", "a mapping of directives"),
        ("#cloud-config\n{broken\n", "is no YAML"),
        (config(write_files="x"), "must be a list"),
        (config(write_files=["x"]), r"write_files\[0\] must be a mapping"),
        (one_file(append=True), "'append' is not honoured"),
        (one_file(owner="nobody:nobody"), "only root:root"),
        (one_file(path="etc/x"), "must be an absolute path"),
        (one_file(path="/etc/../../x"), "leads out of the machine"),
        (one_file(path="/.."), "leads out of the machine"),
        (one_file(path="/"), "leads out of the machine"),
        (one_file(path="/etc/x\0y"), "must be an absolute path"),
        (one_file(permissions="4755"), "octal text up to '0777'"),
        (one_file(permissions="rwx"), "octal text up to '0777'"),
        (one_file(encoding="rot13"), "'rot13' is not known"),
        (one_file(encoding="b64", content="?"), "is not b64"),
        (one_file(content=["a"]), "must be text"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(UserDataError, match=said):
        parse(text)


def test_no_symbolic_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    outside, disk = tmp_path / "outside", tmp_path / "disk"
    outside.mkdir()
    disk.mkdir()
    (disk / "etc").symlink_to(outside)
    with pytest.raises(UserDataError, match="'etc' is no directory"):
        write(disk, parse(one_file())[0])
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_the_file_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    outside, disk = tmp_path / "precious", tmp_path / "disk"
    outside.write_text("precious")
    (disk / "etc").mkdir(parents=True)
    (disk / "etc/x").symlink_to(outside)
    with pytest.raises(UserDataError, match="no plain file"):
        write(disk, parse(one_file())[0])
    assert outside.read_text() == "precious"


@pytest.mark.parametrize(
    "text",
    [
        "#cloud-config\n" + "[" * 20_000,
        "#cloud-config\na: &a [1, 1]\nwrite_files: [{path: *a}]\n",
        "#cloud-config\nwrite_files: 2020-13-45\n",
        "#cloud-config\nwrite_files: [{path: /x, content: x, permissions: &a [*a]}]\n",
        one_file(path="/etc/x\ny"),
        one_file(encoding="gz+b64", content="H4sIAAAA"),
        one_file(content="\ud800"),
    ],
    ids=["deep", "alias", "date", "loop", "newline", "gzip", "surrogate"],
)
def test_what_would_break_its_reader_is_refused_too(text: str) -> None:
    with pytest.raises(UserDataError):
        parse(text)
