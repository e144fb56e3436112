"""Standing nodes: given out, given back, never ended by us, one job at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlmodel import select

from providers.reservations import ReservationKind
from providers.vocabulary import CapacityType, Offer
from service.agents.claim import claim_code
from service.agents.sessions import Hello, hello
from service.api.problems import Problem
from service.attempts.model import Attempt, Charge
from service.attempts.plan import NotPlanned, plan_attempt
from service.nodes.model import NodeState
from service.states import InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import H100, Bench, Killed, cloud, offer
from tests.loops.conftest import MakeBench
from tests.loops.nodes import DGX, StandingMachine, enrolled, offered, pass_time, plan, pool


@pytest.fixture
def bench(make_bench: MakeBench, clock: FakeClock) -> Bench:
    return make_bench(aws=cloud(clock))


def begin(bench: Bench, *machines: StandingMachine, **fields: Any) -> str:
    """A job that runs on the pool of these machines."""
    made = plan(bench, offered(bench)[0].key, **fields)
    assert isinstance(made, Attempt), made
    for _ in range(12):
        pass_time(bench, 10, *machines)
        if bench.job(made.job_id).state is JobState.RUNNING:
            return made.job_id
    raise AssertionError(f"{bench.job(made.job_id).detail}: {[e.message for e in bench.events()]}")


def complete(bench: Bench, job_id: str, *machines: StandingMachine) -> None:
    """The job ends well, and the machines are cleaned."""
    for node in bench.nodes(bench.live_attempt(job_id)):
        bench.exit(node)
    bench.turn()
    for machine in machines:
        machine.finish()
    pass_time(bench, 10, *machines)


def test_a_node_that_enrolled_is_a_reservation_with_one_slot_and_an_offer(bench: Bench) -> None:
    enrolled(bench, "dgx-1", price_micros=16_000_000)
    found = pool(bench, "dgx")
    assert found is not None
    assert (found.kind, found.total, found.used) == (ReservationKind.STANDING, 1, 0)
    (one,) = offered(bench)
    assert (one.key.provider, one.key.capacity_type, one.price) == ("standing", CapacityType.RESERVED, 16.0)


def test_a_node_that_was_only_added_is_not_offered(bench: Bench) -> None:
    StandingMachine(bench, "dgx-1")
    bench.turn()
    assert not offered(bench)


def test_a_job_runs_on_a_node_and_the_node_is_free_again_after_it(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    job_id = begin(bench, machine)
    found = pool(bench, "dgx")
    assert found is not None
    assert (found.total, found.used) == (1, 1)
    complete(bench, job_id, machine)
    assert bench.job(job_id).state is JobState.SUCCEEDED
    assert machine.row().state(bench.clock.now(), 60) is NodeState.IDLE
    assert [one.state for one in bench.instances()] == [InstanceState.TERMINATED]


def test_a_node_serves_one_job_after_another_each_as_an_instance_of_its_own(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    first = begin(bench, machine)
    assert isinstance(plan(bench, offered(bench)[0].key), NotPlanned)
    complete(bench, first, machine)
    second = begin(bench, machine)
    complete(bench, second, machine)
    assert len({one.provider_id for one in bench.instances()}) == 2
    assert bench.job(second).state is JobState.SUCCEEDED


def test_a_node_is_not_free_before_its_agent_says_that_nothing_is_left(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    job_id = begin(bench, machine)
    for node in bench.nodes(bench.live_attempt(job_id)):
        bench.exit(node)
    pass_time(bench, 60)  # the node's own agent says nothing yet
    machine.silent = True
    assert bench.job(job_id).state is JobState.SUCCEEDED
    assert machine.row().use_id is not None
    assert isinstance(plan(bench, offered(bench)[0].key), NotPlanned)


def test_a_gang_is_given_nodes_of_one_pool(bench: Bench) -> None:
    machines = enrolled(bench, "dgx-1", "dgx-2", "dgx-3")
    gang = {"gpu": {"name": ["H100"], "count": 8}, "nodes": 2}
    job_id = begin(bench, *machines, resources=gang)
    used = [machine for machine in machines if machine.row().use_id]
    assert [machine.row().rank for machine in used] == [0, 1]
    refused = plan(bench, offered(bench)[0].key, resources=gang)
    assert isinstance(refused, NotPlanned)
    assert "1 of 3 free, 2 needed" in refused.why
    complete(bench, job_id, *used)
    assert bench.job(job_id).state is JobState.SUCCEEDED


def test_nodes_of_one_pool_must_be_equal(bench: Bench) -> None:
    enrolled(bench, "dgx-1", price_micros=1)
    with pytest.raises(Problem) as caught:
        StandingMachine(bench, "dgx-2", price_micros=2)
    assert caught.value.status == 409


def test_a_silent_node_is_not_offered_until_it_speaks_again(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    bench.pass_time(bench.settings.times.silent_after + 1)
    found = pool(bench, "dgx")
    assert found is not None
    assert (found.total, found.used) == (0, 0)
    assert isinstance(plan(bench, offered(bench)[0].key), NotPlanned)
    assert machine.row().state(bench.clock.now(), 60) is NodeState.UNREACHABLE
    machine.poll()
    assert isinstance(plan(bench, offered(bench)[0].key), Attempt)
    assert [event.kind for event in bench.events() if event.subject == "node"][-2:] == [
        "node_unreachable",
        "node_reachable",
    ]


def test_the_job_of_a_node_that_died_is_lost_after_the_usual_time_and_the_node_stays_given_away(
    bench: Bench,
) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    job_id = begin(bench, machine)
    machine.silent = True
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.pass_time(bench.settings.times.lost_after + 60)
    (attempt,) = bench.attempts(job_id)
    assert attempt.reason == "lost"
    assert bench.nodes(attempt)[0].state is InstanceState.TERMINATING
    machine.silent = False  # the machine comes back, its agent in the middle of the job
    machine.running = node.provider_id
    told = machine.poll()
    assert told["end"]
    pass_time(bench, 20, machine)
    assert machine.row().use_id is None
    bench.pass_time(90)
    assert bench.nodes(attempt)[0].state is InstanceState.TERMINATED


def test_an_answer_that_was_lost_loses_no_job(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    machine.lost_answers = 2
    job_id = begin(bench, machine)
    assert len(bench.attempts(job_id)) == 1


def test_a_job_that_is_cancelled_before_the_node_heard_of_it_leaves_the_node_free(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    made = plan(bench, offered(bench)[0].key)
    assert isinstance(made, Attempt)
    assert machine.row().use_id is not None
    bench.cancel(made.job_id)
    bench.turn()
    assert machine.row().use_id is None
    assert machine.poll()["use"] is None
    assert bench.job(made.job_id).state is JobState.CANCELLED


def test_a_node_that_restarted_without_a_trace_of_its_job_gives_the_job_back(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    job_id = begin(bench, machine, retry={"lost": 0})
    machine.finish()
    pass_time(bench, 60, machine)
    assert bench.job(job_id).state is JobState.FAILED
    assert bench.job(job_id).reason == "lost"


def test_a_service_that_dies_after_giving_a_node_out_gives_out_no_second_one(
    bench: Bench,
) -> None:
    machines = enrolled(bench, "dgx-1", "dgx-2")
    job_id = bench.submit_job()
    key = offered(bench)[0].key
    bench.database.write(lambda s: plan_attempt(s, bench.ctx, job_id, Offer(key, DGX, None)))
    bench.ctx.wake("launcher")
    for commits in range(1, 8):
        bench.die_at_commit(commits)
        try:
            bench.turn()
        except Killed:
            bench.restart()
            break
    pass_time(bench, 400, *machines)
    assert len([machine for machine in machines if machine.row().use_id]) == 1
    assert len(bench.attempts(job_id)) == 1


def test_time_on_a_node_is_booked_at_its_hourly_share_of_the_month(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1", price_micros=16_000_000)
    begin(bench, machine)
    (charge,) = bench.database.read(lambda session: session.exec(select(Charge)).all())
    assert charge.price_micros == 16_000_000


def test_a_machine_image_cannot_be_had_on_a_node_and_is_refused_alone(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    made = plan(bench, offered(bench)[0].key, image="ami-0123456789abcdef0")
    assert isinstance(made, Attempt)
    assert bench.attempts(made.job_id)[0].reason == "refused"
    assert machine.row().use_id is None
    assert isinstance(plan(bench, offered(bench)[0].key), Attempt)


def test_a_code_is_good_for_an_hour_and_until_its_session_was_used(bench: Bench) -> None:
    machine = StandingMachine(bench, "dgx-1")
    machine.enrol()
    machine.enrol()  # the first answer was lost
    machine.poll()
    with pytest.raises(Problem) as used:
        machine.enrol()
    assert used.value.status == 403
    late = StandingMachine(bench, "dgx-2")
    bench.clock.advance(timedelta(hours=1).total_seconds())
    with pytest.raises(Problem) as old:
        late.enrol()
    assert old.value.status == 403


def test_a_job_without_a_time_limit_may_stay_on_a_node_for_longer_than_a_week(bench: Bench) -> None:
    (machine,) = enrolled(bench, "dgx-1")
    made = plan(bench, offered(bench)[0].key)
    assert isinstance(made, Attempt)
    use_id = machine.row().use_id
    code = claim_code(bench.ctx.deployment_key, made.id)
    said = Hello(code, use_id or "", "boot-1", "0.1.0", None, {})
    reply = bench.database.write(lambda session: hello(session, bench.ctx, said))
    assert reply["max_age_seconds"] > 365 * 86400


def test_a_gang_on_a_fast_network_asks_its_provider_for_it(make_bench: MakeBench, clock: FakeClock) -> None:
    fast = replace(H100, fabric="efa")
    aws = cloud(clock, offer("aws", 5.0), offer("aws", 9.0, zone="b", type_=replace(fast, name="fast-8")))
    bench = make_bench(aws=aws)
    job_id = bench.submit_job(
        resources={"gpu": {"name": ["H100"], "count": 8}, "nodes": 2, "network": "fast"}
    )
    bench.run_until(job_id, JobState.RUNNING)
    (sent,) = aws.launches
    assert (sent.request.offer.instance_type, sent.request.fabric) == ("fast-8", True)


def test_a_core_job_is_placed_on_a_free_node_before_anything_is_bought(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    aws = cloud(clock, offer("aws", 1.0, capacity_type=CapacityType.ON_DEMAND))
    bench = make_bench(aws=aws)
    (machine,) = enrolled(bench, "dgx-1", price_micros=16_000_000)
    first = bench.submit_job(**{"class": "core"})
    bench.turn()
    assert bench.live_attempt(first).provider == "standing"
    second = bench.submit_job(**{"class": "core"})
    bench.turn()
    assert bench.live_attempt(second).provider == "memory"
    assert machine.row().job_id == first
