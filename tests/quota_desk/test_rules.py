"""Rules: a job that waits long enough on a quota has more asked for, within the limits that an admin set."""

from __future__ import annotations

from typing import Any

import pytest

from providers.memory import Answer
from service.quota_desk.ask import Asker, AskError
from service.quota_desk.decisions import approve_request, deny_request
from service.quota_desk.model import Origin, QuotaRequest
from service.states import JobState, QuotaRequestState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, Killed, cloud, offer
from tests.loops.conftest import MakeBench
from tests.quota_desk.desk import HOUR, NODE, configure, file, leap, limited, request, requests, wish

RULE = {"name": "h100", "waits": HOUR, "file": True, "max_gpus": 16}


@pytest.fixture
def desk(make_bench: MakeBench, clock: FakeClock) -> Bench:
    bench = make_bench(aws=limited(clock, "aws", 0))
    configure(bench, rules=[RULE])
    return bench


def test_after_the_set_time_a_request_is_filed_for_what_the_job_needs(desk: Bench) -> None:
    job_id = desk.submit_job()
    leap(desk, 0.9 * HOUR)
    assert requests(desk) == []
    leap(desk, 0.5 * HOUR)
    (row,) = requests(desk)
    assert (row.origin, row.rule, row.job_id, row.requested) == (Origin.RULE, "h100", job_id, NODE)
    assert row.state in (QuotaRequestState.FILED, QuotaRequestState.IN_REVIEW)


def test_by_default_it_is_only_proposed_and_filed_once_someone_approves(desk: Bench) -> None:
    configure(desk, rules=[RULE | {"file": False}])
    desk.submit_job()
    leap(desk, 1.5 * HOUR)
    (row,) = requests(desk)
    assert row.state is QuotaRequestState.PROPOSED
    assert desk.clouds["aws"].reviews.filed == []
    desk.database.write(
        lambda session: approve_request(
            session, session.get_one(QuotaRequest, row.id), "ann", now=desk.clock.now()
        )
    )
    leap(desk, 600)
    assert request(desk, row.id).state in (QuotaRequestState.FILED, QuotaRequestState.IN_REVIEW)


def test_a_proposal_that_nobody_decides_expires(desk: Bench) -> None:
    configure(desk, rules=[RULE | {"file": False}], proposals_last=24 * HOUR)
    desk.submit_job()
    leap(desk, 26.5 * HOUR)
    (row,) = requests(desk)
    assert (row.state, row.reason) == (QuotaRequestState.EXPIRED, "undecided")


def test_nothing_is_asked_for_twice_however_long_it_waits(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0))
    desk.submit_job()
    leap(desk, 6 * HOUR)
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_jobs_that_wait_together_are_asked_for_together_up_to_the_rules_limit(desk: Bench) -> None:
    for number in range(3):
        desk.submit_job(f"job-{number}")
    leap(desk, 1.5 * HOUR)
    (filed,) = desk.clouds["aws"].reviews.filed
    assert filed.increase.limit == 2 * NODE, "three would be 24 GPUs, the rule allows 16"


def test_what_is_beyond_the_rules_limit_is_not_asked_for_and_people_are_told(desk: Bench) -> None:
    configure(desk, rules=[RULE | {"max_gpus": 4}])
    desk.submit_job()
    leap(desk, 4 * HOUR)
    assert requests(desk) == []
    (event,) = desk.events("quota_request_withheld")
    assert "96 more in aws-1 would do; rule h100 may not ask for more than 4 GPUs" in event.message


def test_a_job_that_waits_for_stock_asks_for_no_quota(make_bench: MakeBench, clock: FakeClock) -> None:
    bench = make_bench(aws=cloud(clock, offer("aws", 10.0), capacity=0))
    configure(bench, rules=[RULE])
    bench.submit_job()
    leap(bench, 2 * HOUR)
    assert requests(bench) == []


@pytest.mark.parametrize("limit", [{"project": "other"}, {"class": "core"}, {"provider": "gcp"}])
def test_a_rule_speaks_of_its_own_jobs_and_clouds_only(desk: Bench, limit: dict[str, str]) -> None:
    configure(desk, rules=[RULE | limit])
    desk.submit_job()
    leap(desk, 2 * HOUR)
    assert requests(desk) == []


def test_no_more_requests_are_open_than_the_rule_allows(make_bench: MakeBench, clock: FakeClock) -> None:
    names = ("aws", "azure", "gcp")
    clouds = {
        name: limited(clock, name, 0, price) for name, price in zip(names, (1.0, 2.0, 3.0), strict=True)
    }
    bench = make_bench(**clouds)
    configure(bench, rules=[RULE | {"max_open": 2}])
    bench.submit_job()
    leap(bench, 2 * HOUR)
    assert [row.account for row in requests(bench)] == ["aws", "azure"]


