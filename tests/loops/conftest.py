"""Fixtures for tests of the loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from providers.memory import MemoryCloud
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer

MakeBench = Callable[..., Bench]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def make_bench(tmp_path: Path, clock: FakeClock) -> Iterator[MakeBench]:
    benches: list[Bench] = []

    def make(**clouds: MemoryCloud) -> Bench:
        benches.append(Bench(tmp_path, clouds, clock))
        return benches[-1]

    yield make
    for bench in benches:
        bench.database.close()


@pytest.fixture
def bench(make_bench: MakeBench, clock: FakeClock) -> Bench:
    """Three clouds that sell the same, `aws` cheapest, with stock everywhere."""
    return make_bench(
        aws=cloud(clock, offer("aws", 10.0)),
        gcp=cloud(clock, offer("gcp", 11.0)),
        azure=cloud(clock, offer("azure", 12.0)),
    )
