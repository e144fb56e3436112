"""Calls of one action in one region are spaced out; other actions and regions do not wait for them."""

from __future__ import annotations

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.rate_limit import Rate, RateLimiter
from tests.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(waits_advance=True)


@pytest.fixture
def limiter(clock: FakeClock) -> RateLimiter:
    return RateLimiter(clock, {"RunInstances": Rate(1, burst=4)}, Rate(10, burst=10), patience=5)


def waited(limiter: RateLimiter, clock: FakeClock, region: str, action: str) -> float:
    before = clock.monotonic()
    limiter.take(region, action)
    return clock.monotonic() - before


def test_a_burst_goes_at_once_and_the_rest_one_a_second(limiter: RateLimiter, clock: FakeClock) -> None:
    waits = [waited(limiter, clock, "us-east-1", "RunInstances") for _ in range(6)]
    assert waits == [0, 0, 0, 0, 1, 1]


def test_regions_and_actions_have_buckets_of_their_own(limiter: RateLimiter, clock: FakeClock) -> None:
    for _ in range(4):
        limiter.take("us-east-1", "RunInstances")
    assert waited(limiter, clock, "eu-west-1", "RunInstances") == 0
    assert waited(limiter, clock, "us-east-1", "DescribeInstances") == 0


def test_an_idle_bucket_fills_up_to_its_burst_and_no_further(limiter: RateLimiter, clock: FakeClock) -> None:
    limiter.take("us-east-1", "RunInstances")
    clock.advance(3600)
    waits = [waited(limiter, clock, "us-east-1", "RunInstances") for _ in range(5)]
    assert waits == [0, 0, 0, 0, 1]


def test_too_long_a_queue_is_refused_and_costs_no_turn(clock: FakeClock) -> None:
    still = FakeClock()
    limiter = RateLimiter(still, {}, Rate(1, burst=1), patience=0.5)
    limiter.take("r", "a")
    for _ in range(3):
        with pytest.raises(ProviderError) as caught:
            limiter.take("r", "a")
        assert caught.value.kind is ErrorKind.THROTTLED
        assert caught.value.retry_after == 1
    still.advance(1)
    limiter.take("r", "a")
