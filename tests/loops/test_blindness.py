"""What the service cannot see: agents that are silent, listings with holes, instances nobody knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from sqlmodel import Session

from providers.errors import ErrorKind, ProviderError
from providers.memory import MemoryProvider
from providers.vocabulary import LaunchRequest
from service.agents.claim import claim_code
from service.agents.sessions import Hello, hello
from service.api.problems import Problem
from service.instances.model import Instance
from service.instances.sweep import ORPHAN, QUARANTINED
from service.states import InstanceState, JobState
from tests.loops.bench import DEPLOYMENT, Bench, offer


def silent_time(bench: Bench, seconds: float) -> None:
    """Time passes and the clouds are asked, but no agent gets through."""
    for _ in range(int(seconds / 10)):
        bench.clock.advance(10)
        bench.turn()


@pytest.mark.parametrize("minutes", [0.25, 1, 5, 29])
def test_AGE_01_a_healthy_job_survives_our_own_blindness(bench: Bench, minutes: float) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    attempt = bench.live_attempt(job_id)
    silent_time(bench, minutes * 60)
    (node,) = bench.nodes(attempt)
    assert node.reachable is (minutes < 1)
    assert bench.job(job_id).state is JobState.RUNNING
    bench.agents()
    bench.turn()
    assert bench.live_attempt(job_id).id == attempt.id
    assert bench.nodes(attempt)[0].reachable


def test_AGE_01_beyond_the_limit_the_job_is_started_elsewhere(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    silent_time(bench, 1900)
    assert bench.attempts(job_id)[0].reason == "lost"
    assert len(bench.attempts(job_id)) == 2


def test_a_listing_with_holes_proves_nothing(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)
    unreadable = ProviderError(ErrorKind.TRANSIENT, "unreachable")
    bench.clouds["aws"].fail("describe", unreadable, times=None)
    bench.clouds["aws"].hide("aws-1", times=None)
    bench.pass_time(900)
    assert bench.job(job_id).state is JobState.RUNNING
    assert len(bench.attempts(job_id)) == 1


def stranger(bench: Bench, deployment: str = DEPLOYMENT) -> str:
    """An instance with our tag that no row knows."""
    provider = MemoryProvider("aws", ["aws-1"], bench.clock, bench.clouds["aws"])
    request = LaunchRequest(
        token="f" * 32,
        offer=offer("aws", 10.0).key,
        nodes=1,
        user_data="",
        tags={"corral-deployment": deployment, "corral-token": "f" * 32},
        disk_gib=100,
    )
    return provider.launch(replace(request, image="image-1")).instances[0].provider_id


def _hello(bench: Bench, said: Hello, session: Session) -> None:
    hello(session, bench.ctx, said)


def known(bench: Bench) -> None:
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING)


def test_an_orphan_is_ended_after_its_grace(bench: Bench) -> None:
    known(bench)
    stranger(bench)
    bench.pass_time(600)
    assert len(bench.alive()) == 2, "younger than the grace time"
    bench.pass_time(900)
    assert len(bench.alive()) == 1
    assert len(bench.events("orphan_found")) == 1


def test_what_is_stopping_for_ever_is_an_orphan_too(bench: Bench) -> None:
    """What is left of a machine that is gone shows like that, until somebody ends the rest."""
    known(bench)
    bench.clouds["aws"].terminate_seconds = 100_000
    bench.clouds["aws"].delete(stranger(bench))
    bench.pass_time(1500)
    assert len(bench.events("orphan_found")) == 1


def test_another_deployments_instance_is_never_touched(bench: Bench) -> None:
    known(bench)
    stranger(bench, "somebody-else")
    bench.pass_time(3600)
    assert len(bench.alive()) == 2


def test_an_empty_database_sweeps_nothing(bench: Bench) -> None:
    stranger(bench)
    bench.pass_time(3600)
    assert len(bench.alive()) == 1


def test_an_orphan_whose_agent_speaks_is_quarantined_and_told_of(bench: Bench) -> None:
    known(bench)
    provider_id = stranger(bench)
    for _ in range(200):
        bench.clock.advance(10)
        bench.turn()
        code = claim_code(bench.ctx.deployment_key, "a-unknown")
        said = Hello(code, provider_id, "boot", "0.1.0", None, {})
        with pytest.raises(Problem) as refused:
            bench.database.write(partial(_hello, bench, said))
        assert refused.value.status == 503, "neither let in nor told to end"
        bench.agents()
    assert any(m.provider_id == provider_id for m in bench.alive())
    assert len(bench.events("orphan_quarantined")) == 1
    (row,) = [i for i in bench.instances() if i.purpose == ORPHAN]
    assert (row.state, row.reason) == (InstanceState.RUNNING, QUARANTINED)


def test_an_instance_that_is_over_with_us_but_alive_is_ended_again(bench: Bench) -> None:
    known(bench)
    (row,) = bench.instances(InstanceState.RUNNING)

    def forget(session: Session) -> None:
        fresh = session.get_one(Instance, row.id)
        fresh.state, fresh.terminated_at = InstanceState.TERMINATED, bench.clock.now() - timedelta(hours=1)
        session.add(fresh)

    bench.database.write(forget)
    bench.pass_time(200)
    assert row.provider_id not in {m.provider_id for m in bench.alive()}
