"""Reservations: read, offered, counted, left in time."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlmodel import select

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryCloud
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.signals import SpotSignal
from providers.vocabulary import CapacityType, Offer, OfferKey, Scope
from service.attempts.model import Attempt, Charge
from service.attempts.plan import NotPlanned, plan_attempt
from service.market.model import OfferRow
from service.market.snapshot import MarketSnapshot, snapshot
from service.reservations.model import ReservationRow
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import H100, Bench, cloud, offer
from tests.loops.conftest import MakeBench

BLOCK = ReservationKind.CAPACITY_BLOCK


@pytest.fixture
def aws(clock: FakeClock) -> MemoryCloud:
    """One cloud that sells nothing."""
    return cloud(clock)


@pytest.fixture
def bench(make_bench: MakeBench, aws: MemoryCloud) -> Bench:
    return make_bench(aws=aws)


def reserve(bench: Bench, total: int | None = 1, *, name: str = "cr-1", **fields: Any) -> OfferKey:
    """Reserve H100 nodes in the zone `aws-1a`, and let the service read it."""
    made = Reservation(
        id=name,
        kind=ReservationKind.CAPACITY_RESERVATION,
        region="aws-1",
        zone="aws-1a",
        type=H100,
        state=ReservationState.ACTIVE,
        total=total,
        used=None if total is None else 0,
    )
    key = bench.clouds["aws"].reserve("memory", "aws", replace(made, **fields))
    bench.pass_time(70)
    return key


def offered(bench: Bench) -> list[Offer]:
    return list(market(bench).offers)


def market(bench: Bench) -> MarketSnapshot:
    return bench.database.read(lambda session: snapshot(session, bench.clock.now()))


def plan(bench: Bench, key: OfferKey, **fields: Any) -> Attempt | NotPlanned:
    """Plan a new job on a reservation, as a policy that uses reserved capacity would have it."""
    job_id = bench.submit_job(**fields)
    made = bench.database.write(
        lambda session: plan_attempt(session, bench.ctx, job_id, Offer(key, H100, None))
    )
    bench.ctx.wake("launcher")
    bench.turn()
    return made


def run(bench: Bench, key: OfferKey, **fields: Any) -> str:
    """A job that runs in a reservation."""
    made = plan(bench, key, **fields)
    assert isinstance(made, Attempt), made
    bench.run_until(made.job_id, JobState.RUNNING)
    return made.job_id


def row(bench: Bench, name: str = "cr-1") -> ReservationRow | None:
    of_name = select(ReservationRow).where(ReservationRow.id == name)
    return bench.database.read(lambda session: session.exec(of_name).first())


def end_of(bench: Bench, hours: float) -> datetime:
    return bench.clock.now() + timedelta(hours=hours)


def test_a_reservation_becomes_a_reserved_offer_at_its_own_price(bench: Bench) -> None:
    reserve(bench, 4, price=30.0)
    (found,) = offered(bench)
    assert (found.key.capacity_type, found.key.reservation) == (CapacityType.RESERVED, "cr-1")
    assert (found.key.zone, found.type.name, found.price) == ("aws-1a", H100.name, 30.0)


def test_one_that_was_paid_ahead_has_no_price_and_costs_the_job_nothing(bench: Bench) -> None:
    key = reserve(bench)
    assert offered(bench)[0].price is None
    job_id = run(bench, key, max_price=1.0)
    bench.pass_time(600)
    (charge,) = bench.database.read(lambda session: session.exec(select(Charge)).all())
    assert (charge.job_id, charge.price_micros) == (job_id, 0)


def test_its_price_is_booked_where_it_has_one_and_never_refuses_a_job(bench: Bench) -> None:
    key = reserve(bench, price=30.0)
    run(bench, key, max_price=1.0)
    (charge,) = bench.database.read(lambda session: session.exec(select(Charge)).all())
    assert charge.price_micros == 30_000_000


def test_what_is_scheduled_is_known_and_offered_only_from_its_start(bench: Bench) -> None:
    reserve(bench, starts_at=end_of(bench, 0.1), kind=BLOCK, ends_at=end_of(bench, 25))
    found = row(bench)
    assert found is not None
    assert found.state is ReservationState.SCHEDULED
    assert not offered(bench)
    bench.pass_time(370)
    assert [one.key.reservation for one in offered(bench)] == ["cr-1"]
    assert [event.data["state"] for event in bench.events("reservation_changed")] == ["scheduled", "active"]


def test_the_offer_goes_when_the_reservation_ends_or_is_gone(bench: Bench) -> None:
    key = reserve(bench, ends_at=end_of(bench, 0.2))
    reserve(bench, name="cr-2")
    assert len(offered(bench)) == 2
    bench.pass_time(0.2 * 3600)
    assert [one.key.reservation for one in offered(bench)] == ["cr-2"]
    ended = row(bench)
    assert ended is not None
    assert ended.state is ReservationState.ENDED
    bench.clouds["aws"].drop_reservation(replace(key, reservation="cr-2"))
    bench.pass_time(70)
    assert not offered(bench)
    assert row(bench, "cr-2") is None


def test_what_could_not_be_read_keeps_its_last_reading(bench: Bench) -> None:
    reserve(bench)
    bench.clouds["aws"].hide("aws-1a", call="reservations", times=None)
    bench.pass_time(300)
    assert len(offered(bench)) == 1


def test_a_reading_of_offers_leaves_reserved_ones_alone(bench: Bench) -> None:
    reserve(bench)
    bench.pass_time(2 * bench.settings.times.poll_offers)
    assert len(offered(bench)) == 1


def test_a_second_job_is_not_sent_into_a_reservation_that_is_full(bench: Bench) -> None:
    key = reserve(bench, 1)
    run(bench, key)
    sent = len(bench.clouds["aws"].launches)
    refused = plan(bench, key)
    assert isinstance(refused, NotPlanned)
    assert "0 of 1 free, 1 needed" in refused.why
    assert len(bench.clouds["aws"].launches) == sent


def test_slots_that_are_under_way_are_taken_off_before_any_reading_shows_them(bench: Bench) -> None:
    key = reserve(bench, 3)
    assert isinstance(plan(bench, key, resources=gang(2)), Attempt)
    refused = plan(bench, key, resources=gang(2))
    assert isinstance(refused, NotPlanned)
    assert "1 of 3 free, 2 needed" in refused.why
    assert isinstance(plan(bench, key), Attempt)


def test_a_slot_is_counted_once_when_the_reading_shows_it(bench: Bench) -> None:
    key = reserve(bench, 2)
    run(bench, key)
    bench.pass_time(180)
    assert isinstance(plan(bench, key), Attempt)


def test_a_slot_is_given_out_again_when_its_job_is_over(bench: Bench) -> None:
    key = reserve(bench, 1)
    job_id = run(bench, key)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.exit(node)
    bench.run_until(job_id, JobState.SUCCEEDED)
    bench.pass_time(180)
    assert isinstance(plan(bench, key), Attempt)


def test_a_count_that_is_unknown_refuses_nothing_and_the_clouds_word_blocks_it_alone(bench: Bench) -> None:
    full = ProviderError(ErrorKind.CAPACITY, "full", scope=scope_of("cr-1"))
    key = reserve(bench, None)
    other = reserve(bench, 1, name="cr-2")
    bench.clouds["aws"].fail("launch", full, scope=scope_of("cr-1"))
    made = plan(bench, key)
    assert isinstance(made, Attempt)
    assert bench.attempts(made.job_id)[0].state is AttemptState.ENDED
    refused = plan(bench, key)
    assert isinstance(refused, NotPlanned)
    assert "capacity" in refused.why
    assert isinstance(plan(bench, other), Attempt)


def test_a_job_leaves_a_capacity_block_45_minutes_before_its_end_with_its_checkpoint(bench: Bench) -> None:
    ends_at = end_of(bench, 1.35)
    key = reserve(bench, kind=BLOCK, ends_at=ends_at)
    job_id = run(bench, key)
    bench.pass_time((ends_at - timedelta(minutes=46) - bench.clock.now()).total_seconds())
    assert bench.job(job_id).state is JobState.RUNNING
    bench.pass_time(90)
    (attempt,) = bench.attempts(job_id)
    assert attempt.drain_reason == "preempted"
    assert attempt.draining_at is not None
    assert attempt.draining_at - (ends_at - timedelta(minutes=45)) < timedelta(seconds=20)
    assert bench.job(job_id).state is JobState.QUEUED
    bench.pass_time(120)
    assert not bench.alive()


def test_a_long_grace_is_given_in_full_before_the_cloud_takes_the_block_back(bench: Bench) -> None:
    ends_at = end_of(bench, 1.35)
    key = reserve(bench, kind=BLOCK, ends_at=ends_at)
    checkpoint = {"path": "/ckpt", "to": "file:///ckpt", "grace_seconds": 1800}
    job_id = run(bench, key, checkpoint=checkpoint)
    bench.pass_time((ends_at - timedelta(minutes=59) - bench.clock.now()).total_seconds())
    (attempt,) = bench.attempts(job_id)
    assert attempt.draining_at is not None
    assert attempt.drain_deadline is not None
    assert attempt.drain_deadline <= ends_at - timedelta(minutes=30)
    assert attempt.drain_deadline - attempt.draining_at > timedelta(minutes=29)


def test_nothing_is_started_in_a_block_that_must_soon_be_left(bench: Bench) -> None:
    key = reserve(bench, kind=BLOCK, ends_at=end_of(bench, 1.2))
    refused = plan(bench, key)
    assert isinstance(refused, NotPlanned)
    assert "must be left at" in refused.why
    bench.pass_time(1800)
    assert not offered(bench)


def test_a_plain_reservation_with_an_end_is_not_left_before_it(bench: Bench) -> None:
    """EC2 lets what runs in an on-demand reservation run on when that ends."""
    key = reserve(bench, ends_at=end_of(bench, 0.1))
    job_id = run(bench, key)
    bench.pass_time(0.2 * 3600)
    assert bench.job(job_id).state is JobState.RUNNING


def test_an_instance_that_was_lost_in_a_reservation_does_not_block_it(bench: Bench) -> None:
    key = reserve(bench, 2)
    job_id = run(bench, key)
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.notice(node, 60)
    bench.pass_time(180)
    assert bench.nodes(bench.attempts(job_id)[0])[0].state is InstanceState.TERMINATED
    assert isinstance(plan(bench, key), Attempt)


def test_what_ships_with_the_adapter_is_shown_until_the_place_was_read_and_not_launched_on(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    dark = cloud(clock, offer("aws", 9.0))
    dark.build_in(offer("aws", 8.0, zone="b"))
    dark.fail("offers", ProviderError(ErrorKind.TRANSIENT, "down"), times=3)
    bench = make_bench(aws=dark)
    (shown,) = offered(bench)
    assert (shown.price, shown.price_source, shown.built_in) == (8.0, "snapshot", True)
    job_id = bench.submit_job()
    bench.turn()
    assert not dark.launches
    block = market(bench).block_of(shown, bench.clock.now())
    assert block is not None
    assert block.kind == "unread"
    bench.run_until(job_id, JobState.RUNNING)
    assert [one.price for one in offered(bench)] == [9.0]


def test_what_vendors_say_of_spot_capacity_is_at_hand(make_bench: MakeBench, clock: FakeClock) -> None:
    said = cloud(clock, offer("aws", 9.0), offer("aws", 20.0, capacity_type=CapacityType.ON_DEMAND))
    for zone, chance in ((None, 0.3), ("aws-1a", 0.9), ("aws-1b", 0.1)):
        said.signal("aws", SpotSignal(H100.name, "aws-1", zone, "score", clock.now(), chance, 7.0))
    bench = make_bench(aws=said)
    found = {one.key.capacity_type: market(bench).signals_of(one) for one in offered(bench)}
    assert [signal.obtainability for signal in found[CapacityType.SPOT]] == [0.9, 0.3]
    assert {signal.eviction_rate for signal in found[CapacityType.SPOT]} == {None}, "no share, so unknown"
    assert found[CapacityType.ON_DEMAND] == ()


def test_a_place_that_the_settings_no_longer_name_takes_its_reservations_along(bench: Bench) -> None:
    reserve(bench)
    bench.ctx.providers = {}
    bench.ctx.wake("market")
    bench.turn()
    assert row(bench) is None
    assert not bench.database.read(lambda session: session.exec(select(OfferRow)).all())


def test_core_jobs_fill_a_reservation_to_its_last_slot_at_once_and_wait_for_no_trial(bench: Bench) -> None:
    reserve(bench, 3)
    jobs = [bench.submit_job(**{"class": "core"}) for _ in range(4)]
    bench.turn()
    placed = [job_id for job_id in jobs if bench.attempts(job_id)]
    assert len(placed) == 3
    assert {bench.live_attempt(job_id).reservation for job_id in placed} == {"cr-1"}
    (left,) = set(jobs) - set(placed)
    assert bench.job(left).state is JobState.QUEUED


def gang(nodes: int) -> dict[str, Any]:
    return {"gpu": {"name": ["H100"], "count": 8}, "nodes": nodes}


def scope_of(name: str) -> Scope:
    return Scope(reservation=name)
