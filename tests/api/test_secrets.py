"""Secrets go in, are encrypted, and never come out of the API. Case ids: SEC-02, SEC-03."""

from __future__ import annotations

import base64
import io
import json
import logging
from pathlib import Path
from urllib.parse import quote

import pytest
import structlog
from sqlmodel import Session, select

from service.attempts.model import Attempt
from service.events.record import record
from service.jobs.model import Job
from service.keys import KEY_BYTES, SecretKeys, UnusableKeyError, load_keys, make_key_file, parse_keys
from service.projects.model import Role, Secret
from service.projects.redaction import Redactor
from service.projects.secrets import SecretUnreadableError, put_secret, reencrypt, reveal
from service.settings import Settings
from service.states import JobState
from service.structured_logging import Mask, configure
from service.transitions import move_job
from tests.api.service import SPEC, Service, copied, start

CANARY = "c4nary-Ünder/the+door"
PATH = "/v1/projects/default/secrets/HF_TOKEN"
OLD, NEW = (base64.b64encode(bytes([number]) * KEY_BYTES).decode() for number in (1, 2))


def disguises(text: str) -> list[str]:
    """Ways in which a value may appear where it should not."""
    raw = text.encode()
    return [
        text,
        json.dumps(text)[1:-1],
        quote(text, safe=""),
        quote(text),
        *(base64.b64encode(b"x" * lead + raw).decode() for lead in range(3)),
    ]


def telling(form: str) -> str:
    """The middle of a disguise: enough to recognise the value by, and none of what surrounds it."""
    return form[8:-8]


def test_a_secrets_value_is_never_returned(service: Service) -> None:
    first = service.call("PUT", PATH, json={"value": CANARY})
    second = service.call("PUT", PATH, json={"value": CANARY + "2"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert service.get(PATH).json() == {"name": "HF_TOKEN", "updated_at": "2026-03-01T12:00:00Z"}
    listed = service.get("/v1/projects/default/secrets").json()["items"]
    assert [secret["name"] for secret in listed] == ["HF_TOKEN"]
    assert service.call("DELETE", PATH).status_code == 204
    assert service.get(PATH).status_code == 404


def test_SEC_02_a_canary_is_in_no_reply_and_in_no_byte_of_the_database(
    service: Service, tmp_path: Path
) -> None:
    answers = [service.call("PUT", PATH, json={"value": CANARY})]
    job = service.submit(secrets=["HF_TOKEN"])
    answers.append(service.call("PUT", PATH, json={"value": CANARY, "extra": 1}))
    answers.append(service.call("PUT", PATH, json={"value": [CANARY]}))
    answers.append(service.call("PUT", PATH, content=b'{"value": "' + CANARY.encode() + b'"'))
    paths = (
        PATH,
        "/v1/projects/default/secrets",
        "/v1/events",
        f"/v1/jobs/{job['id']}",
        "/metrics",
        "/v1/jobs",
    )
    answers += [service.get(path) for path in paths]
    answers.append(service.post("/v1/jobs:plan", {**SPEC, "secrets": ["HF_TOKEN"]}))
    service.database.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("corral.db*"))
    for form in disguises(CANARY):
        assert telling(form).encode() not in stored
        for answer in answers:
            assert telling(form) not in answer.text, answer.request.url


def test_SEC_02_events_and_details_that_quote_the_jobs_output_are_masked(service: Service) -> None:
    service.call("PUT", PATH, json={"value": CANARY})
    job_id = service.submit()["id"]
    service.attempt(job_id)

    def tell(session: Session) -> None:
        job = session.get_one(Job, job_id)
        said = f"exit 1: login failed for {CANARY}"
        move_job(session, job, JobState.FAILED, said, now=service.now, last_lines=[said])
        record(session, "instance_exit", "instance", "i-1", said, at=service.now, job_id=job_id)
        for attempt in session.exec(select(Attempt)).all():
            attempt.detail = said
            session.add(attempt)

    service.database.write(tell)
    paths = ("", "/events", "/attempts", ":explain")
    answers = [service.get(f"/v1/jobs/{job_id}{path}").text for path in paths]
    answers += [service.get("/v1/events").text, service.get("/v1/jobs").text]
    for answer in answers:
        assert "exit 1: login failed for ***" in answer
        assert CANARY not in answer


def test_only_names_that_a_shell_takes_and_values_that_can_be_kept_out_of_logs(service: Service) -> None:
    for name in ("1X", "A-B", "A" * 65):
        answer = service.call("PUT", f"/v1/projects/default/secrets/{name}", json={"value": CANARY})
        assert answer.status_code == 422
    for value in ("", "abc", "x" * 70_000):
        assert service.call("PUT", PATH, json={"value": value}).json()["errors"][0]["field"] == "value"


def test_secrets_of_another_project_do_not_exist(service: Service) -> None:
    service.call("PUT", PATH, json={"value": CANARY})
    other = service.token(Role.ADMIN, "other")
    for method in ("GET", "PUT", "DELETE"):
        body = {"json": {"value": "abcdef"}} if method == "PUT" else {}
        assert service.call(method, PATH, other, **body).status_code == 404
    assert service.post("/v1/jobs", {**SPEC, "secrets": ["HF_TOKEN"]}, other).status_code == 422


def test_old_keys_still_decrypt_after_a_rotation_and_can_be_dropped_once_all_is_rewritten(
    service: Service,
) -> None:
    project = service.project("default").id
    old, both, new = (parse_keys(texts, "test") for texts in ([OLD], [NEW, OLD], [NEW]))

    def names(keys: SecretKeys) -> dict[str, str]:
        return service.database.read(lambda session: reveal(session, keys, project, ["A", "B", "NONE"]))

    def put(keys: SecretKeys, name: str) -> None:
        service.database.write(
            lambda session: put_secret(
                session, keys, project, name, f"value of {name}", now=service.now, chance=service.ctx.chance
            )
        )

    put(old, "A")
    put(both, "B")
    assert names(both) == {"A": "value of A", "B": "value of B"}
    with pytest.raises(SecretUnreadableError, match=r"secret A: its key .* is no longer given"):
        names(new)
    assert service.database.write(lambda session: reencrypt(session, both)) == 1
    assert names(new) == {"A": "value of A", "B": "value of B"}


def test_a_row_cannot_be_passed_off_as_another_secret(service: Service) -> None:
    service.call("PUT", PATH, json={"value": CANARY})
    keys = service.ctx.secret_keys
    assert keys is not None
    owner = service.project("default").id

    def rename(session) -> None:  # type: ignore[no-untyped-def]
        (row,) = session.exec(select(Secret)).all()
        row.name = "OTHER"
        session.add(row)

    service.database.write(rename)
    with pytest.raises(SecretUnreadableError):
        service.database.read(lambda session: reveal(session, keys, owner, ["OTHER"]))


def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path))
    with pytest.raises(UnusableKeyError, match="corral init"):
        load_keys(settings, {})
    assert make_key_file(settings)
    assert not make_key_file(settings)
    path = tmp_path / "secret.key"
    assert path.stat().st_mode & 0o777 == 0o600
    first = load_keys(settings, {}).first
    path.chmod(0o640)
    with pytest.raises(UnusableKeyError, match=r"others may read it .*chmod 600"):
        load_keys(settings, {})
    assert load_keys(settings, {"CORRAL_SECRET_KEY": f"{NEW},{OLD}"}).first != first


