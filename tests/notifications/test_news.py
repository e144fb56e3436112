"""Which events of the service are news, and that no secret is in any of them."""

from __future__ import annotations

import re
from base64 import b64encode
from pathlib import Path

import pytest

from providers.errors import ErrorKind, ProviderError
from service.configuration import load
from service.keys import parse_keys
from service.notifications.templates import TemplateTextError, check, fill
from service.notifications.texts import TEXTS
from service.notifications.topics import TOPICS, about
from service.projects.secrets import put_secret
from service.states import JobState
from tests.api.service import KEY
from tests.loops.bench import offer
from tests.notifications.conftest import Desk, bot, hook, mail, program_channel
from tests.notifications.receivers import SECRET, MailBox, Program
from tests.notifications.slack import BOT_TOKEN, HOOK, Answer, Slack


def test_every_topic_has_its_words() -> None:
    assert set(TEXTS) == set(TOPICS)
    assert all(text.title and text.did and text.can and text.command for text in TEXTS.values())


def test_a_preemption_is_told_once_whether_it_drains_or_not() -> None:
    def topic(kind: str, **data: str) -> str | None:
        found = about(kind, "attempt", "a-1", "j-1", data)
        return found.topic if found else None

    assert topic("attempt_draining", reason="preempted") == "job_preempted"
    assert topic("attempt_ended", reason="preempted", **{"from": "draining"}) is None
    assert topic("attempt_ended", reason="preempted", **{"from": "running"}) == "job_preempted"
    assert topic("attempt_ended", reason="failed", **{"from": "running"}) is None


def test_what_is_about_a_quota_request_is_one_subject_whichever_job_caused_it() -> None:
    found = about("quota_request_denied", "quota_request", "qr-1", "j-1", {})
    assert found is not None
    assert found.subject == "quota_request/qr-1"


def test_a_job_that_waits_is_told_of_once_each_time_it_waits(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), waiting_after=600)
    job = desk.bench.submit_job()
    desk.pass_time(500)
    assert slack.messages == []
    desk.pass_time(2000)
    (text,) = slack.texts()
    assert "train still waits" in text
    assert f"corral explain {job}" in text


def test_links_lead_below_the_public_url(desk: Desk, slack: Slack) -> None:
    desk.bench.settings = desk.bench.settings.model_copy(update={"public_url": "https://corral.example.com/"})
    desk.configure(hook(slack), waiting_after=60)
    job = desk.bench.submit_job()
    desk.pass_time(200)
    assert f"<https://corral.example.com/v1/jobs/{job}|open>" in slack.texts()[0]


def test_SEC_02_no_message_holds_a_secret_of_its_project_in_any_disguise(
    desk: Desk, slack: Slack, receiver: Program, mailbox: MailBox
) -> None:
    canary = "hf_canary-value-4711"
    keys = parse_keys([KEY], "test")
    desk.bench.ctx.secret_keys = keys
    desk.bench.database.write(
        lambda session: put_secret(
            session, keys, "p-1", "HF_TOKEN", canary, now=desk.now, chance=desk.bench.ctx.chance
        )
    )
    desk.configure(hook(slack), program_channel(), mail(mailbox))
    job = desk.bench.submit_job()
    encoded = b64encode(canary.encode()).decode()
    desk.happen("job_failed", f"job/{job}", message=f"said {canary} and {encoded}", detail=canary)
    desk.pass_time(30)
    told = f"{slack.messages}{receiver.got}{[one.as_string() for one in mailbox.mails]}"
    assert "job_failed" in told
    assert "***" in told
    assert canary not in told
    assert encoded not in told


def test_SEC_02_no_secret_of_a_channel_is_in_the_database_an_event_or_an_error(
    desk: Desk, slack: Slack, receiver: Program
) -> None:
    desk.configure(hook(slack), bot(slack), program_channel(), tries=1)
    slack.fault = lambda slack, call, said: Answer(None)
    receiver.answers = [(500, {})]
    desk.happen("job_failed")
    desk.pass_time(60)
    with desk.bench.database.engine.connect() as connection:
        dump = "\n".join(connection.connection.driver_connection.iterdump())  # type: ignore[union-attr]
    assert "no answer" in dump
    for secret in (BOT_TOKEN, HOOK, SECRET, receiver.url):
        assert secret not in dump


