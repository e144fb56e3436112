"""Where the command line finds address and token, and how it keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.connection import DEFAULT_URL, Connection, find, load, save
from service.cli.failure import CommandError, UsageError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "no" / "such" / "home")}


def test_the_line_beats_the_environment_beats_the_file(environment: dict[str, str]) -> None:
    save(Connection("http://file:1", "of-file"), environment)
    assert find(None, None, environment) == Connection("http://file:1", "of-file")
    environment |= {"CORRAL_URL": "http://env:1", "CORRAL_TOKEN": "of-env"}
    assert find(None, None, environment) == Connection("http://env:1", "of-env")
    assert find("https://line", "of-line", environment) == Connection("https://line", "of-line")


def test_the_files_token_is_not_sent_to_another_address(environment: dict[str, str]) -> None:
    save(Connection("http://file:1", "of-file"), environment)
    assert find("http://other:1", None, environment) == Connection("http://other:1", None)
    assert find("http://file:1/", None, environment) == Connection("http://file:1", "of-file")


def test_with_nothing_given_it_is_this_machine_without_a_token(environment: dict[str, str]) -> None:
    assert find(None, None, environment) == Connection(DEFAULT_URL, None)
    assert find(None, None, {}) == Connection(DEFAULT_URL, None)


def test_only_the_owner_can_read_the_file(environment: dict[str, str]) -> None:
    path = save(Connection("http://file:1", "of-file"), environment)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(UsageError, match="others may read it; run: chmod 600"):
        load(environment)


def test_a_broken_file_is_named_and_its_content_is_not_shown(environment: dict[str, str]) -> None:
    path = save(Connection("http://file:1", "of-file"), environment)
    path.write_text("token=hidden")
    with pytest.raises(UsageError) as caught:
        load(environment)
    assert str(path) in caught.value.message
    assert "hidden" not in caught.value.message


def test_a_token_is_not_in_the_representation() -> None:
    assert "of-file" not in repr(Connection("http://file:1", "of-file"))


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://a b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="expected http"):
        find(url, "t", {})


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="cannot be written"):
        save(Connection("http://x", "t"), {"HOME": str(tmp_path / "file")})
