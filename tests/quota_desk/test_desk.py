"""A request's way: filed once, followed, decided, in effect; and what the limit alone tells."""

from __future__ import annotations

from datetime import timedelta

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.memory import Answer, Limit
from providers.quotas import QuotaUnit
from providers.vocabulary import Scope
from service.quota_desk.ask import AskError, ask
from service.quota_desk.model import Origin
from service.states import JobState, QuotaRequestState
from tests.clocks import FakeClock
from tests.loops.bench import Bench, Killed, cloud, offer
from tests.loops.conftest import MakeBench
from tests.quota_desk.desk import (
    DAY,
    HOUR,
    NODE,
    PERSON,
    configure,
    file,
    leap,
    limited,
    request,
    requests,
    wish,
)


@pytest.fixture
def desk(make_bench: MakeBench, clock: FakeClock) -> Bench:
    """One cloud without a quota."""
    return make_bench(aws=limited(clock, "aws", 0))


def test_a_request_is_filed_with_the_limit_that_the_gpus_need_and_why(desk: Bench) -> None:
    (row,) = file(desk, wish(gpus=16))
    (filed,) = desk.clouds["aws"].reviews.filed
    assert (filed.increase.key, filed.increase.limit) == ("H100-spot", 2 * NODE)
    assert "16 H100" in filed.increase.justification
    assert (row.state, row.requested, row.gpus, row.limit_before) == ("filed", 2 * NODE, 16, 0)
    assert row.provider_id == filed.provider_id


def test_an_approved_request_shows_when_it_was_decided_and_when_it_took_effect(
    desk: Bench, clock: FakeClock
) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=HOUR, effect_after=2 * HOUR))
    (row,) = file(desk)
    began = clock.now()
    leap(desk, 2 * HOUR)
    row = request(desk, row.id)
    assert (row.state, row.granted, row.effective_at) == (QuotaRequestState.APPROVED, NODE, None)
    assert row.decided_at is not None
    assert (row.decided_at - began).total_seconds() == HOUR
    leap(desk, 2 * HOUR)
    row = request(desk, row.id)
    assert row.effective_at is not None
    assert 3 * HOUR <= (row.effective_at - began).total_seconds() <= 3.5 * HOUR
    kinds = [event.kind for event in desk.events() if event.subject == "quota_request"]
    assert kinds == [
        "quota_request_draft",
        "quota_request_filed",
        "quota_request_in_review",
        "quota_request_approved",
        "quota_request_effective",
    ]


def test_a_waiting_job_runs_the_moment_the_limit_is_seen_to_move(desk: Bench) -> None:
    job_id = desk.submit_job()
    desk.clouds["aws"].answer_requests(Answer(after=HOUR))
    file(desk)
    desk.pass_time(0.9 * HOUR)
    assert desk.job(job_id).state is JobState.QUEUED
    desk.run_until(job_id, JobState.RUNNING, within=HOUR)


def test_of_the_jobs_that_wait_the_one_of_highest_priority_gets_the_new_room(desk: Bench) -> None:
    low = desk.submit_job("low")
    high = desk.submit_job("high", priority=10)
    desk.clouds["aws"].answer_requests(Answer(after=HOUR))
    file(desk)
    desk.run_until(high, JobState.RUNNING, within=2 * HOUR)
    desk.pass_time(HOUR)
    assert desk.job(low).state is JobState.QUEUED


def test_a_refusal_for_quota_is_forgotten_when_its_limit_rises(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    """The block of a refusal lasts up to six hours; the limit that caused it has risen by then."""
    refusing = limited(clock, "aws", NODE)
    bench = make_bench(aws=refusing)
    scope = Scope("memory", "aws", "aws-1", family="H100")
    refusing.fail(
        "launch",
        ProviderError(ErrorKind.QUOTA, "no more", scope=scope, avoid_for=timedelta(hours=6)),
        times=1,
    )
    job_id = bench.submit_job()
    bench.turn()
    assert bench.job(job_id).state is JobState.QUEUED
    refusing.market.set_quota("aws-1", "H100", wish().capacity_type, 2 * NODE)
    bench.run_until(job_id, JobState.RUNNING, within=700 + 60)


def test_a_partial_grant_stays_visible_once_it_is_in_effect(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=HOUR, share=0.5))
    (row,) = file(desk, wish(gpus=16))
    leap(desk, 2 * HOUR)
    row = request(desk, row.id)
    assert (row.state, row.requested, row.granted) == (QuotaRequestState.PARTLY_GRANTED, 2 * NODE, NODE)
    assert row.effective_at is not None


def test_a_denial_says_what_the_vendor_said(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0, detail="no usage history"))
    (row,) = file(desk)
    leap(desk, HOUR)
    row = request(desk, row.id)
    assert row.state is QuotaRequestState.DENIED
    assert "no usage history" in row.detail
    assert row.effective_at is None