def test_texts_of_the_settings_stand_instead_of_ours(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), templates={"job_failed": "Ask {{ event.message }} of {{ subject_id }}."})
    desk.happen("job_failed", message="the owner")
    assert "Ask the owner of j-1." in slack.texts()[0]


def test_a_text_that_cannot_be_filled_gives_way_to_ours_and_is_named(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), templates={"job_failed": "{{ event.nothing.here }}"})
    desk.happen("job_failed")
    assert "it is not tried again" in slack.texts()[0]
    assert "template for job_failed cannot be filled" in slack.texts()[0]


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ job.__init__.__globals__ }}",
        "{% set x = job.update({'id': 1}) %}",
        "{% for i in range(10000000) %}x{% endfor %}",
        "{{ 1 / 0 }}",
    ],
)
def test_a_template_reaches_nothing_but_its_values(text: str) -> None:
    assert check(text) is None
    with pytest.raises(TemplateTextError):
        fill(text, {"job": {"id": "j-1"}})


def test_a_value_is_never_a_template() -> None:
    assert fill("{{ name }}", {"name": "{{ 7 * 7 }}"}) == "{{ 7 * 7 }}"


def _fail(desk: Desk, kind: ErrorKind) -> None:
    def listing(region: str) -> None:
        raise ProviderError(kind, "refused", code="AuthFailure")

    desk.bench.ctx.providers["memory", "aws"].offers = listing  # type: ignore[method-assign, assignment]


def test_credentials_that_fail_are_a_page_once_and_told_of_when_they_work_again(
    desk: Desk, slack: Slack
) -> None:
    desk.configure(hook(slack))
    _fail(desk, ErrorKind.AUTH)
    desk.pass_time(3600)
    (failing,) = slack.texts()
    assert "Credentials of memory/aws are refused" in failing
    desk.bench.restart()
    desk.pass_time(1200)
    assert [event.kind for event in desk.bench.events() if event.subject == "account"] == [
        "credentials_failing",
        "credentials_working",
    ]


def test_a_cloud_that_is_down_says_nothing_about_credentials(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack))
    _fail(desk, ErrorKind.TRANSIENT)
    desk.pass_time(3600)
    assert slack.messages == []


def test_stock_that_is_back_after_a_while_is_told(desk: Desk, slack: Slack) -> None:
    desk.configure(hook(slack), routes=[{"to": ["hook"], "events": ["stock_back", "job_started"]}])
    cloud = desk.bench.clouds["aws"]
    cloud.sell(offer("aws", 20.0), 0)
    desk.pass_time(400)
    job = desk.bench.submit_job()
    desk.pass_time(1500)
    assert slack.messages == []
    cloud.sell(offer("aws", 20.0), None)
    desk.bench.run_until(job, JobState.RUNNING, within=7200)
    desk.pass_time(60)
    assert any("Stock is back" in text for text in slack.texts())
    assert any("train runs" in text for text in slack.texts())


def test_every_event_that_can_be_told_is_documented_with_its_severity() -> None:
    text = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text("utf-8")
    documented = {
        name: row[2].strip()
        for row in (line.split("|") for line in text.splitlines() if line.startswith("| `"))
        for name in re.findall(r"`([a-z_0-9]+)`", row[1])
    }
    assert documented == {name: str(severity) for name, severity in TOPICS.items() if name != "channel_test"}


def test_the_example_in_the_docs_can_be_used(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text("utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "corral.yaml").write_text(f"trusted_proxies: [127.0.0.1]\n{example}")
    assert load(tmp_path / "corral.yaml", {}).notifications.channel("pager") is not None
