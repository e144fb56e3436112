"""Programs by webhook, people by mail; where webhooks may not go."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.notifications.channels.addresses import ForbiddenAddressError, is_public, pinned
from service.notifications.channels.pinned_http import post
from service.states import MessageState
from tests.notifications.conftest import Desk, mail, program_channel
from tests.notifications.receivers import MailBox, Program


def test_a_program_gets_the_events_signed_with_ids_and_time(desk: Desk, receiver: Program) -> None:
    desk.configure(program_channel())
    desk.happen("job_failed", message="rank 0 ended with exit code 1", attempt="a-1")
    (body,) = receiver.got
    (event,) = body["events"]
    assert receiver.badly_signed == 0
    assert receiver.ids == [body["id"]] == [desk.messages()[0].id]
    assert (event["kind"], event["subject"]) == ("job_failed", "job/j-1")
    assert event["data"]["attempt"] == "a-1"
    assert body["deployment"] == "test-deployment"


def test_a_second_try_has_the_same_id(desk: Desk, receiver: Program) -> None:
    desk.configure(program_channel())
    receiver.answers = [(500, {}), (502, {})]
    desk.happen("job_failed")
    desk.pass_time(30)
    assert receiver.ids == [desk.messages(MessageState.SENT)[0].id]


def test_a_redirect_is_not_followed(desk: Desk, receiver: Program) -> None:
    desk.configure(program_channel(), tries=1)
    receiver.answers = [(307, {"Location": receiver.url})]
    desk.happen("job_failed")
    assert receiver.got == []
    assert desk.messages(MessageState.DEAD)[0].error == "HTTP 307: redirects are not followed"


def test_a_message_that_is_wrong_for_its_receiver_is_given_up_at_once(desk: Desk, receiver: Program) -> None:
    desk.configure(program_channel())
    receiver.answers = [(422, {})]
    desk.happen("job_failed")
    assert desk.messages(MessageState.DEAD)[0].tries == 1


def test_a_storm_reaches_a_program_with_every_event(desk: Desk, receiver: Program) -> None:
    desk.configure(program_channel())
    desk.happen_at_once([("job_failed", f"job/j-{n}") for n in range(600)])
    desk.pass_time(300)
    assert sorted(receiver.events()) == [event.id for event in desk.bench.events("job_failed")]
    assert len(receiver.got) <= 4


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "168.63.129.16",
        "0.0.0.0",  # noqa: S104
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_no_private_address_is_called(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(ForbiddenAddressError):
        pinned("hook.example.com", 443, (), lambda host, port: [address])


def test_a_name_of_which_one_address_is_private_is_refused() -> None:
    def look_up(host: str, port: int) -> Sequence[str]:
        return ["93.184.216.34", "169.254.169.254"]

    with pytest.raises(ForbiddenAddressError, match="allow_hosts"):
        pinned("hook.example.com", 443, (), look_up)
    assert pinned("hook.example.com", 443, {"hook.example.com"}, look_up) == "93.184.216.34"


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "localhost"])
def test_another_spelling_of_loopback_does_not_help(host: str) -> None:
    with pytest.raises(ForbiddenAddressError):
        post(f"https://{host}/", b"", {})


@pytest.mark.parametrize(
    "url",
    [
        "http://hook.example.com/",
        "https://user:pass@hook.example.com/",
        "file:///etc/passwd",
        "https:///nothing",
        "https://[half",
    ],
)
def test_only_https_without_a_user_is_called(url: str) -> None:
    with pytest.raises(ForbiddenAddressError):
        post(url, b"", {}, look_up=lambda host, port: ["93.184.216.34"])


def test_a_name_is_resolved_once_and_the_connection_goes_there(receiver: Program) -> None:
    asked: list[str] = []

    def look_up(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    port = receiver.url.split(":")[2].split("/")[0]
    headers = {"webhook-id": "m", "webhook-timestamp": "1", "webhook-signature": "v1,x"}
    answer = post(
        f"http://hook.example.com:{port}/hook", b"{}", headers, allowed={"hook.example.com"}, look_up=look_up
    )
    assert (answer.status, asked) == (200, ["hook.example.com"])


def test_mail_says_the_same_and_refers_to_the_first_about_its_subject(desk: Desk, mailbox: MailBox) -> None:
    desk.configure(mail(mailbox))
    desk.happen("job_waiting_long", message="waits for 31 min: no offer")
    desk.happen("job_failed", message="rank 0\r\nBcc: all@example.com failed")
    desk.pass_time(5)
    first, second = mailbox.mails
    assert "waits for 31 min: no offer" in first.get_content()
    assert first["Message-ID"] == second["References"]
    assert second["Bcc"] is None
    assert first["Message-ID"].startswith(f"<{desk.messages()[0].id}@")


def test_mail_that_no_recipient_may_have_is_given_up(desk: Desk, mailbox: MailBox) -> None:
    desk.configure(mail(mailbox))
    mailbox.refuse = "550 no such user"
    desk.happen("job_failed")
    assert desk.messages(MessageState.DEAD)[0].error == "SMTP 550: no recipient was accepted"


def test_a_mail_server_that_asks_to_come_again_is_asked_again(desk: Desk, mailbox: MailBox) -> None:
    desk.configure(mail(mailbox))
    mailbox.refuse = "450 greylisted"
    desk.happen("job_failed")
    mailbox.refuse = ""
    desk.pass_time(30)
    assert len(mailbox.mails) == 1
