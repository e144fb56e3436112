"""What becomes of launches and instances is kept, and told as waits and as evidence for the policies."""

from __future__ import annotations

from datetime import timedelta

from sqlmodel import select

from policies.model import Candidate, Reason
from providers.vocabulary import CapacityType
from service.market.history import forget_history
from service.market.model import EvidenceRow, Observation, Outcome
from service.market.snapshot import market_of
from service.market.waits import Market, Waited, expected_start, grouped, quantile, read_waits
from service.states import JobState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.loops.conftest import MakeBench
from tests.loops.test_main_job import preempt

SPOT = CapacityType.SPOT


def observed(bench: Bench) -> list[tuple[str, Outcome]]:
    rows = bench.database.read(lambda s: s.exec(select(Observation).order_by(Observation.id)).all())  # type: ignore[arg-type]
    return [(row.zone, row.outcome) for row in rows]


def test_a_refusal_a_grant_and_a_loss_are_each_kept_with_their_time(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), capacity=0), gcp=cloud(clock, offer("gcp", 11.0)))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(600)
    preempt(bench, job_id)
    bench.pass_time(200)
    seen = observed(bench)
    assert seen[:3] == [
        ("aws-1a", Outcome.REFUSED),
        ("gcp-1a", Outcome.GRANTED),
        ("gcp-1a", Outcome.LOST),
    ]
    waits = bench.database.read(read_waits)
    gcp = waits[Market("memory", "gcp-1", "H100", SPOT)]
    assert len(gcp.granted) >= 1
    assert 600 <= gcp.lost[0] <= 800
    assert waits[Market("memory", "aws-1", "H100", SPOT)].refused >= 1


def test_a_running_instance_is_evidence_up_to_now(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    bench.pass_time(3600)
    now = bench.clock.now()
    market = bench.database.read(lambda session: market_of(session, bench.ctx.book, now))
    evidence = market.evidence[offer("aws", 10.0).key]
    assert evidence.available
    assert evidence.seen == now
    assert evidence.up_seconds >= 3500


def test_PRE_14_a_place_that_preempts_again_and_again_loses_its_rank(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(
        aws=cloud(clock, offer("aws", 10.0)),
        gcp=cloud(clock, offer("gcp", 10.3, capacity_type=CapacityType.ON_DEMAND)),
    )
    bench.settings = bench.ctx.settings = bench.settings.model_validate(
        {
            "times": {"boot": 600, "avoid_after_preemption": 0},
            "routes": [{"policy": "exploration"}],
        }
    )
    job_id = bench.submit_job(checkpoint={"path": "/c", "to": "storage"}, duration_seconds=48 * 3600)
    for _ in range(12):
        bench.run_until(job_id, JobState.RUNNING)
        if bench.live_attempt(job_id).account == "gcp":
            break
        bench.pass_time(60)
        preempt(bench, job_id)
        bench.pass_time(60)
    assert bench.live_attempt(job_id).account == "gcp", "after several losses it pays for quiet"


def test_history_is_dropped_after_its_time(bench: Bench) -> None:
    bench.run_until(bench.submit_job(), JobState.RUNNING)
    assert observed(bench)
    later = bench.clock.now() + timedelta(days=91)
    bench.database.write(lambda s: forget_history(s, timedelta(days=90), later))
    assert observed(bench) == []
    assert bench.database.read(lambda s: s.exec(select(EvidenceRow)).all()) == []


def test_quantiles_of_waits_are_values_that_occurred_and_say_on_how_many_they_rest() -> None:
    assert quantile([], 0.5) is None
    assert quantile([5.0], 0.9) == 5.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert quantile([1.0] * 9 + [100.0], 0.9) == 1.0
    rows = [("aws", "r", "H100", SPOT, Outcome.GRANTED, 3.0), ("aws", "r", "H100", SPOT, Outcome.LEFT, 9.0)]
    assert grouped(rows) == {Market("aws", "r", "H100", SPOT): Waited(granted=[3.0])}


def test_a_waiting_job_is_told_when_to_expect_capacity_or_that_nobody_knows() -> None:
    now = FakeClock().now()
    one = offer("aws", 1.0)
    known = {Market("memory", "aws-1", "H100", SPOT): Waited(granted=[600.0, 900.0, 3000.0])}
    told = expected_start([Candidate(one)], known, now - timedelta(seconds=300), now)
    assert told is not None
    assert (told["expected_in_seconds"], told["p50_seconds"], told["n"]) == (600.0, 900.0, 3)
    assert expected_start([Candidate(one)], {}, now, now) is None


def test_no_start_is_expected_where_a_quota_is_too_small() -> None:
    now = FakeClock().now()
    one = offer("aws", 1.0)
    known = {Market("memory", "aws-1", "H100", SPOT): Waited(granted=[600.0])}
    short = Candidate(one, reason=Reason.BLOCKED, detail="quota: quota_too_small")
    sold_out = Candidate(one, reason=Reason.BLOCKED, detail="capacity: no capacity")
    assert expected_start([short], known, now, now) is None
    assert expected_start([sold_out], known, now, now) is not None
