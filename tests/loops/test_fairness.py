"""Who comes first: priority, then projects under their share, then age; and core on what is reserved."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlmodel import Session

from policies.model import RunClass, Stay
from policies.rule import Rule
from providers.reservations import Reservation, ReservationKind, ReservationState
from providers.vocabulary import CapacityType
from service.jobs.fairness import FairQueue
from service.jobs.model import Job
from service.jobs.obedience import note
from service.market.model import BlockRow
from service.projects.model import Project
from service.states import AttemptState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import H100, Bench, cloud, offer
from tests.loops.conftest import MakeBench
from tests.loops.nodes import enrolled, pass_time
from tests.loops.test_decisions import CHECKPOINT, configure

ON_DEMAND = CapacityType.ON_DEMAND
START = FakeClock().now()


def job(name: str, project: str, *, age: int, priority: int = 0) -> Job:
    return Job(
        id=name,
        name=name,
        project_id=project,
        run_class=RunClass.EXPLORATION,
        priority=priority,
        spec={},
        body_hash="",
        submitted_by="test",
        submitted_at=START - timedelta(minutes=age),
    )


def order(queue: FairQueue, takes: float = 0.0) -> list[str]:
    found = []
    for one in queue:
        found.append(one.id)
        queue.note_planned(one.project_id, takes)
    return found


def test_priority_comes_before_age() -> None:
    jobs = [job("old", "a", age=9), job("urgent", "a", age=1, priority=5)]
    assert order(FairQueue(jobs, {}, {})) == ["urgent", "old"]


def test_a_project_over_its_share_yields_to_one_under_it() -> None:
    jobs = [job("old", "greedy", age=9), job("young", "modest", age=1)]
    assert order(FairQueue(jobs, {"greedy": 8.0, "modest": 1.0}, {})) == ["young", "old"]
    assert order(FairQueue(jobs, {"greedy": 8.0, "modest": 1.0}, {"greedy": 99.0})) == ["old", "young"]


def test_what_is_planned_on_the_way_counts() -> None:
    jobs = [job(f"a{n}", "a", age=9 - n) for n in range(3)] + [job(f"b{n}", "b", age=3 - n) for n in range(2)]
    assert order(FairQueue(jobs, {}, {}), takes=8.0) == ["a0", "b0", "a1", "b1", "a2"]


def test_where_there_is_room_for_one_the_project_under_its_share_gets_it(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    configure(bench, limits={"max_instances": 2})
    bench.database.write(lambda s: s.add(Project(id="p-2", name="other", created_at=clock.now())))
    bench.run_until(bench.submit_job("first"), JobState.RUNNING)
    second, third = bench.submit_job("second"), bench.submit_job("third")

    def give_away(session: Session) -> None:
        session.get_one(Job, third).project_id = "p-2"

    bench.database.write(give_away)
    bench.run_until(third, JobState.RUNNING)
    assert bench.job(second).state is JobState.QUEUED


def reserved_bench(make_bench: MakeBench, clock: FakeClock, ends_at: datetime | None = None) -> Bench:
    """One reserved node at aws, of a capacity block if it has an end, and on-demand at gcp."""
    bench = make_bench(
        aws=cloud(clock, offer("aws", 100.0, capacity_type=ON_DEMAND), capacity=0),
        gcp=cloud(clock, offer("gcp", 120.0, capacity_type=ON_DEMAND)),
    )
    bench.clouds["aws"].reserve(
        "memory",
        "aws",
        Reservation(
            "cr-1",
            ReservationKind.CAPACITY_BLOCK if ends_at else ReservationKind.CAPACITY_RESERVATION,
            "aws-1",
            "aws-1a",
            H100,
            ReservationState.ACTIVE,
            1,
            0,
            ends_at=ends_at,
        ),
    )
    everything = ["reserved", "spot", "on_demand"]
    configure(
        bench,
        routes=[
            {"class": "core", "policy": "core"},
            {"policy": "exploration", "capacity_types": everything, "moves": False},
        ],
    )
    bench.pass_time(120)
    return bench


def test_core_takes_what_is_reserved_first(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = reserved_bench(make_bench, clock)
    core = bench.submit_job("core", **{"class": "core"})
    bench.run_until(core, JobState.RUNNING)
    assert bench.live_attempt(core).capacity_type is CapacityType.RESERVED


def test_core_displaces_exploration_from_reserved_nodes_with_notice(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = reserved_bench(make_bench, clock)
    tenant = bench.submit_job("tenant", checkpoint=CHECKPOINT)
    bench.run_until(tenant, JobState.RUNNING)
    assert bench.live_attempt(tenant).capacity_type is CapacityType.RESERVED
    core = bench.submit_job("core", **{"class": "core"})
    bench.turn()
    (old, *_) = bench.attempts(tenant)
    assert (old.state, old.drain_reason) == (AttemptState.DRAINING, "displaced")
    bench.run_until(core, JobState.RUNNING)
    assert bench.live_attempt(core).capacity_type is CapacityType.RESERVED
    bench.run_until(tenant, JobState.RUNNING)
    assert bench.live_attempt(tenant).capacity_type is ON_DEMAND
    assert bench.job(tenant).retries_used == {}
    assert bench.attempts(tenant)[0].reason == "displaced"


def test_nobody_is_displaced_from_a_block_that_the_core_job_would_have_to_leave_at_once(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = reserved_bench(make_bench, clock, clock.now() + timedelta(minutes=82))
    tenant = bench.submit_job("tenant", checkpoint=CHECKPOINT)
    bench.run_until(tenant, JobState.RUNNING)
    assert bench.live_attempt(tenant).capacity_type is CapacityType.RESERVED
    bench.pass_time(300)
    core = bench.submit_job("core", **{"class": "core"})
    bench.run_until(core, JobState.RUNNING)
    assert bench.live_attempt(core).capacity_type is ON_DEMAND
    assert [attempt.state for attempt in bench.attempts(tenant)] == [AttemptState.RUNNING]


def test_nobody_is_displaced_from_what_refuses_the_core_jobs_image(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(gcp=cloud(clock, offer("gcp", 120.0, capacity_type=ON_DEMAND)))
    configure(bench, routes=[{"class": "core", "policy": "core"}, {"capacity_types": ["reserved"]}])
    (machine,) = enrolled(bench, "rack-1")
    tenant = bench.submit_job("tenant", checkpoint=CHECKPOINT)
    pass_time(bench, 120, machine)
    assert bench.job(tenant).state is JobState.RUNNING
    refusal = BlockRow(
        id="b",
        scope={"provider": "standing", "account": "nodes", "image": "ami-1"},
        kind="invalid_request",
        message="a standing node cannot boot it",
        since=clock.now(),
        until=clock.now() + timedelta(days=1),
    )
    bench.database.write(lambda session: session.add(refusal))
    core = bench.submit_job("core", image="ami-1", **{"class": "core"})
    pass_time(bench, 120, machine)
    assert bench.job(core).state is JobState.RUNNING
    assert [attempt.state for attempt in bench.attempts(tenant)] == [AttemptState.RUNNING]


def test_a_core_job_whose_spec_cannot_be_read_any_more_holds_up_no_other(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = reserved_bench(make_bench, clock)
    broken = bench.submit_job("broken", **{"class": "core"})

    def spoil(session: Session) -> None:
        session.get_one(Job, broken).spec = {"name": "broken", "of_a_later_version": 1}

    bench.database.write(spoil)
    bench.run_until(bench.submit_job("well"), JobState.RUNNING)


def test_what_happened_to_a_job_while_it_was_decided_about_has_it_looked_at_again(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = reserved_bench(make_bench, clock)
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    seen = bench.job(job_id).wake_at
    woken = clock.now()

    def wake(session: Session) -> None:
        session.get_one(Job, job_id).wake_at = woken

    bench.database.write(wake)
    note(bench.ctx, job_id, Rule(), Stay("an attempt is under way"), seen)
    assert bench.job(job_id).wake_at == woken
    note(bench.ctx, job_id, Rule(), Stay("an attempt is under way"), woken)
    assert bench.job(job_id).wake_at is None
