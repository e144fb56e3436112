"""From an event to its receiver: nothing lost, nothing twice without a kill, in order, no more than asked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from service.states import MessageState
from tests.loops.bench import Killed
from tests.notifications.conftest import Desk, bot, hook, program_channel
from tests.notifications.receivers import Program, event_ids
from tests.notifications.slack import HOOK, Answer, Slack, rate_limited


def test_an_event_becomes_one_message_that_says_what_happened_and_what_to_do(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    desk.happen("job_failed", message="rank 0 ended with exit code 1")
    (text,) = slack.texts()
    assert "rank 0 ended with exit code 1" in text
    assert "it is not tried again" in text
    assert "Read its log" in text


def test_nothing_is_sent_of_an_event_that_is_rolled_back(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))

    def write(session: Any) -> None:
        from service.events.record import record

        record(session, "job_failed", "job", "j-1", "it failed", at=desk.now, job_id="j-1")
        raise ValueError("the transaction fails")

    with pytest.raises(ValueError):
        desk.bench.database.write(write)
    desk.pass_time(60)
    assert slack.messages == []


def test_what_is_about_one_subject_arrives_in_order_and_once(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack, interval=0))
    kinds = ["job_waiting_long", "job_failed", "job_cancelled"] * 10
    for kind in kinds:
        desk.happen(kind)
    desk.pass_time(300)
    ids = event_ids(slack.texts())
    assert ids == sorted(set(ids))
    assert len(ids) == len(kinds)


def test_a_receiver_that_asks_for_time_is_given_it(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("job_failed")
    tried = len(slack.calls)
    slack.fault = None
    desk.pass_time(29)
    assert len(slack.calls) == tried
    desk.pass_time(2)
    assert len(slack.messages) == 1


def test_waiting_for_a_receiver_uses_up_no_tries(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), tries=2)
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("job_failed")
    desk.pass_time(600)
    slack.fault = None
    desk.pass_time(60)
    assert len(slack.messages) == 1


def test_a_message_that_is_refused_too_often_is_a_dead_letter_and_the_next_is_sent(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack), tries=3)
    slack.fault = lambda slack, call, said: Answer(403, "action_prohibited")
    desk.happen("job_failed")
    desk.pass_time(60)
    (dead,) = desk.messages(MessageState.DEAD)
    assert dead.tries == 3
    assert "403" in (dead.error or "")
    assert [event.subject_id for event in desk.bench.events("message_dead")] == [dead.id]
    slack.fault = None
    desk.happen("job_cancelled")
    desk.pass_time(60)
    assert len(slack.messages) == 1


def test_a_channel_that_fails_does_not_hold_up_another(desk: Desk, slack: Slack, receiver: Program) -> None:
    desk.configure(hook(slack), program_channel())
    slack.fault = lambda slack, call, said: Answer(None)
    desk.happen("job_failed")
    assert len(receiver.got) == 1
    assert slack.messages == []


def test_a_channel_that_the_settings_no_longer_have_leaves_dead_letters(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("job_failed")
    desk.configure()
    (dead,) = desk.messages(MessageState.DEAD)
    assert dead.error == "its channel is no longer in the settings"


def test_a_restart_loses_nothing(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    for _ in range(3):
        desk.happen("job_failed")
        desk.bench.restart()
        desk.bench.turn()
    slack.fault = None
    desk.pass_time(120)
    assert len(set(event_ids(slack.texts()))) == 3


@pytest.mark.parametrize("commit", range(1, 7))
def test_killed_at_any_commit_each_event_arrives_and_twice_only_between_answer_and_commit(
    desk: Desk, slack: Slack, commit: int
) -> None:
    desk.configure(hook(slack))
    desk.bench.die_at_commit(commit)
    posted_at_kill = None
    try:
        desk.happen("job_failed")
    except Killed:
        posted_at_kill = len(slack.messages)
    desk.bench.restart()
    desk.pass_time(900)
    texts = slack.texts()
    sent = desk.messages(MessageState.SENT)
    assert len(sent) == 1
    assert set(event_ids(texts)) == {desk.bench.events("job_failed")[0].id}
    assert len(texts) == 1, f"killed after {posted_at_kill} posts"


def _die_after_post(desk: Desk, slack: Slack) -> None:
    """The process dies when the receiver has answered and we have not committed."""
    write = desk.bench.database.write

    def dies(work: Any) -> Any:
        if slack.messages:
            raise Killed
        return write(work)

    desk.bench.database.write = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        desk.happen("job_failed")
    desk.bench.restart()
    desk.pass_time(900)


def test_killed_between_answer_and_commit_a_webhook_gets_a_second_copy_under_the_same_id(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    _die_after_post(desk, slack)
    first, second = slack.texts()
    assert re.search(r"m-\w+", first)
    assert re.search(r"m-\w+", first)[0] == re.search(r"m-\w+", second)[0]  # type: ignore[index]


def test_killed_between_answer_and_commit_a_bot_finds_its_message_and_edits_it(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(bot(slack))
    _die_after_post(desk, slack)
    assert len(slack.messages) == 1
    assert len(slack.edits) == 1
    assert len(desk.messages(MessageState.SENT)) == 1


def test_an_outcome_that_the_database_does_not_take_is_kept_and_nothing_is_sent_twice(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    write, failing = desk.bench.database.write, [2]

    def fails(work: Any) -> Any:
        if slack.messages and failing[0]:
            failing[0] -= 1
            raise OSError("disk full")
        return write(work)

    desk.bench.database.write = fails  # type: ignore[method-assign]
    desk.happen("job_failed")
    desk.pass_time(900)
    assert failing[0] == 0
    assert len(slack.messages) == 1
    assert len(desk.messages(MessageState.SENT)) == 1


def test_a_clock_that_jumps_while_a_message_is_on_its_way_sends_no_second(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.on_post = lambda: desk.bench.clock.jump(3600)
    desk.happen("job_failed")
    desk.pass_time(60)
    assert len(slack.messages) == 1


def test_NOT_02_a_receiver_that_refuses_for_ten_minutes_is_not_told_of_its_own_refusals(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("credentials_failing", "account/aws/main")
    desk.pass_time(600)
    assert len(slack.calls) <= 25
    slack.fault = None
    desk.pass_time(60)
    assert len(slack.messages) == 1
    assert desk.messages(MessageState.WAITING, MessageState.SENDING, MessageState.DEAD) == []


def test_NOT_02_a_dead_letter_is_no_news_for_any_channel(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), tries=1)
    slack.fault = lambda slack, call, said: Answer(403, "invalid_token")
    desk.happen("job_failed")
    slack.fault = None
    desk.pass_time(120)
    assert desk.bench.events("message_dead")
    assert slack.messages == []


def test_NOT_03_a_storm_becomes_few_messages_with_counts_and_each_event_is_in_one(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    turn = [0]

    def every_tenth_answer_is_lost(_: Slack, call: str, said: dict[str, Any]) -> Answer | None:
        turn[0] += 1
        return Answer(None, after=True) if turn[0] % 10 == 0 else None

    slack.fault = every_tenth_answer_is_lost
    for second in range(60):
        desk.happen_at_once([("job_waiting_long", f"job/j-{second}-{n}") for n in range(7)])
        if second == 30:
            desk.happen("orphan_quarantined", "instance/i-leak")
            assert "An unknown instance that works" in slack.texts()[-1]
        desk.pass_time(1)
    desk.pass_time(300)
    ids = event_ids(slack.texts())
    assert set(ids) >= {event.id for event in desk.bench.events("job_waiting_long")}
    assert len(slack.messages) <= 12
    assert any("× job waiting long" in text and "more" in text for text in slack.texts())


def test_a_page_waits_for_no_back_off_of_ours(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: Answer(500, "rollup_error")
    desk.happen("job_failed")
    desk.pass_time(300)
    slack.fault = None
    desk.happen("orphan_quarantined", "instance/i-1")
    assert "An unknown instance that works" in slack.texts()[0]


def test_the_job_that_is_told_of_does_not_wait_for_its_receiver(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: Answer(400, "invalid_blocks")
    desk.happen("job_failed")
    assert [event.kind for event in desk.bench.events("job_failed")] == ["job_failed"]
    (dead,) = desk.messages(MessageState.DEAD)
    assert slack.calls == [HOOK, HOOK]
    assert dead.error is not None


def test_a_message_of_events_that_are_no_longer_kept_is_given_up(desk: Desk, slack: Slack) -> None:
    from sqlalchemy import delete

    from service.events.model import Event

    desk.configure(hook(slack))
    slack.fault = lambda slack, call, said: rate_limited(30)
    desk.happen("job_failed")
    desk.bench.database.write(lambda session: session.connection().execute(delete(Event)))
    slack.fault = None
    desk.pass_time(60)
    (dead,) = desk.messages(MessageState.DEAD)
    assert dead.error == "its events are no longer kept"
