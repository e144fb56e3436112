"""Two processes on one PostgreSQL: who loses a race tries again, and limits hold for both together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlmodel import Session, col, select

from service.attempts.model import Attempt
from service.attempts.plan import plan_attempt
from service.db import Database
from service.instances.model import Instance
from service.jobs.model import Job
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.postgres import postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]


@pytest.fixture
def bench(postgres_url: str, tmp_path: Path) -> Iterator[Bench]:
    clock = FakeClock()
    made = Bench(tmp_path, {"aws": cloud(clock, offer("aws", 10.0))}, clock, url=postgres_url)
    yield made
    made.database.close()


def at_once(*calls: Callable[[], object]) -> list[BaseException]:
    """Run each call on a thread of its own; what they raised."""
    failed: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=[call]) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return failed


def test_the_loser_of_a_deadlock_is_run_again(bench: Bench) -> None:
    one, two = bench.submit_job("one"), bench.submit_job("two")
    other = Database(bench.database.url)
    meet = threading.Barrier(2, timeout=10)

    def lock(first: str, second: str) -> Callable[[Session], None]:
        met = False

        def work(session: Session) -> None:
            nonlocal met
            for job_id in (first, second):
                row = session.exec(select(Job).where(Job.id == job_id).with_for_update()).one()
                row.priority += 1
                session.add(row)
                session.flush()
                if not met:
                    met = True
                    meet.wait()

        return work

    assert at_once(lambda: bench.database.write(lock(one, two)), lambda: other.write(lock(two, one))) == []
    other.close()
    assert [bench.job(job_id).priority for job_id in (one, two)] == [2, 2]


def test_two_processes_together_keep_max_instances(bench: Bench) -> None:
    limits = bench.settings.limits.model_copy(update={"max_instances": 1})
    bench.ctx.settings = bench.settings.model_copy(update={"limits": limits})
    bench.clouds["aws"].sell(offer("aws", 11.0, zone="b"))
    jobs = [bench.submit_job(f"job-{n}") for n in range(2)]
    other = Database(bench.database.url)
    sold = [offer("aws", 10.0), offer("aws", 11.0, zone="b")]
    bench.clock.advance(400)
    bench._steps["market"](bench.ctx)
    while bench.calls:
        bench.calls.popleft()()
    planned = threading.Barrier(2)

    def plan(database: Database, number: int) -> None:
        def work(session: Session) -> None:
            plan_attempt(session, bench.ctx, jobs[number], sold[number])
            try:
                planned.wait(timeout=0.5)  # the other has planned too, and has not committed
            except threading.BrokenBarrierError:
                return

        database.write(work)

    assert at_once(lambda: plan(bench.database, 0), lambda: plan(other, 1)) == []
    other.close()
    rows = bench.database.read(lambda session: list(session.exec(select(Instance)).all()))
    assert len(rows) == 1


def test_a_listing_never_revives_what_is_let_go_meanwhile(bench: Bench) -> None:
    from service.instances.watcher import _note_listing
    from service.states import InstanceState
    from service.transitions import move_instance

    job_id = bench.submit_job()
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.clock.advance(35)
    provider = bench.ctx.providers["memory", "aws"]
    listing = provider.list_instances("aws-1", bench.ctx.deployment_id)
    other = Database(bench.database.url)
    read, let_go = threading.Event(), threading.Event()

    def watch(session: Session) -> None:
        _note_listing(session, bench.ctx, provider, "aws-1", listing)
        read.set()
        let_go.wait(0.5)

    def end(session: Session) -> None:
        row = session.exec(select(Instance).where(Instance.id == node.id)).one()
        move_instance(session, row, InstanceState.TERMINATING, "no longer wanted", now=bench.clock.now())

    def second() -> None:
        read.wait(10)
        other.write(end)
        let_go.set()

    assert at_once(lambda: bench.database.write(watch), second) == []
    other.close()
    (row,) = bench.instances()
    assert row.state is InstanceState.TERMINATING
    assert bench.database.read(
        lambda session: session.exec(select(Attempt.id).where(col(Attempt.job_id) == job_id)).all()
    )