class TestBlockedOnAllThree:
    """A job blocked by quota on all clouds: one approved after a while, one half, one denied; it runs."""

    @pytest.fixture
    def blocked(self, make_bench: MakeBench, clock: FakeClock) -> Bench:
        clouds = {name: limited(clock, name, 0, price) for name, price in (("aws", 3.0), ("gcp", 1.0))}
        bench = make_bench(**clouds, azure=limited(clock, "azure", 0, 2.0))
        bench.clouds["gcp"].answer_requests(Answer(after=HOUR, share=0.5))
        bench.clouds["azure"].answer_requests(Answer(after=0.5 * HOUR, share=0))
        bench.clouds["aws"].answer_requests(Answer(after=2 * HOUR, effect_after=HOUR))
        configure(bench, rules=[RULE])
        return bench

    def test_it_runs_where_the_limit_came(self, blocked: Bench) -> None:
        job_id = blocked.submit_job()
        leap(blocked, 3.5 * HOUR)
        assert blocked.job(job_id).state is JobState.QUEUED
        assert {row.account: (row.state, row.requested, row.granted) for row in requests(blocked)} == {
            "aws": (QuotaRequestState.APPROVED, NODE, NODE),
            "gcp": (QuotaRequestState.PARTLY_GRANTED, NODE, NODE / 2),
            "azure": (QuotaRequestState.DENIED, NODE, None),
        }
        leap(blocked, 0.5 * HOUR)
        blocked.run_until(job_id, JobState.RUNNING, within=0.5 * HOUR)
        assert blocked.live_attempt(job_id).account == "aws"

    def test_killed_five_times_the_outcome_is_the_same_and_nothing_is_filed_twice(
        self, blocked: Bench
    ) -> None:
        job_id = blocked.submit_job()
        leap(blocked, HOUR)
        for made in blocked.clouds.values():
            made.drop_reply("request_quota")
        for commit in (1, 2, 3, 5, 7):
            _die(blocked, commit)
        leap(blocked, 3.5 * HOUR)
        blocked.run_until(job_id, JobState.RUNNING, within=HOUR)
        assert blocked.live_attempt(job_id).account == "aws"
        assert [len(made.reviews.filed) for made in blocked.clouds.values()] == [1, 1, 1]
        assert len(requests(blocked)) == 3


def _die(bench: Bench, commit: int) -> None:
    bench.die_at_commit(commit)
    try:
        leap(bench, 300)
    except Killed:
        bench.restart()
        return
    raise AssertionError("it was to be killed")


def propose(bench: Bench, gpus: int, **fields: Any) -> QuotaRequest:
    """What someone who may not file asks for."""
    (row,) = file(bench, wish(gpus=gpus, **fields), Asker(Origin.PERSON, files=False, by="eve"))
    return row


def test_after_a_denial_the_other_jobs_that_wait_do_not_ask_again(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0))
    for number in range(4):
        desk.submit_job(f"job-{number}")
    leap(desk, 12 * HOUR)
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_after_a_person_turned_a_proposal_down_the_rule_does_not_propose_it_again(desk: Bench) -> None:
    configure(desk, rules=[RULE | {"file": False}])
    for number in range(4):
        desk.submit_job(f"job-{number}")
    leap(desk, 2 * HOUR)
    (row,) = requests(desk)
    desk.database.write(
        lambda session: deny_request(
            session, session.get_one(QuotaRequest, row.id), "ann", now=desk.clock.now()
        )
    )
    leap(desk, 12 * HOUR)
    assert len(requests(desk)) == 1


def test_jobs_that_wait_on_do_not_raise_what_is_wanted_beyond_the_rules_limit(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=90 * 24 * HOUR))
    for number in range(12):
        desk.submit_job(f"job-{number}")
    leap(desk, 12 * HOUR)
    (row,) = requests(desk)
    assert row.target == 2 * NODE, "16 GPUs"


def test_a_rule_does_not_file_the_proposal_of_someone_who_may_not(desk: Bench) -> None:
    row = propose(desk, 8000)
    desk.submit_job()
    leap(desk, 3 * HOUR)
    assert request(desk, row.id).state is QuotaRequestState.PROPOSED
    assert desk.clouds["aws"].reviews.filed == []


def test_who_may_not_file_cannot_raise_what_a_filed_request_is_to_come_to(desk: Bench) -> None:
    (row,) = file(desk)
    assert propose(desk, 8, up_to=80_000).id == row.id
    assert request(desk, row.id).target == NODE


def test_an_admin_files_what_the_admin_asked_for_and_not_the_larger_proposal(desk: Bench) -> None:
    row = propose(desk, 8000, up_to=80_000)
    (filed,) = file(desk, wish(gpus=8))
    assert (filed.id, filed.requested, filed.target) == (row.id, NODE, NODE)
    assert [one.increase.limit for one in desk.clouds["aws"].reviews.filed] == [NODE]


def test_a_proposal_that_grows_is_told_of_again(desk: Bench) -> None:
    propose(desk, 8)
    propose(desk, 16)
    told = [event.data["requested"] for event in desk.events("quota_request_proposed")]
    assert told == [NODE, 2 * NODE]


def test_a_template_that_fails_for_real_numbers_stops_no_loop(desk: Bench) -> None:
    configure(desk, rules=[RULE], justification="{{ gpus.upper() }}")
    desk.submit_job()
    leap(desk, 2 * HOUR)
    assert requests(desk) == []
    with pytest.raises(AskError, match="justification"):
        file(desk)
