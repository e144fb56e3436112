"""The examples in README and docs can be used as they are."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from sandbox.scenario import Scenario
from service.configuration import check
from service.jobs.aliases import TEXTS_BELOW, canonical
from service.yaml_documents import parse

ROOT = Path(__file__).resolve().parents[2]


def _example(file: str) -> str:
    found = re.search(r"```yaml\n(.*?)```", (ROOT / file).read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_example_of_settings_has_no_problem(tmp_path: Path) -> None:
    file = tmp_path / "corral.yaml"
    file.write_text(_example("docs/configuration.md"))
    assert check(file) == []


def test_the_scenario_of_the_page_on_local_clouds_is_accepted() -> None:
    assert len(Scenario.parse(yaml.safe_load(_example("docs/sandbox.md"))).events) == 2


def test_the_readmes_job_is_accepted() -> None:
    data = parse(_example("README.md"), texts_below=TEXTS_BELOW).data
    spec = canonical(data, datetime(2026, 1, 1, tzinfo=UTC)).finish()
    assert spec.max_duration_seconds == 86400
    assert spec.checkpoint is not None
    assert spec.checkpoint.grace_seconds == 60


def test_the_settings_of_the_compose_file_are_accepted(tmp_path: Path) -> None:
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    given = compose["services"]["corral"]["environment"]
    environment = {name: text for name, text in given.items() if name != "CORRAL_CONFIG"}
    environment["CORRAL_SECRET_KEY"] = "x"
    assert check(None, environment) == []
