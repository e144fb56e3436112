"""`corral backtest`, as a person or a program uses it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from policies.backtest.policies import NAMES
from policies.backtest.reprice import reprice
from service.cli.main import main
from tests.policies.markets import market, zone

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def problem() -> dict[str, Any]:
    zones = zone("####..########", spot=1.0), zone(".#######.#.###", spot=2.0, name="b & c")
    return market(*zones, work=9, egress=0.2, restart_seconds=300)


@pytest.fixture
def folder(tmp_path: Path, problem: dict[str, Any]) -> Path:
    suite = tmp_path / "markets" / "drawn"
    suite.mkdir(parents=True)
    (suite / "000.json").write_text(json.dumps(problem))
    (tmp_path / "markets" / "about.json").write_text('{"files": []}')
    return tmp_path / "markets"


def told(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, Any]]:
    assert main(["backtest", *map(str, words), "--json"]) == 0
    answer: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return answer


def test_json_has_all_that_prices_the_run_again(
    folder: Path, problem: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = told(capsys, folder, "--log", "--optimum")
    again = reprice(problem, one["log"])
    assert again == pytest.approx({key: one[key] for key in again})
    assert (one["name"], one["policy"], one["met_deadline"]) == ("drawn", "deadline", True)
    assert one["over_optimum"] >= 0
    assert 0 < one["of_on_demand"] <= 1.5


def test_all_runs_every_policy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers = told(capsys, folder, "--policy", "all")
    assert tuple(one["policy"] for one in answers) == NAMES
    assert min(answers, key=lambda one: one["cost"])["policy"] == "optimum"


def test_the_table_has_a_row_a_folder_and_policy(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backtest", str(folder), "--optimum", "--policy", "on-demand"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["MARKET", "POLICY", "JOBS", "COST"]
    assert row.split()[:3] == ["drawn", "on-demand", "1"]
    assert "100.0 %" in row


def test_the_picture_shows_capacity_the_job_and_the_deadline(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.svg"
    assert main(["backtest", str(folder), "--picture", str(path)]) == 0
    root = ET.fromstring(path.read_text())  # noqa: S314 - our own
    words = {text.text for text in root.iter(f"{SVG}text")}
    assert {"a", "b & c", "deadline", "latest for on-demand"} <= words
    fills = [bar.get("fill") for bar in root.iter(f"{SVG}rect")]
    assert fills.count("#cfe3d4") == 1 + 2 + 3  # the legend, and each spell of either zone
    (line,) = root.iter(f"{SVG}polyline")
    heights = [float(point.split(",")[1]) for point in str(line.get("points")).split()]
    assert heights == sorted(heights, reverse=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "nowhere: no such file or folder"),
        (("{folder}", "--policy", "psychic"), "--policy psychic: allowed are default, all, on-demand"),
        (("{folder}", "--log"), "--log: give --json as well"),
        (("{folder}", "--policy", "all", "--picture", "x.svg"), "--picture shows one run"),
        (("{folder}", "--picture", "x.png"), "--picture x.png: pictures are SVG"),
        (("{folder}/about.json",), "no recorded market"),
    ],
)
def test_what_is_wrong_is_said(
    words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backtest", *(word.format(folder=folder) for word in words)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"), [("{", "Expecting"), ('{"zones": [{}]}', "gap_seconds must be a number of seconds")]
)
def test_a_broken_file_is_named(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(text)
    assert main(["backtest", str(broken)]) == 2
    complaint = capsys.readouterr().err
    assert str(broken) in complaint
    assert said in complaint
