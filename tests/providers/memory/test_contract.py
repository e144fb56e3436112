"""The cloud in memory keeps the promises of a provider, refusing at once (like EC2) or later (like GCE)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryCloud, MemoryProvider
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import (
    Accelerator,
    CapacityType,
    InstanceType,
    Offer,
    OfferKey,
)
from tests.clocks import FakeClock
from tests.providers.contract import ProviderContract
from tests.providers.reservation_contract import ReservationContract

REGION = "north"
GPU = InstanceType("gpu-8", "GPU", 8, 64.0, Accelerator("L4", 1, 24))


class MemoryBench:
    region = REGION
    instance_type = GPU.name
    gangs_are_atomic = True

    def __init__(self, verdict_seconds: float | None) -> None:
        self.clock = FakeClock()
        self.cloud = MemoryCloud(self.clock, verdict_seconds=verdict_seconds)
        self.provider = MemoryProvider("lab", [REGION], self.clock, self.cloud)
        self._reserved = 0
        for zone in ("north-a", "north-b"):
            for capacity_type, price in ((CapacityType.ON_DEMAND, 1.0), (CapacityType.SPOT, 0.3)):
                key = OfferKey("memory", "lab", REGION, zone, GPU.name, capacity_type)
                self.cloud.sell(Offer(key, GPU, price, subnet=f"net-{zone}"))

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def exhaust(self, key: OfferKey, leave: int = 0) -> None:
        self.cloud.set_capacity(key, self.cloud.market.in_use(key, self.clock.now()) + leave)

    def restore(self, key: OfferKey) -> None:
        self.cloud.set_capacity(key, None)

    def limit_quota(self, key: OfferKey, vcpus: int) -> None:
        self.cloud.market.set_quota(key.region, GPU.family, key.capacity_type, vcpus)

    def deny_everything(self) -> None:
        self.cloud.fail("quotas", ProviderError(ErrorKind.AUTH, "not allowed"), times=None)

    def set_lag(self, seconds: float) -> None:
        self.cloud.lag_seconds = seconds

    def drop_next_reply(self) -> None:
        self.cloud.drop_reply()

    def throttle(self, call: str, times: int) -> None:
        # Reads are tried again inside an adapter, so a throttled one is never seen by a caller.
        if call == "launch":
            self.cloud.fail(call, ProviderError(ErrorKind.THROTTLED, "slow down"), times=times)

    def preempt(self, provider_id: str) -> None:
        self.cloud.preempt(provider_id, notice_seconds=120)

    def delete_behind_our_back(self, provider_id: str) -> None:
        self.cloud.delete(provider_id)

    def user_data(self, provider_id: str) -> str:
        return next(m.request.user_data for m in self.cloud.created if m.provider_id == provider_id)

    def unknown_id(self) -> str:
        return "m-99999999"

    def reserve(self, slots: int) -> str:
        self._reserved += 1
        made = Reservation(
            f"cr-{self._reserved}",
            ReservationKind.CAPACITY_RESERVATION,
            REGION,
            "north-a",
            GPU,
            ReservationState.ACTIVE,
            total=slots,
            used=0,
        )
        self.cloud.reserve("memory", "lab", made)
        return made.id

    def end_reservation(self, reservation: str) -> None:
        shown = self.provider.reservations(REGION).reservations
        (found,) = [one for one in shown if one.id == reservation]
        self.cloud.reserve("memory", "lab", replace(found, used=0, state=ReservationState.ENDED))

    def live(self) -> Mapping[str, int]:
        return {"instance": len(self.cloud.live())}


@pytest.fixture(params=[None, 5.0], ids=["refuses_at_once", "refuses_later"])
def bench(request: pytest.FixtureRequest) -> MemoryBench:
    return MemoryBench(request.param)


class TestMemory(ReservationContract, ProviderContract):
    """The whole contract."""
