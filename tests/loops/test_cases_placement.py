"""Failures that others have met while they looked for capacity, and what must come of them here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlmodel import select

from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, Scope
from service.agents import reports
from service.market.model import BlockRow
from service.states import AttemptState, InstanceState, JobState
from tests.clocks import FakeClock
from tests.loops.bench import H100, Bench, cloud, offer
from tests.loops.conftest import MakeBench

SPOT, ON_DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND


def launches(bench: Bench, account: str) -> list[Any]:
    return bench.clouds[account].launches


def blocks(bench: Bench) -> list[BlockRow]:
    return bench.database.read(lambda session: list(session.exec(select(BlockRow)).all()))


def break_call(bench: Bench, account: str, call: str, message: str) -> None:
    """A call of an adapter raises what no adapter should raise."""

    def broken(*_: Any) -> Any:
        raise ValueError(message)

    setattr(bench.ctx.providers["memory", account], call, broken)


def test_FAI_04_a_fault_while_a_launch_is_prepared_is_a_refusal_of_that_offer_alone(bench: Bench) -> None:
    break_call(bench, "aws", "prepare", "invalid literal for int(): 'none'")
    job_id = bench.submit_job()
    bench.turn()
    first, second = bench.attempts(job_id)
    assert (first.account, first.reason, first.error_kind) == ("aws", "refused", "unknown")
    assert "invalid literal for int(): 'none'" in (first.detail or "")
    assert (second.account, second.state) == ("gcp", AttemptState.BOOTING)


def test_FAI_04_a_fault_while_a_launch_is_sent_leaves_it_open_and_then_the_next_offer_is_tried(
    bench: Bench,
) -> None:
    break_call(bench, "aws", "launch", "no such field: Instances")
    job_id = bench.submit_job()
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    assert node.state is InstanceState.UNCONFIRMED, "it may have happened all the same"
    bench.run_until(job_id, JobState.RUNNING, within=1000)
    first, second = bench.attempts(job_id)
    assert (first.reason, second.account) == ("refused", "gcp")
    assert "unknown: ValueError" in (first.detail or "")
    assert any("no such field: Instances" in event.message for event in bench.events())


def test_FAI_15_a_missing_role_for_spot_closes_spot_in_that_account_and_nothing_else(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    aws = cloud(clock, offer("aws", 10.0), offer("aws", 10.5, zone="b"))
    aws.sell(offer("aws", 30.0, capacity_type=ON_DEMAND))
    no_role = ProviderError(
        ErrorKind.AUTH,
        "The provided credentials do not have permission to create the service-linked role for EC2 Spot",
        code="AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        scope=Scope(capacity_type=SPOT),
    )
    aws.fail("launch", no_role, times=None, scope=Scope(capacity_type=SPOT))
    bench = make_bench(aws=aws)
    for name in ("first", "second"):
        bench.run_until(bench.submit_job(name), JobState.RUNNING)
    asked = [call.request.offer.capacity_type for call in launches(bench, "aws")]
    assert asked == [SPOT, ON_DEMAND, ON_DEMAND], "one refusal speaks for every zone and job"
    (block,) = blocks(bench)
    assert (block.kind, block.code) == ("auth", no_role.code)
    assert "service-linked role" in block.message


def test_FAI_17_an_image_that_a_place_does_not_have_sends_the_job_elsewhere(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(
        aws=cloud(clock, offer("aws", 10.0), capacity=0),
        west=cloud(clock, offer("west", 10.5)),
        none=cloud(clock, offer("none", 10.7)),
        gcp=cloud(clock, offer("gcp", 11.0)),
    )

    def missing(place: str) -> ProviderError:
        scope = Scope(region=f"{place}-1", image="prebuilt")
        return ProviderError(ErrorKind.IMAGE_MISSING, "no image", code="InvalidAMIID.NotFound", scope=scope)

    bench.clouds["west"].fail("launch", missing("west"), times=None)
    bench.clouds["none"].fail("prepare", missing("none"), times=None)
    job_id = bench.submit_job()
    bench.turn()
    assert bench.live_attempt(job_id).account == "gcp"
    assert launches(bench, "none") == [], "nothing is created where there is no image"
    told = {block.scope["region"] for block in blocks(bench) if block.kind == "image_missing"}
    assert told == {"west-1", "none-1"}
    other = bench.submit_job("other")
    bench.turn()
    assert bench.live_attempt(other).account == "gcp"
    assert len(launches(bench, "west")) == 1, "a stale image is asked for once"


def test_FAI_19_each_offer_has_a_token_of_its_own_and_what_is_sent_again_is_the_same_to_the_byte(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    aws = cloud(clock, offer("aws", 10.0), capacity=0)
    for number, zone in enumerate("bcd"):
        aws.sell(offer("aws", 11.0 + number, zone=zone), 0 if zone != "d" else None)
    bench = make_bench(aws=aws)
    lost = ProviderError(ErrorKind.TRANSIENT, "time-out", ambiguous=True)
    bench.clouds["aws"].fail("launch", lost, times=2, scope=Scope(zone="aws-1d"))
    job_id = bench.submit_job()
    bench.run_until(job_id, JobState.RUNNING, within=900)
    sent = [call.request for call in launches(bench, "aws")]
    assert [request.offer.zone[-1] for request in sent] == list("abcddd")
    assert len({request.token for request in sent}) == 4
    assert sent[3] == sent[4] == sent[5]
    assert sent[3].user_data == sent[5].user_data
    assert len(bench.alive()) == 1


def test_FAI_20_a_container_image_that_cannot_be_pulled_fails_the_job_with_the_registrys_words(
    bench: Bench,
) -> None:
    job_id = bench.submit_job(retry={"preempted": 5, "lost": 5, "boot_failed": 5, "failed": 0})
    bench.turn()
    bench.clock.advance(60)
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    bench.hello(node)
    said = "image nosuch/image: pull access denied, repository does not exist"
    bench._report(node, reports.exited, exit_code=None, reason="setup_failed", detail=said)
    bench.pass_time(1800)
    job = bench.job(job_id)
    assert (job.state, job.reason) == (JobState.FAILED, "setup_failed")
    assert "pull access denied" in (job.detail or "")
    assert sum(len(one.created) for one in bench.clouds.values()) == 1
    assert blocks(bench) == [], "capacity was there and nothing says otherwise"
    assert bench.alive() == []


def test_FAI_20_an_agent_that_dies_without_a_word_has_a_reason_and_a_limit_of_its_own(bench: Bench) -> None:
    job_id = bench.submit_job(retry={"lost": 1, "preempted": 50})
    for _ in range(2):
        bench.run_until(job_id, JobState.RUNNING)
        for _ in range(200):
            bench.clock.advance(10)
            bench.turn()
            if bench.attempts(job_id)[-1].reason == "lost":
                break
    bench.run_until(job_id, JobState.FAILED, within=4000)
    assert bench.job(job_id).reason == "lost"
    assert [attempt.reason for attempt in bench.attempts(job_id)] == ["lost", "lost"]


@pytest.mark.parametrize("wait_seconds", [0, 900])
def test_PRI_11_spot_that_costs_more_than_on_demand_is_not_taken_for_cheaper_nor_waited_for(
    make_bench: MakeBench, clock: FakeClock, wait_seconds: int
) -> None:
    one, other = replace(H100, name="one"), replace(H100, name="other")
    sold = [
        offer("aws", 1.10, type_=one),
        offer("aws", 1.00, type_=one, capacity_type=ON_DEMAND),
        offer("aws", 0.95, type_=other, capacity_type=ON_DEMAND),
    ]
    bench = make_bench(aws=cloud(clock, *sold))
    job_id = bench.submit_job(spot={"use": "auto", "wait_seconds": wait_seconds})
    bench.turn()
    attempt = bench.live_attempt(job_id)
    assert (attempt.instance_type, attempt.capacity_type) == ("other", ON_DEMAND)
    bench.clouds["aws"].set_capacity(sold[2].key, 1)
    second = bench.submit_job("second", spot={"use": "auto", "wait_seconds": wait_seconds})
    bench.turn()
    attempt = bench.live_attempt(second)
    assert (attempt.instance_type, attempt.capacity_type) == ("one", ON_DEMAND)


def test_PRO_02_a_machine_whose_reads_are_refused_is_kept_by_id_and_ended(bench: Bench) -> None:
    denied = ProviderError(ErrorKind.AUTH, "not authorized to describe", code="UnauthorizedOperation")
    job_id = bench.submit_job(allow=["memory/aws-1"])
    aws = bench.clouds["aws"]
    aws.fail("describe", denied, times=None)
    aws.fail("list_instances", denied, times=None)
    bench.turn()
    (node,) = bench.nodes(bench.live_attempt(job_id))
    assert node.provider_id == aws.created[0].provider_id, "known before the first look"
    for _ in range(70):
        bench.clock.advance(10)
        bench.turn()
    first = bench.attempts(job_id)[0]
    assert first.reason == "boot_failed"
    assert "never spoke" in (first.detail or "")
    assert aws.created[0].over(bench.clock.now()), "its end was sent though nobody could see it"
    for _ in range(150):
        bench.clock.advance(10)
        bench.turn()
    (told,) = [event for event in bench.events("instance_will_not_end") if event.subject_id == node.id]
    assert node.provider_id in told.message
    aws.script.clear()
    for _ in range(20):
        bench.clock.advance(10)
        bench.turn()
    assert bench.nodes(first)[0].state is InstanceState.TERMINATED


def test_AUT_04_a_wrong_clock_holds_the_account_for_minutes_and_fails_no_job(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0)))
    skewed = ProviderError(
        ErrorKind.CLOCK_SKEW,
        "this machine's clock is +1200 s off",
        code="SignatureDoesNotMatch",
        scope=Scope(provider="memory", account="aws"),
    )
    bench.clouds["aws"].fail("launch", skewed, times=3)
    job_id = bench.submit_job()
    bench.turn()
    assert bench.job(job_id).state is JobState.QUEUED
    (block,) = blocks(bench)
    assert (block.kind, block.message) == ("clock_skew", skewed.message)
    bench.run_until(job_id, JobState.RUNNING, within=900)
    assert len(launches(bench, "aws")) == 4
    assert bench.job(job_id).retries_used == {}
