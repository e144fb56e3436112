"""Following a log: as it comes, from where one was, without holding up anybody. Case ids: API-01, SEC-02."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import httpx2
import pytest

from service.logs.append import deliver
from service.states import AttemptState
from tests.api.listening import listening
from tests.api.service import Service

# One for all: making one reads the machine's certificates, 200 times would be what takes the time.
CLIENT = httpx2.Client(timeout=20, limits=httpx2.Limits(max_connections=300, max_keepalive_connections=0))


@dataclass
class Event:
    """One server-sent event."""

    event: str
    data: str
    id: str


@pytest.fixture
def address(service: Service) -> Iterator[str]:
    with listening(service) as found:
        yield found


@contextmanager
def following(
    service: Service, address: str, job_id: str, query: str = "", last: str | None = None
) -> Iterator[Iterator[Event]]:
    headers = {"Authorization": f"Bearer {service.admin}"} | ({"Last-Event-ID": last} if last else {})
    url = f"{address}/v1/jobs/{job_id}/logs?follow=true{query}"
    with CLIENT.stream("GET", url, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield events(answer)


def events(answer: httpx2.Response) -> Iterator[Event]:
    fields: dict[str, list[str]] = {}
    for line in answer.iter_lines():
        if line:
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif fields:
            if "data" in fields:
                kind, place = fields.get("event", ["message"])[0], fields.get("id", [""])[0]
                yield Event(kind, "\n".join(fields["data"]), place)
            fields = {}


def send(service: Service, attempt_id: str, offset: int, data: bytes) -> int:
    return deliver(service.database, service.ctx.store, attempt_id, 0, offset, data, 1 << 30, service.now)


def test_lines_come_as_they_are_written_until_the_job_is_over(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    attempt_id = service.attempt(job_id)
    send(service, attempt_id, 0, b"one\n")
    with following(service, address, job_id) as stream:
        assert next(stream) == Event("message", "one\n", "1:4")
        send(service, attempt_id, 4, b"two\nthree\n")
        assert next(stream) == Event("message", "two\nthree\n", "1:14")
        service.finish(job_id)
        assert next(stream) == Event("end", "succeeded", "1:14")
        assert next(stream, None) is None


def test_who_comes_back_goes_on_where_they_were(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    attempt_id = service.attempt(job_id)
    send(service, attempt_id, 0, b"one\ntwo\n")
    service.finish(job_id)
    with following(service, address, job_id, last="1:4") as stream:
        assert [event.data for event in stream] == ["two\n", "succeeded"]
    with following(service, address, job_id, "&tail=1") as stream:
        assert [event.data for event in stream] == ["two\n", "succeeded"]
    bad = service.get(f"/v1/jobs/{job_id}/logs?follow=true", headers={"Last-Event-ID": "x"})
    assert (bad.status_code, bad.json()["errors"][0]["field"]) == (422, "Last-Event-ID")


def test_the_log_of_the_replacement_follows_that_of_the_lost_attempt(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    first = service.attempt(job_id, state=AttemptState.ENDED, number=1, hours=1)
    send(service, first, 0, b"step 1\n")
    with following(service, address, job_id) as stream:
        assert next(stream).data == "step 1\n"
        second = service.attempt(job_id, number=2)
        assert next(stream) == Event("attempt", "2", "2:0")
        send(service, second, 0, b"step 2\n")
        assert next(stream) == Event("message", "step 2\n", "2:7")


def test_a_character_that_is_cut_between_two_batches_arrives_whole(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    attempt_id = service.attempt(job_id)
    text = "Zürich 😀\n".encode()
    send(service, attempt_id, 0, text[:2])
    with following(service, address, job_id) as stream:
        shown = next(stream).data
        send(service, attempt_id, 2, text[2:10])
        shown += next(stream).data
        send(service, attempt_id, 10, text[10:] + b"\xff\n")
        shown += next(stream).data
    assert shown == "Zürich 😀\n�\n"


def test_SEC_02_a_secret_that_arrives_in_two_batches_is_never_shown(service: Service, address: str) -> None:
    service.call("PUT", "/v1/projects/default/secrets/PASSWORD", json={"value": "hunter2-abcdef"})
    job_id = service.submit()["id"]
    attempt_id = service.attempt(job_id)
    send(service, attempt_id, 0, b"it is hunter2-")
    with following(service, address, job_id) as stream:
        shown = next(stream).data
        send(service, attempt_id, 14, b"abcdef, no, hunter2-ABC\nhunter2-")
        while "ABC" not in shown:
            shown += next(stream).data
        service.finish(job_id)
        shown += "".join(event.data for event in stream if event.event == "message")
    assert shown == "it is **************, no, hunter2-ABC\nhunter2-"


def test_a_job_that_waits_is_followed_from_its_first_line(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    with following(service, address, job_id) as stream:
        send(service, service.attempt(job_id), 0, b"hello\n")
        assert [next(stream).event, next(stream).data] == ["attempt", "hello\n"]


def test_API_01_with_200_streams_open_everything_else_answers(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    send(service, service.attempt(job_id), 0, b"line\n")
    opened = threading.Barrier(201, timeout=60)
    release = threading.Event()

    def follow() -> str:
        with following(service, address, job_id) as stream:
            data = next(stream).data
            opened.wait()
            release.wait(60)
            return data

    with ThreadPoolExecutor(200) as pool, ExitStack() as held:
        held.callback(release.set)
        streams = [pool.submit(follow) for _ in range(200)]
        opened.wait()
        headers = {"Authorization": f"Bearer {service.admin}"}
        with httpx2.Client(base_url=address, headers=headers) as client:
            for method, path in (
                ("GET", "/v1/jobs"),
                ("GET", f"/v1/jobs/{job_id}"),
                ("GET", "/healthz"),
                ("POST", f"/v1/jobs/{job_id}:cancel"),
            ):
                assert client.request(method, path).status_code == 200
        release.set()
        assert {stream.result() for stream in streams} == {"line\n"}


def test_more_streams_than_allowed_are_429_and_a_closed_one_makes_room(
    service: Service, address: str
) -> None:
    job_id = service.submit()["id"]
    send(service, service.attempt(job_id), 0, b"line\n")
    limits = service.ctx.settings.limits.model_copy(update={"streams_per_token": 1})
    service.ctx.settings = service.ctx.settings.model_copy(update={"limits": limits})
    headers = {"Authorization": f"Bearer {service.admin}"}
    url = f"{address}/v1/jobs/{job_id}/logs?follow=true"
    with following(service, address, job_id) as stream:
        next(stream)
        refused = httpx2.get(url, headers=headers)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    deadline = time.monotonic() + 5
    while service.client.app.state.api.streams and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.01)
    with following(service, address, job_id) as stream:
        assert next(stream).data == "line\n"


def test_streams_end_when_the_service_stops(service: Service) -> None:
    job_id = service.submit()["id"]
    send(service, service.attempt(job_id), 0, b"line\n")
    with ExitStack() as serving:
        address = serving.enter_context(listening(service))
        with following(service, address, job_id) as stream:
            assert next(stream).data == "line\n"
            began = time.monotonic()
            serving.close()
            assert next(stream, None) is None
            assert time.monotonic() - began < 3


def test_a_stream_ends_soon_after_its_token_is_revoked(service: Service, address: str) -> None:
    job_id = service.submit()["id"]
    attempt_id = service.attempt(job_id)
    send(service, attempt_id, 0, b"one\n")
    made = service.post("/v1/tokens", {"name": "leaver", "role": "viewer"}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    url = f"{address}/v1/jobs/{job_id}/logs?follow=true"
    with CLIENT.stream("GET", url, headers=headers) as answer:
        stream = events(answer)
        assert next(stream).data == "one\n"
        assert service.call("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
        assert next(stream, None) is None


def test_an_upload_that_breaks_off_is_no_fault_of_ours(
    service: Service, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    host, _, port = address.removeprefix("http://").partition(":")
    head = (
        f"PUT /v1/blobs/{'0' * 64} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
        f"Authorization: Bearer {service.admin}\r\n\r\nhalf"
    )
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode())
    seen = 'route="/v1/blobs/{sha256}",status="400"'
    deadline = time.monotonic() + 5
    while seen not in (text := service.get("/metrics").text) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen in text
    assert 'status="500"' not in text
    assert "request_failed" not in "".join(capsys.readouterr())
