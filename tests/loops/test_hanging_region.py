"""A region that never answers delays no other of its account: calls run in the service's own pools."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlmodel import col, select

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryCloud, MemoryProvider
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.signals import SignalListing
from providers.vocabulary import LaunchRequest, Listing, Offer, OfferListing
from service.context import Context, Place
from service.market.model import OfferRow
from service.pools import Pools
from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer

SILENT, LIVELY = "aws-1", "aws-2"
PATIENCE = 20.0  # real seconds that a call of the lively region has; only a failing test waits for it


class HalfSilent(MemoryProvider):
    """An account of two regions. While `silent`, no call for the first comes back before `released`."""

    def __init__(self, clock: FakeClock, cloud: MemoryCloud) -> None:
        super().__init__("aws", [SILENT, LIVELY], clock, cloud)
        self.silent = False
        self.released = threading.Event()
        self.hanging = 0

    def offers(self, region: str) -> OfferListing:
        self._answer(region)
        return super().offers(region)

    def quotas(self, region: str) -> QuotaListing:
        self._answer(region)
        return super().quotas(region)

    def reservations(self, region: str) -> ReservationListing:
        self._answer(region)
        return super().reservations(region)

    def spot_signals(self, region: str) -> SignalListing:
        self._answer(region)
        return super().spot_signals(region)

    def list_instances(self, region: str, deployment: str) -> Listing:
        self._answer(region)
        return super().list_instances(region, deployment)

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        self._answer(request.offer.region)
        return super().prepare(request)

    def _answer(self, region: str) -> None:
        if region == SILENT and self.silent:
            self.hanging += 1
            self.released.wait()
            raise ProviderError(ErrorKind.TRANSIENT, "no answer")


class PooledBench(Bench):
    """The bench with the service's pools of two threads; a turn waits for every call but the silent ones."""

    def __init__(self, folder: Path, clock: FakeClock, *, silent: bool) -> None:
        sold = cloud(clock, _offer(SILENT, 10.0), _offer(LIVELY, 20.0))
        self.account = HalfSilent(clock, sold)
        self.account.silent = silent
        self.pools = Pools({("memory", "aws"): 2})
        super().__init__(folder, {"aws": sold}, clock)

    def price(self, region: str) -> float | None:
        """What the service believes; None where it knows of no offer."""
        statement = select(OfferRow).where(col(OfferRow.region) == region)
        row = self.database.read(lambda session: session.exec(statement).one_or_none())
        return None if row is None or row.price_micros is None else row.price_micros / 1e6

    def close(self) -> None:
        self.account.released.set()
        assert self.pools.close(PATIENCE) == 0
        self.database.close()

    def _context(self) -> Context:
        ctx = super()._context()
        ctx.providers = {("memory", "aws"): self.account}
        return ctx

    def _submit(self, place: Place, call: Callable[[], None]) -> None:
        done = threading.Event()
        self.pools(place, partial(_then, call, done))
        if place[2] != SILENT or not self.account.silent:
            self.calls.append(lambda: _must_come(done, place))


def _then(call: Callable[[], None], done: threading.Event) -> None:
    try:
        call()
    finally:
        done.set()


def _must_come(done: threading.Event, place: Place) -> None:
    assert done.wait(PATIENCE), f"a call for {place} is held up"


def _offer(region: str, price: float) -> Offer:
    made = offer("aws", price)
    return replace(made, key=replace(made.key, region=region, zone=f"{region}a"))


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[..., PooledBench]]:
    made: list[PooledBench] = []

    def make(*, silent: bool) -> PooledBench:
        made.append(PooledBench(tmp_path, clock, silent=silent))
        return made[-1]

    yield make
    for bench in made:
        bench.close()


def test_a_region_silent_from_the_start_keeps_no_job_from_starting_in_another(
    make: Callable[..., PooledBench],
) -> None:
    bench = make(silent=True)
    assert (bench.price(SILENT), bench.price(LIVELY)) == (None, 20.0)
    job = bench.submit_job()
    bench.run_until(job, JobState.RUNNING, within=300)
    assert bench.live_attempt(job).region == LIVELY
    assert bench.account.hanging == 2  # its pool is full


def test_a_region_that_falls_silent_delays_neither_offers_nor_launches_of_others(
    make: Callable[..., PooledBench],
) -> None:
    bench = make(silent=False)
    bench.account.silent = True
    stuck = bench.submit_job("stuck")
    bench.turn()
    assert bench.live_attempt(stuck).region == SILENT
    bench.account.cloud.sell(_offer(LIVELY, 21.0))
    bench.pass_time(1200)
    assert bench.price(LIVELY) == 21.0
    other = bench.submit_job("other")
    bench.run_until(other, JobState.RUNNING, within=300)
    assert bench.live_attempt(other).region == LIVELY
    assert bench.account.hanging == 2
