"""docs/jobs.md names every field of a job and every spelling of it that is accepted, and no other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from service.jobs.aliases import CHECKPOINT, JOB_RECOVERY, RESOURCES, RETRY, SPOT, TOP
from service.jobs.draft import Reader
from service.jobs.places import PLACES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "jobs.md").read_text("utf-8")
SECTIONS: Mapping[str, Mapping[str, Reader]] = {
    "resources": RESOURCES,
    "checkpoint": CHECKPOINT,
    "spot": SPOT,
    "retry": RETRY,
    "job_recovery": JOB_RECOVERY,
}
SAID_IN_WORDS = {
    "resources",
    "checkpoint",
    *(f"resources.{name}" for name in PLACES),  # "and these under resources"
}


def _documented() -> set[str]:
    rows = re.findall(r"^\|( `[^|]+`) \|([^|]*)\|", PAGE, re.MULTILINE)
    return {name for row in rows for cell in row for name in re.findall(r"`([a-z_.]+)`", cell)}


def _accepted() -> set[str]:
    below = {f"{section}.{name}" for section, readers in SECTIONS.items() for name in readers}
    return set(TOP) | below


def test_every_field_and_spelling_is_documented() -> None:
    assert _accepted() - SAID_IN_WORDS <= _documented()


def test_no_field_is_documented_that_is_refused() -> None:
    assert _documented() <= _accepted()