@pytest.mark.parametrize("text", ["", ",", "short", OLD[:-4], "ü" * 44])
def test_a_key_that_is_none_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(UnusableKeyError) as caught:
        parse_keys(text.split(","), "CORRAL_SECRET_KEY")
    assert "CORRAL_SECRET_KEY" in str(caught.value)
    assert not text.strip(",") or text not in str(caught.value)


def test_a_new_key_in_front_leaves_the_claim_codes_good() -> None:
    before, after = parse_keys([OLD], "t"), parse_keys([NEW, OLD], "t")
    assert before.deployment_key("d") == after.deployment_key("d")
    assert before.deployment_key("d") != before.deployment_key("e")


def test_without_a_key_the_service_serves_but_takes_no_secrets(schema: Path, tmp_path: Path) -> None:
    made = start(tmp_path, copied(schema, tmp_path))
    made.ctx.secret_keys = None
    assert made.call("PUT", PATH, json={"value": CANARY}).status_code == 503
    assert made.submit()["state"] == "queued"
    made.database.close()


@pytest.mark.parametrize("form", disguises(CANARY))
def test_SEC_02_redaction_finds_a_value_in_its_disguises(form: str) -> None:
    shown = Redactor([CANARY]).redact(f"see {form} here")
    assert telling(form) not in shown
    assert shown.startswith("see ")


def test_SEC_02_the_log_holds_no_token_no_password_and_no_local_variable() -> None:
    out, root = io.StringIO(), logging.getLogger()
    handlers, level = root.handlers, root.level
    configure("info", [CANARY], out)
    log = structlog.get_logger()
    hidden = f"corral_{'a' * 43}"
    try:
        value_in_the_frame = "-".join(("in", "a", "frame"))
        raise RuntimeError(f"could not use {CANARY}")
    except RuntimeError:
        log.exception(
            "failed", header=f"Bearer {hidden}", url="postgresql://me:pa55@db/x", parts=[{"a": CANARY}]
        )
    finally:
        configure("info", stream=io.StringIO())
        root.handlers, root.level = handlers, level
    line = json.loads(out.getvalue())
    for secret in (CANARY, hidden, "pa55", value_in_the_frame):
        assert secret not in out.getvalue()
    assert line["url"] == "postgresql://me:***@db/x"
    assert line["level"] == "error"
    assert "RuntimeError" in line["exception"]


def test_SEC_03_masking_reaches_into_lists_and_mappings() -> None:
    mask = Mask([CANARY])
    masked = mask.masked({"a": [f"x{CANARY}", {"b": CANARY}], "n": 3})
    assert masked == {"a": ["x***", {"b": "***"}], "n": 3}


KEY_IN_LINES = "-----BEGIN KEY-----\nc4naryAAAAAAAAAAAAAA\nc4naryBBBBBBBBBBBBBB\n-----END KEY-----\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("c4nary-with-newline\n", "key=c4nary-with-newline done"),
        (KEY_IN_LINES, "10:00 c4naryAAAAAAAAAAAAAA\n10:00 c4naryBBBBBBBBBBBBBB"),
        ('c4nary"Ü"x', json.dumps({"a": 'c4nary"Ü"x'}, ensure_ascii=False)),
        ("it's-c4nary", "+ curl 'it'\"'\"'s-c4nary'"),
        ("c4nary\\n'x", repr("c4nary\\n'x")),
        ("c4nary/a+b", "url?k=c4nary%2fa%2bb"),
    ],
    ids=["last newline", "lines", "json", "shell", "python", "lower case url"],
)
def test_a_value_is_masked_as_other_programs_write_it(value: str, shown: str) -> None:
    redactor = Redactor([value])
    assert "c4nary" not in redactor.redact(shown)
    assert b"c4nary" not in redactor.mask(shown.encode())
