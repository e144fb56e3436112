"""Fixtures of the sandbox's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import World
from tests.clocks import FakeClock
from tests.sandbox.worlds import Clouds, MakeClouds, MakeWorld, make_world


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock) -> World:
    """Three calm clouds with the default scenario."""
    return make_world(tmp_path, clock)


@pytest.fixture
def world_of(tmp_path: Path, clock: FakeClock) -> MakeWorld:
    """Makes a world from a scenario's fields."""

    def make(**scenario: Any) -> World:
        return make_world(tmp_path, clock, **scenario)

    return make


@pytest.fixture
def clouds_of(tmp_path: Path) -> Iterator[MakeClouds]:
    """Starts local clouds from a scenario's fields; they are ended with the test."""
    started: list[Clouds] = []

    def start(**scenario: Any) -> Clouds:
        clouds = Clouds(tmp_path / f"clouds-{len(started)}", **scenario)
        started.append(clouds)
        return clouds

    yield start
    for clouds in started:
        clouds.close()


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clouds]:
    """Local clouds that a module's tests share, as none of them makes anything."""
    clouds = Clouds(tmp_path_factory.mktemp("calm"))
    yield clouds
    clouds.close()


@pytest.fixture
def clouds(clouds_of: MakeClouds) -> Clouds:
    """Local clouds with the default scenario."""
    return clouds_of()
