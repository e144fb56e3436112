"""What is expected of spot capacity, from what was seen of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.estimates import HALF_LIFE_SECONDS, Spell, estimate, observe, pooled
from policies.model import Evidence
from tests.policies.offers import NOW, seen

DAY = 24 * 3600.0


def looks(*marks: str, every: timedelta = timedelta(minutes=10)) -> Evidence:
    evidence = None
    moment = NOW - every * (len(marks[0]) - 1)
    for mark in marks[0]:
        evidence = observe(evidence, mark == "#", moment)
        moment += every
    assert evidence is not None
    return evidence


def life(evidence: Evidence | None) -> float:
    return estimate(evidence, pooled([evidence] if evidence else []), NOW).life.within(DAY)


def test_looks_are_counted_as_time_and_changes() -> None:
    evidence = looks("##..#")
    assert (round(evidence.losses, 1), round(evidence.gains, 1)) == (1.0, 1.0)
    assert evidence.up_seconds + evidence.down_seconds == pytest.approx(4 * 600, rel=0.05)
    assert (evidence.available, evidence.since, evidence.seen) == (True, NOW, NOW)


def test_what_lasted_long_is_expected_to_last_longer() -> None:
    assert life(looks("####")) < life(looks("#" * 40))


def test_each_loss_shortens_what_is_expected() -> None:
    assert life(looks("#" * 20)) > life(looks("##.####.###.####.###"))


def test_what_was_never_tried_is_worth_more_than_what_failed() -> None:
    assert life(None) > life(looks("#.#.#.#."))


def test_absence_that_nobody_looked_at_for_long_is_expected_to_end_in_longer_life() -> None:
    stale = Evidence(False, NOW - timedelta(hours=9), NOW - timedelta(hours=8), 600, 3, 3600, 2)
    fresh = Evidence(False, NOW - timedelta(hours=1), NOW, 600, 3, 3600, 2)
    assert life(stale) > life(fresh)


def test_history_fades_by_half_in_its_half_life() -> None:
    before = looks("#.#.#.")
    after = observe(before, False, NOW + timedelta(seconds=HALF_LIFE_SECONDS))
    assert after.losses == pytest.approx(before.losses / 2)


def test_a_few_bad_zones_do_not_condemn_the_rest() -> None:
    bad = [seen(False, 0.1, up_seconds=60, losses=9) for _ in range(20)]
    assert pooled(bad).life.within(DAY) > 3600


@given(st.floats(0.5, 20), st.floats(60, 1e6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_a_spell_within_a_horizon_grows_with_it_and_never_passes_it(
    ends: float, seconds: float, one: float, other: float
) -> None:
    spell = Spell(ends, seconds)
    near, far = sorted((one, other))
    assert 0 <= spell.within(near) <= spell.within(far) + 1e-6
    assert spell.within(far) <= far + 1e-6
