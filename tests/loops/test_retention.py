"""What grows is deleted when its time is over, and nothing that is still needed with it."""

from __future__ import annotations

import pytest
from sqlalchemy import func
from sqlmodel import Session, SQLModel, col, select

from service.api.problems import Problem
from service.attempts.model import Attempt, AttemptInstance, Charge
from service.blobs.model import Blob
from service.blobs.store import blob_key, keep_blob, note_use
from service.events.model import Event
from service.instances.model import Instance
from service.jobs.model import Job
from service.logs.append import deliver
from service.logs.model import LogChunk
from service.logs.read import find_log
from service.retention.loop import EVERY, clear
from service.states import JobState
from tests.loops.bench import Bench

DAY = 86400
PROJECT = "p-1"


def finished(bench: Bench) -> str:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    attempt = bench.live_attempt(job_id)
    deliver(bench.database, bench.store, attempt.id, 0, 0, b"epoch 1\n", 1 << 20, bench.clock.now())
    (node,) = bench.nodes(attempt)
    bench.exit(node, 0)
    bench.pass_time(120)
    return job_id


def count(bench: Bench, model: type[SQLModel]) -> int:
    return bench.database.read(lambda session: session.exec(select(func.count()).select_from(model)).one())


def later(bench: Bench, days: float) -> None:
    bench.clock.advance(days * DAY)
    clear(bench.ctx)


def upload(bench: Bench, name: str) -> str:
    key = blob_key(PROJECT, name)
    bench.store.put(key, b"tar")
    bench.database.write(lambda session: keep_blob(session, PROJECT, name, 3, bench.clock.now()))
    return key


def test_it_is_looked_at_every_hour(bench: Bench) -> None:
    finished(bench)
    bench.clock.advance(31 * DAY)
    bench.turn()
    assert count(bench, LogChunk) == 0
    bench.clock.advance(EVERY.total_seconds() / 2)
    bench.turn()
    assert count(bench, Job) == 1


def test_a_log_is_deleted_with_its_bytes_and_who_asks_is_told(bench: Bench) -> None:
    job_id = finished(bench)
    (attempt,) = bench.attempts(job_id)
    later(bench, 29)
    assert len(bench.database.read(lambda session: find_log(session, attempt.id, 0)).chunks) == 1
    later(bench, 2)
    assert [key for key in bench.store.objects if key.startswith("logs/")] == []
    assert count(bench, LogChunk) == 0
    with pytest.raises(Problem) as told:
        bench.database.read(lambda session: find_log(session, attempt.id, 0))
    assert (told.value.status, told.value.code) == (410, "expired")


def test_a_job_is_kept_for_its_costs_and_then_goes_with_all_that_is_known_of_it(bench: Bench) -> None:
    finished(bench)
    later(bench, 100)
    assert count(bench, Event) == 0
    assert (count(bench, Job), count(bench, Charge)) == (1, 1)
    later(bench, 301)
    for model in (Job, Attempt, AttemptInstance, Instance, Charge, LogChunk, Event):
        assert count(bench, model) == 0, model.__name__


def test_what_is_under_way_stays_however_old(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    told = count(bench, Event)
    later(bench, 1000)
    kept = bench.database.read(
        lambda session: session.exec(select(func.count()).where(col(Event.job_id) == job_id)).one()
    )
    assert 0 < kept <= told
    assert (count(bench, Job), count(bench, Instance), count(bench, Charge)) == (1, 1, 1)


def test_an_instance_that_is_not_proved_gone_keeps_its_job(bench: Bench) -> None:
    bench.clouds["aws"].terminate_seconds = 10**9
    finished(bench)
    later(bench, 500)
    assert (count(bench, Job), count(bench, Instance)) == (1, 1)


def test_an_upload_goes_when_no_job_has_named_it_for_long_enough(bench: Bench) -> None:
    unused, named, again = (upload(bench, letter * 64) for letter in "abc")
    bench.submit_job(max_price=0.01, files=[{"path": "data", "sha256": "b" * 64}])
    later(bench, 29)
    assert count(bench, Blob) == 3
    bench.database.write(lambda session: note_use(session, PROJECT, ["c" * 64], bench.clock.now()))
    later(bench, 2)
    assert unused not in bench.store.objects
    assert {named, again} <= set(bench.store.objects)
    later(bench, 31)
    assert {named} == {key for key in bench.store.objects if key.startswith("blobs/")}


def test_the_rest_is_deleted_next_time_when_a_process_dies_in_between(bench: Bench) -> None:
    finished(bench)
    bench.clock.advance(31 * DAY)
    stop = bench.store.delete

    def dies(key: str) -> None:
        raise KeyboardInterrupt

    bench.store.delete = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        clear(bench.ctx)
    bench.store.delete = stop  # type: ignore[method-assign]
    assert count(bench, LogChunk) == 1
    clear(bench.ctx)
    assert count(bench, LogChunk) == 0


def test_what_cannot_be_deleted_of_one_kind_keeps_no_other(bench: Bench) -> None:
    finished(bench)

    def refuse(key: str) -> None:
        raise PermissionError(key)

    bench.store.delete = refuse  # type: ignore[method-assign]
    before = count(bench, Event)
    later(bench, 4000)
    assert count(bench, LogChunk) == 1
    assert count(bench, Event) < before


def test_an_upload_named_by_a_live_job_whose_spec_cannot_be_read_any_more_is_kept(bench: Bench) -> None:
    kept, unused = upload(bench, "a" * 64), upload(bench, "b" * 64)
    job_id = bench.submit_job()

    def spoil(session: Session) -> None:
        session.get_one(Job, job_id).spec = {"of_a_later_version": {"workdir": "a" * 64}}

    bench.database.write(spoil)
    later(bench, 4000)
    assert kept in bench.store.objects
    assert unused not in bench.store.objects
