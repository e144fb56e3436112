"""What a test can script on the cloud in memory is what then happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryCloud, MemoryProvider
from providers.vocabulary import (
    CapacityType,
    EndReason,
    InstanceRef,
    InstanceState,
    InstanceType,
    LaunchRequest,
    Offer,
    OfferKey,
    Scope,
)
from tests.clocks import FakeClock

CPU = InstanceType("cpu-2", "Standard", 2, 4.0)
TAGS = {"corral-deployment": "d"}


def offer(zone: str, region: str = "north") -> Offer:
    return Offer(OfferKey("memory", "lab", region, zone, CPU.name, CapacityType.SPOT), CPU, 0.1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cloud(clock: FakeClock) -> MemoryCloud:
    made = MemoryCloud(clock, boot_seconds=30, terminate_seconds=20)
    for zone in ("a", "b"):
        made.sell(offer(zone), capacity=5)
    return made


@pytest.fixture
def provider(cloud: MemoryCloud, clock: FakeClock) -> MemoryProvider:
    return MemoryProvider("lab", ["north"], clock, cloud)


def ask(provider: MemoryProvider, name: str = "t1", zone: str = "a") -> LaunchRequest:
    raw = LaunchRequest(name.ljust(32, "0"), offer(zone).key, 1, "#cloud-config\n", TAGS, 10)
    return provider.prepare(raw)


def test_a_scripted_refusal_hits_only_its_scope_and_only_so_often(
    provider: MemoryProvider, cloud: MemoryCloud
) -> None:
    cloud.fail("launch", ProviderError(ErrorKind.AUTH, "no"), times=2, scope=Scope(zone="a"))
    provider.launch(ask(provider, "t1", "b"))
    for token in ("t2", "t3"):
        with pytest.raises(ProviderError, match="no"):
            provider.launch(ask(provider, token))
    provider.launch(ask(provider, "t4"))
    assert [call.error is None for call in cloud.launches] == [True, False, False, True]
    assert len(cloud.live()) == 2


def test_capacity_is_freed_when_an_instance_is_gone_and_not_before(
    provider: MemoryProvider, cloud: MemoryCloud, clock: FakeClock
) -> None:
    cloud.set_capacity(offer("a").key, 1)
    asked = ask(provider, "t1")
    provider.launch(asked)
    provider.terminate([machine.ref for machine in cloud.live()])
    with pytest.raises(ProviderError) as caught:
        provider.launch(ask(provider, "t2"))
    assert caught.value.kind is ErrorKind.CAPACITY
    clock.advance(20)
    provider.launch(ask(provider, "t3"))
    assert [len(cloud.made(call.request.token)) for call in cloud.launches] == [1, 0, 1]


def test_a_hidden_zone_makes_a_listing_incomplete_and_hides_its_instances(
    provider: MemoryProvider, cloud: MemoryCloud
) -> None:
    for zone in ("a", "b"):
        provider.launch(ask(provider, zone, zone))
    cloud.hide("a")
    listing = provider.list_instances("north", "d")
    assert listing.incomplete == ("a",)
    assert [i.zone for i in listing.instances] == ["b"]
    assert provider.list_instances("north", "d").complete


def test_a_preempted_instance_runs_until_its_notice_has_passed(
    provider: MemoryProvider, cloud: MemoryCloud, clock: FakeClock
) -> None:
    provider.launch(ask(provider))
    machine = cloud.live()[0]
    clock.advance(60)
    cloud.preempt(machine.provider_id, notice_seconds=120)
    assert machine.notice_deadline == clock.now() + timedelta(seconds=120)
    clock.advance(119)
    assert provider.describe([machine.ref])[0].state is InstanceState.RUNNING
    clock.advance(1)
    seen = provider.describe([machine.ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.STOPPING, EndReason.PREEMPTED)


@pytest.mark.parametrize(
    ("reclaims", "state", "billed"),
    [(True, InstanceState.TERMINATED, 0), (False, InstanceState.STOPPED, 1)],
)
def test_an_instance_that_powers_off_is_deleted_or_billed_on(
    clock: FakeClock, reclaims: bool, state: InstanceState, billed: int
) -> None:
    cloud = MemoryCloud(clock, reclaims_powered_off=reclaims)
    cloud.sell(offer("a"))
    provider = MemoryProvider("lab", ["north"], clock, cloud)
    provider.launch(ask(provider))
    machine = cloud.live()[0]
    clock.advance(60)
    cloud.power_off(machine.provider_id)
    clock.advance(60)
    assert provider.describe([machine.ref])[0].state is state
    assert len(cloud.live()) == billed
    assert provider.reclaims_powered_off is reclaims


def test_a_terminated_instance_is_shown_for_an_hour_and_then_forgotten(
    provider: MemoryProvider, cloud: MemoryCloud, clock: FakeClock
) -> None:
    asked = ask(provider)
    provider.launch(asked)
    machine = cloud.live()[0]
    cloud.kill(machine.provider_id)
    seen = provider.describe([machine.ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.HOST_FAILURE)
    clock.advance(3600)
    assert provider.describe([machine.ref])[0].state is InstanceState.ABSENT
    assert provider.find(asked).instances == ()
    assert cloud.made(asked.token) == [machine]


def test_the_cloud_ends_an_instance_at_its_maximum_age_where_it_does_that(clock: FakeClock) -> None:
    cloud = MemoryCloud(clock, enforces_max_age=True)
    cloud.sell(offer("a"))
    provider = MemoryProvider("lab", ["north"], clock, cloud)
    provider.launch(replace(ask(provider), max_age_seconds=600))
    machine = cloud.live()[0]
    clock.advance(599)
    assert provider.describe([machine.ref])[0].state is InstanceState.RUNNING
    clock.advance(60)
    seen = provider.describe([machine.ref])[0]
    assert (seen.state, seen.end_reason) == (InstanceState.TERMINATED, EndReason.MAX_AGE)


def test_a_refusal_may_be_scripted_to_come_later_and_nothing_ever_exists(
    provider: MemoryProvider, cloud: MemoryCloud, clock: FakeClock
) -> None:
    cloud.verdict_seconds = 10
    cloud.refuse_later(ProviderError(ErrorKind.CAPACITY, "out"))
    launched = provider.launch(ask(provider))
    ref = InstanceRef("north", "a", launched.instances[0].provider_id)
    assert provider.describe([ref])[0].state is InstanceState.PENDING
    clock.advance(10)
    error = provider.describe([ref])[0].error
    assert isinstance(error, ProviderError)
    assert error.kind is ErrorKind.CAPACITY
    assert cloud.created == []


def test_two_providers_on_one_cloud_see_the_same(cloud: MemoryCloud, clock: FakeClock) -> None:
    before = MemoryProvider("lab", ["north"], clock, cloud)
    asked = ask(before)
    launched = before.launch(asked)
    after_restart = MemoryProvider("lab", ["north"], clock, cloud)
    assert after_restart.launch(asked).instances == launched.instances
    assert len(cloud.live()) == 1
