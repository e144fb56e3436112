"""Slack: its limits, its threads, and what people may write into a name."""

from __future__ import annotations

from typing import Any

import pytest

from service.states import MessageState
from tests.notifications.conftest import Desk, bot, hook
from tests.notifications.slack import Answer, Slack, text_of


def test_a_bot_keeps_one_thread_a_job_whose_first_message_shows_the_latest(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    for kind in ("job_waiting_long", "job_failed"):
        desk.happen(kind, "job/j-1", message=f"this is {kind}")
        desk.happen("job_cancelled", "job/j-2")
        desk.pass_time(5)
    root, other = slack.roots()
    assert "this is job_failed" in text_of(root)
    (reply,) = slack.replies(root["ts"])
    assert "this is job_failed" in text_of(reply)
    assert reply["reply_broadcast"] is True
    assert len(slack.replies(other["ts"])) == 1


def test_a_thread_goes_on_after_a_restart(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    desk.happen("job_waiting_long")
    desk.bench.restart()
    desk.happen("job_failed")
    desk.pass_time(5)
    (root,) = slack.roots()
    assert len(slack.replies(root["ts"])) == 1


def test_a_first_message_that_someone_deleted_stops_nothing(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    desk.happen("job_waiting_long")
    slack.messages[0]["ts"] = "1.0"
    desk.happen("job_failed")
    desk.pass_time(5)
    assert len(desk.messages(MessageState.SENT)) == 2


def test_an_update_that_fails_after_the_answer_was_posted_posts_no_second_answer(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(bot(slack))
    desk.happen("job_waiting_long")
    slack.fault = lambda slack, call, said: Answer(500) if call == "chat.update" else None
    desk.happen("job_failed")
    desk.pass_time(5)
    slack.fault = None
    desk.pass_time(60)
    (root,) = slack.roots()
    assert len(slack.replies(root["ts"])) == 1
    assert len(desk.messages(MessageState.SENT)) == 2


def test_an_answer_that_is_lost_makes_no_second_message_of_a_bot(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    lost = [Answer(None, after=True)]
    slack.fault = lambda slack, call, said: lost.pop() if lost and call == "chat.postMessage" else None
    desk.happen("job_failed")
    desk.pass_time(60)
    assert len(slack.messages) == 1
    assert len(desk.messages(MessageState.SENT)) == 1


def test_a_bot_that_may_not_read_the_channel_still_delivers(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    lost = [Answer(None, after=True)]

    def fault(_: Slack, call: str, said: dict[str, Any]) -> Answer | None:
        if call == "conversations.history":
            return Answer(200, '{"ok": false, "error": "missing_scope"}')
        return lost.pop() if lost and call == "chat.postMessage" else None

    slack.fault = fault
    desk.happen("job_failed")
    desk.pass_time(60)
    assert len(desk.messages(MessageState.SENT)) == 1


def test_a_token_that_is_refused_is_waited_for_and_nothing_is_lost(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    good = desk.bench.environment["BOT_TOKEN"]
    desk.bench.environment["BOT_TOKEN"] = "xoxb-old"
    desk.happen("job_failed")
    assert "invalid_auth" in (desk.messages()[0].error or "")
    desk.bench.environment["BOT_TOKEN"] = good
    desk.pass_time(60)
    assert len(slack.messages) == 1


def test_a_reference_that_leads_nowhere_is_named(desk: Desk, slack: Slack) -> None:
    desk.configure(bot(slack))
    del desk.bench.environment["BOT_TOKEN"]
    desk.happen("job_failed")
    assert desk.messages()[0].error == "token: the variable BOT_TOKEN is not set"


@pytest.mark.parametrize("make", [hook, bot])
def test_NOT_04_text_that_is_too_long_or_would_ping_is_cut_and_escaped(
    desk: Desk, slack: Slack, make: Any
) -> None:
    desk.configure(make(slack))
    evil = "<!channel> <@U123> \x00\x07\u202e & " + "x" * 50_000
    desk.happen("job_failed", message=evil)
    assert slack.refused == []
    (text,) = slack.texts()
    assert "&lt;!channel&gt;" in text
    assert "<!" not in text
    assert "<@" not in text
    assert "\x00" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("make", [hook, bot])
def test_NOT_04_blocks_that_slack_refuses_are_sent_once_more_as_plain_text(
    desk: Desk, slack: Slack, make: Any
) -> None:
    desk.configure(make(slack))

    def no_blocks(_: Slack, call: str, said: dict[str, Any]) -> Answer | None:
        if not said.get("blocks"):
            return None
        if call == "chat.postMessage":
            return Answer(200, '{"ok": false, "error": "invalid_blocks"}')
        return Answer(400, "invalid_blocks")

    slack.fault = no_blocks
    desk.happen("job_failed", message="rank 0 <!here> failed")
    (message,) = slack.messages
    assert not message.get("blocks")
    assert "rank 0 &lt;!here&gt; failed" in message["text"]


def test_a_storm_of_the_longest_texts_is_inside_slacks_limits(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    desk.happen_at_once([("job_failed", f"job/j-{n}") for n in range(400)], message="<&>" * 2000)
    desk.pass_time(300)
    assert slack.refused == []
    assert sum(message.size for message in desk.messages(MessageState.SENT)) == 400


def test_only_slacks_own_hosts_are_called_unless_the_settings_allow_another(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), allow_hosts=[])
    desk.happen("job_failed")
    assert slack.calls == []
    assert "hooks.slack.com" in (desk.messages()[0].error or "")
