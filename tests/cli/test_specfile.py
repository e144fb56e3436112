"""How a file, a command and options become one spec, read by the service's own code."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from policies.model import RunClass, SpotUse
from service.cli.failure import UsageError
from service.cli.globals import hoist, split_command
from service.cli.specfile import Options, build, laid_over
from service.jobs.aliases import canonical
from service.jobs.spec import JobSpec

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def _spec(data: dict[str, Any], options: Options) -> JobSpec:
    spec = laid_over({"name": "x", "run": "true", **data}, options, {"HF_HOME": "/data"})
    return canonical(spec, NOW).finish()


@pytest.mark.parametrize(
    "file",
    [
        {"gpu": "L4"},
        {"accelerators": "L4:2"},
        {"resources": {"gpu": {"name": ["L4"], "count": 4}}},
        {"resources": {"gpus": "L4"}},
        {"resources": {"accelerators": "L4"}},
        {},
    ],
)
def test_gpus_on_the_command_line_win_over_any_spelling_of_the_file(file: dict[str, Any]) -> None:
    gpu = _spec(file, Options(gpus="H100:8")).resources.gpu
    assert gpu is not None
    assert (gpu.name, gpu.count) == (("H100",), 8)


@pytest.mark.parametrize("file", [{"nodes": 4}, {"num_nodes": 4}, {"resources": {"num_nodes": 4}}, {}])
def test_nodes_win(file: dict[str, Any]) -> None:
    assert _spec(file, Options(nodes=2)).resources.nodes == 2


@pytest.mark.parametrize(
    "file",
    [
        {"spot": "auto"},
        {"spot": True},
        {"use_spot": True},
        {"spot_policy": "spot"},
        {"resources": {"use_spot": True}},
        {},
    ],
)
def test_on_demand_wins(file: dict[str, Any]) -> None:
    assert _spec(file, Options(spot=False)).spot.use is SpotUse.NEVER


def test_the_time_to_wait_for_spot_is_kept_when_only_its_use_is_set() -> None:
    assert _spec({"spot": {"wait": "15m"}}, Options(spot=True)).spot.wait_seconds == 900


@pytest.mark.parametrize(
    "file", [{"max_price": 9}, {"max_hourly_cost": 9}, {"resources": {"max_hourly_cost": 9}}, {}]
)
def test_max_price_wins(file: dict[str, Any]) -> None:
    assert _spec(file, Options(max_price=2.5)).max_price == 2.5


@pytest.mark.parametrize("file", [{"class": "core"}, {"run_class": "core"}, {}])
def test_class_wins(file: dict[str, Any]) -> None:
    assert _spec(file, Options(run_class="preprocessing")).run_class is RunClass.PREPROCESSING


@pytest.mark.parametrize(
    "file",
    [
        {"allow": ["aws"]},
        {"clouds": ["aws"]},
        {"regions": ["us-east-1"]},
        {"infra": "aws/us-east-1"},
        {"resources": {"cloud": "aws"}},
        {"backends": ["aws"]},
        {},
    ],
)
def test_allow_wins(file: dict[str, Any]) -> None:
    assert _spec(file, Options(allow=("gcp/us-central1", "azure"))).allow == ("gcp/us-central1", "azure")


@pytest.mark.parametrize("file", [{"env": {"A": "1"}}, {"envs": {"A": "1"}}, {"env": ["A=1"]}])
def test_env_is_added_to_the_files(file: dict[str, Any]) -> None:
    env = _spec(file, Options(env=("B=x=y", "HF_HOME"))).env
    assert env == {"A": "1", "B": "x=y", "HF_HOME": "/data"}


def test_an_env_that_this_shell_has_not_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="NOPE: is not set in this shell"):
        _spec({}, Options(env=("NOPE",)))


def test_secrets_are_added() -> None:
    assert _spec({"secrets": ["A"]}, Options(secrets=("B",))).secrets == ("A", "B")


def test_a_command_becomes_run_with_its_words_kept_apart(tmp_path: Path) -> None:
    spec = build(None, ["python", "train.py", "--text", "two words"], Options(), {})
    assert spec["run"] == "python train.py --text 'two words'"
    assert spec["name"] == "python"


def test_a_single_word_is_a_line_for_the_shell() -> None:
    assert build(None, ["cd x && make"], Options(), {})["run"] == "cd x && make"


def test_a_command_replaces_the_files_and_the_files_name_names_the_job(tmp_path: Path) -> None:
    file = tmp_path / "My Job.yaml"
    file.write_text("commands: [a, b]\nenv: {VERSION: 1.10}\n")
    spec = build(file, ["true"], Options(), {})
    assert spec == {"run": "true", "env": {"VERSION": "1.10"}, "name": "my-job"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 2"),
        ("- a\n", "expected a mapping"),
        ("a: 1\na: 2\n", "'a' is given twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=problem) as caught:
        build(file, [], Options(), {})
    assert str(file) in str(caught.value)


def test_neither_file_nor_command_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="give a spec FILE, or a command after --"):
        build(None, [], Options(), {})


def test_what_follows_two_dashes_is_the_jobs_own() -> None:
    line = ["--url", "http://x", "run", "--gpus", "L4", "--", "train", "--url", "y", "--", "z"]
    words, command = split_command(line)
    assert hoist(words) == ["--url", "http://x", "run", "--gpus", "L4"]
    assert command == ("train", "--url", "y", "--", "z")


def test_address_and_token_may_stand_anywhere() -> None:
    assert hoist(["ps", "-a", "--token", "t", "--url=u"]) == ["--token", "t", "--url=u", "ps", "-a"]
