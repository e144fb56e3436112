"""kill -9 of the service at seeded moments of a short scenario. `make kills` does it with the demo's."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from bench.kills import Moment, Play, expected, trial

SEED = 20261201
SPAN_SECONDS = 9.0
STEPS = 110

SHORT = Play(
    scenario=Path(__file__).with_name("short.yaml"),
    scale=15.0,
    steps=STEPS,
    settings={"times": {"avoid_after_preemption": 3600}},
    regions={"aws": ["us-east-1"]},
)


def test_killed_at_three_moments_one_job_succeeds_nothing_is_launched_twice_and_nothing_is_left(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("seed", SEED)
    chance = random.Random(SEED)
    third = SPAN_SECONDS / 3
    moments = [third * number + chance.uniform(0, third) for number in range(3)]
    result = trial(tmp_path / "stage", [Moment(one) for one in moments], SHORT, expected(STEPS))
    assert result.problems == (), f"seed {SEED}: {result}"
    assert [one.split()[1] for one in result.attempts] == ["refused", "preempted", "succeeded"]