@pytest.mark.parametrize(
    ("share", "state", "granted"),
    [
        (1.0, QuotaRequestState.APPROVED, 2 * NODE),
        (0.5, QuotaRequestState.PARTLY_GRANTED, NODE),
        (0.0, QuotaRequestState.DENIED, None),
    ],
)
def test_where_the_vendor_closes_a_request_without_a_word_the_limit_tells(
    desk: Bench, share: float, state: QuotaRequestState, granted: float | None
) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=HOUR, share=share, silent=True))
    (row,) = file(desk, wish(gpus=16))
    leap(desk, 2 * HOUR)
    if share == 0:
        assert request(desk, row.id).state is QuotaRequestState.IN_REVIEW, "it may still take effect"
        leap(desk, DAY)
    row = request(desk, row.id)
    assert (row.state, row.granted) == (state, granted)
    assert (row.effective_at is not None) == (share > 0)


def test_asking_again_adopts_the_open_request(desk: Bench) -> None:
    (first,) = file(desk)
    (second,) = file(desk, wish(gpus=16))
    assert second.id == first.id
    assert second.target == 2 * NODE
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_a_request_filed_by_hand_is_found_followed_and_adopted(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=2 * HOUR))
    desk.clouds["aws"].file_by_hand("H100-spot", "aws-1", 2 * NODE)
    leap(desk, 0.5 * HOUR)
    (row,) = requests(desk)
    assert (row.origin, row.state, row.requested, row.gpu, row.gpus) == (
        Origin.CONSOLE,
        QuotaRequestState.IN_REVIEW,
        2 * NODE,
        "H100",
        16,
    )
    (asked,) = file(desk)
    assert asked.id == row.id
    leap(desk, 2 * HOUR)
    row = request(desk, row.id)
    assert (row.state, row.effective_at is not None) == (QuotaRequestState.APPROVED, True)
    assert len(requests(desk)) == 1


def test_one_filed_by_hand_in_the_same_moment_is_adopted_at_filing(desk: Bench) -> None:
    desk.clouds["aws"].file_by_hand("H100-spot", "aws-1", 3 * NODE)
    (row,) = file(desk)
    assert (row.origin, row.requested) == (Origin.PERSON, 3 * NODE)
    leap(desk, 0.5 * HOUR)
    assert len(requests(desk)) == len(desk.clouds["aws"].reviews.filed) == 1


def test_what_was_decided_before_we_came_is_history_and_no_news(
    make_bench: MakeBench, clock: FakeClock
) -> None:
    made = limited(clock, "aws", 0)
    made.answer_requests(Answer(after=HOUR))
    made.file_by_hand("H100-spot", "aws-1", NODE)
    clock.advance(2 * HOUR)
    bench = make_bench(aws=made)
    leap(bench, HOUR)
    (row,) = requests(bench)
    assert (row.state, row.found_decided) == (QuotaRequestState.APPROVED, True)
    assert [event for event in bench.events() if event.subject == "quota_request"] == []


def test_a_lost_answer_is_looked_for_and_nothing_is_filed_twice(desk: Bench) -> None:
    desk.clouds["aws"].drop_reply("request_quota")
    (row,) = file(desk)
    assert row.state is QuotaRequestState.DRAFT
    desk.pass_time(120)
    assert request(desk, row.id).state in (QuotaRequestState.FILED, QuotaRequestState.IN_REVIEW)
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_a_lost_answer_to_what_was_denied_at_once_is_found_too(desk: Bench) -> None:
    """GCP's automated denials arrive within seconds: there is no open request to adopt any more."""
    desk.clouds["aws"].answer_requests(Answer(after=2, share=0))
    desk.clouds["aws"].drop_reply("request_quota")
    (row,) = file(desk)
    leap(desk, 120)
    assert request(desk, row.id).state is QuotaRequestState.DENIED
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_with_holes_in_the_list_nothing_is_sent_again(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=2, share=0))
    desk.clouds["aws"].drop_reply("request_quota")
    desk.clouds["aws"].hide("aws-1", call="quota_requests", times=3)
    (row,) = file(desk)
    leap(desk, HOUR)
    assert request(desk, row.id).state is QuotaRequestState.DENIED
    assert len(desk.clouds["aws"].reviews.filed) == 1


@pytest.mark.parametrize("commit", range(1, 9))
def test_killed_after_any_commit_the_request_is_filed_once_and_followed(desk: Bench, commit: int) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=HOUR))
    desk.database.write(lambda session: ask(session, desk.ctx, wish(), PERSON))
    desk.ctx.wake("quota_desk")
    desk.die_at_commit(commit)
    try:
        desk.pass_time(300)
    except Killed:
        desk.restart()
    leap(desk, 2 * HOUR)
    (row,) = requests(desk)
    assert (row.state, row.effective_at is not None) == (QuotaRequestState.APPROVED, True)
    assert len(desk.clouds["aws"].reviews.filed) == 1


def test_too_many_open_requests_is_tried_again_later(desk: Bench) -> None:
    full = ProviderError(ErrorKind.QUOTA, "2 requests are open in this region", code="QuotaExceededException")
    desk.clouds["aws"].fail("request_quota", full)
    (row,) = file(desk)
    assert (row.state, row.error is not None) == (QuotaRequestState.DRAFT, True)
    leap(desk, 1.1 * HOUR)
    assert request(desk, row.id).state in (QuotaRequestState.FILED, QuotaRequestState.IN_REVIEW)


