"""The scenario file: what it says, and what it says when it is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.scenario import Scenario, ScenarioError


def test_an_empty_file_is_three_calm_clouds(tmp_path: Path) -> None:
    path = tmp_path / "calm.yaml"
    path.write_text("")
    scenario = Scenario.load(path)
    notices = {name: scenario.timings(name).notice_seconds for name in ("aws", "gcp", "azure")}
    assert notices == {"aws": 120, "gcp": 30, "azure": 30}
    assert scenario.events == ()


def test_naming_one_timing_of_a_provider_leaves_its_others_as_they_are() -> None:
    scenario = Scenario.parse({"aws": {"boot_seconds": 3}, "gcp": {"boot_seconds": 4}})
    assert scenario.aws.boot_seconds == 3
    assert scenario.aws.notice_seconds == 120
    assert scenario.gcp.notice_seconds == 30


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"sed": 1}, "sed: unknown key"),
        ({"aws": {"boot_second": 1}}, "aws.boot_second: unknown key"),
        ({"aws": {"boot_seconds": -1}}, "aws.boot_seconds: "),
        ({"capacity": [{"zone": "mars-1", "count": 1}]}, "zone 'mars-1' is in no catalogue; known: "),
        (
            {"capacity": [{"instance_type": "p9.huge", "count": 1}]},
            "'p9.huge' is in no catalogue",
        ),
        ({"capacity": [{"provider": "aws", "zone": "us-central1-a", "count": 1}]}, "is in no catalogue"),
        ({"capacity": [{"provider": "oracle", "count": 1}]}, "capacity.0.provider: "),
        ({"capacity": [{"count": -1}]}, "capacity.0.count: "),
        (
            {"prices": [{"provider": "gcp", "zone": "us-central1-a", "price": 1}]},
            "by zone on aws only",
        ),
        ({"events": [{"do": "explode", "at": 1}]}, "expected tags: 'preempt', 'kill'"),
        ({"events": [{"do": "preempt"}]}, "an event needs either `at` or `when`"),
        ({"events": [{"do": "kill", "at": 1, "when": {}}]}, "an event needs either `at` or `when`"),
        ({"events": [{"do": "preempt", "when": {"fro": 3}}]}, "when.fro: unknown key"),
        (
            {"events": [{"do": "fault", "at": 0, "provider": "aws", "call": "X", "action": "burn"}]},
            "action: ",
        ),
        ([], "the whole: "),
    ],
)
def test_a_wrong_scenario_says_where_and_what(data: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=r"^my\.yaml: ") as caught:
        Scenario.parse(data, "my.yaml")
    assert said in str(caught.value)


def test_a_file_that_is_missing_or_no_yaml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere\.yaml"):
        Scenario.load(tmp_path / "nowhere.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("seed: [1")
    with pytest.raises(ScenarioError, match=r"broken\.yaml"):
        Scenario.load(broken)