def test_what_the_cloud_does_not_take_is_withdrawn_with_its_words(desk: Bench) -> None:
    desk.clouds["aws"].fail("request_quota", ProviderError(ErrorKind.UNSUPPORTED, "not adjustable"))
    (row,) = file(desk)
    assert (row.state, row.reason) == (QuotaRequestState.WITHDRAWN, "not_taken")
    assert "not adjustable" in row.detail


def test_every_gate_is_asked_for(make_bench: MakeBench, clock: FakeClock) -> None:
    made = cloud(clock, offer("gcp", 10.0))
    card = (Scope(family="H100"),)
    made.market.set_limit(Limit("NVIDIA_H100_GPUS", "H100s", "gcp-1", QuotaUnit.GPU, 8, card))
    made.market.set_limit(Limit("GPUS_ALL_REGIONS", "GPUs (all regions)", None, QuotaUnit.GPU, 0, (Scope(),)))
    bench = make_bench(gcp=made)
    file(bench, wish("gcp", 16))
    filed = {(one.increase.key, one.increase.region): one.increase.limit for one in made.reviews.filed}
    assert filed == {("NVIDIA_H100_GPUS", "gcp-1"): 16, ("GPUS_ALL_REGIONS", None): 16}
    assert len({row.ask_id for row in requests(bench)}) == 1


@pytest.mark.parametrize(
    ("limit", "adjustable", "said"),
    [(NODE, True, "there is room already"), (0, False, "does not raise this limit")],
)
def test_what_cannot_help_is_refused_before_anything_is_filed(
    make_bench: MakeBench, clock: FakeClock, limit: int, adjustable: bool, said: str
) -> None:
    made = cloud(clock, offer("aws", 10.0))
    made.market.set_limit(Limit("q", "q", "aws-1", QuotaUnit.VCPU, limit, (Scope(),), adjustable))
    bench = make_bench(aws=made)
    with pytest.raises(AskError, match=said):
        file(bench)
    assert made.reviews.filed == []
    assert requests(bench) == []


def test_a_draft_whose_limit_has_grown_meanwhile_is_not_sent(desk: Bench) -> None:
    desk.clouds["aws"].fail("request_quota", ProviderError(ErrorKind.AUTH, "no"), times=None)
    (row,) = file(desk)
    desk.clouds["aws"].market.set_quota("aws-1", "H100", wish().capacity_type, NODE)
    leap(desk, 0.5 * HOUR)
    assert request(desk, row.id).state is QuotaRequestState.DRAFT, "it was sent: only the cloud can tell"


def test_after_a_partial_grant_more_is_asked_for_by_the_rule(desk: Bench) -> None:
    configure(desk, refile={"after": DAY, "factor": 2})
    desk.clouds["aws"].answer_requests(Answer(after=HOUR, share=0.5))
    (first,) = file(desk, wish(gpus=16, up_to=64))
    leap(desk, 0.9 * DAY)
    assert len(requests(desk)) == 1
    desk.clouds["aws"].answer_requests(Answer(after=HOUR))
    leap(desk, 0.3 * DAY)
    _, second = requests(desk)
    assert (second.origin, second.follows, second.step) == (Origin.REFILE, first.id, 1)
    assert (second.limit_before, second.requested, second.target) == (NODE, 2 * NODE, 8 * NODE)
    leap(desk, 2.5 * DAY)
    steps = [(row.requested, row.state) for row in requests(desk)]
    assert [step[0] for step in steps] == [2 * NODE, 2 * NODE, 4 * NODE, 8 * NODE]


def test_after_denials_the_rule_asks_again_and_gives_up_after_its_tries(desk: Bench) -> None:
    configure(desk, refile={"after": DAY, "tries": 2})
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0))
    file(desk)
    leap(desk, 5 * DAY)
    assert [row.step for row in requests(desk)] == [0, 1, 2]
    assert {row.requested for row in requests(desk)} == {NODE}


def test_without_a_rule_nothing_is_asked_for_again(desk: Bench) -> None:
    desk.clouds["aws"].answer_requests(Answer(after=60, share=0))
    file(desk)
    leap(desk, 5 * DAY)
    assert len(requests(desk)) == 1


def test_a_draft_that_cannot_be_filed_becomes_the_request_that_somebody_files_by_hand(desk: Bench) -> None:
    desk.clouds["aws"].fail("request_quota", ProviderError(ErrorKind.AUTH, "may not file"), times=None)
    (row,) = file(desk)
    assert (row.state, row.error) == (QuotaRequestState.DRAFT, "may not file")
    desk.clouds["aws"].file_by_hand("H100-spot", "aws-1", 4 * NODE)
    leap(desk, 1200)
    (row,) = requests(desk)
    assert (row.state, row.requested, row.error) == (QuotaRequestState.IN_REVIEW, 4 * NODE, None)
    assert row.origin is Origin.PERSON
