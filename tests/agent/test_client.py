"""Calls to the service: what each answer means."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agent.client import (
    OverError,
    OverKind,
    RefusedError,
    ServiceClient,
    UnavailableError,
    UpgradeRequiredError,
)
from tests.agent.service import Service, problem
from tests.certificates import self_signed
from tests.clocks import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(service: Service, clock: FakeClock) -> Iterator[ServiceClient]:
    client = ServiceClient(service.url, clock)
    client.session = service.session = "session"
    yield client
    client.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, OverKind.REVOKED), (409, OverKind.STALE_EPOCH), (410, OverKind.GONE)],
)
def test_attempt_that_is_over_is_told_apart_by_its_status(
    client: ServiceClient, service: Service, status: int, kind: OverKind
) -> None:
    service.overrides["heartbeat"] = status, problem(status, "why")
    with pytest.raises(OverError, match="why") as caught:
        client.post("/agent/v1/heartbeat", {})
    assert caught.value.kind is kind


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 599])
def test_failure_of_the_service_is_worth_another_try_and_no_contact(
    client: ServiceClient, service: Service, clock: FakeClock, status: int
) -> None:
    before = client.last_contact
    clock.advance(10)
    service.overrides["heartbeat"] = status, {**problem(status, "busy"), "retry_after": 7}
    with pytest.raises(UnavailableError) as caught:
        client.post("/agent/v1/heartbeat", {})
    assert caught.value.retry_after == 7.0
    assert client.last_contact == before


def test_retry_after_may_be_a_date(client: ServiceClient, service: Service, clock: FakeClock) -> None:
    at = clock.now().replace(minute=5).strftime("%a, %d %b %Y %H:%M:%S GMT")
    service.overrides["heartbeat"] = 503, {**problem(503, "busy"), "retry_after": at}
    with pytest.raises(UnavailableError) as caught:
        client.post("/agent/v1/heartbeat", {})
    assert caught.value.retry_after == 300.0


def test_service_that_is_not_there_is_worth_another_try(service: Service, clock: FakeClock) -> None:
    client = ServiceClient("http://127.0.0.1:9", clock)
    with pytest.raises(UnavailableError, match="ConnectError"):
        client.get("/agent/v1/assignment")
    client.close()


def test_answer_that_never_comes_is_worth_another_try(client: ServiceClient, service: Service) -> None:
    service.down.set()
    with pytest.raises(UnavailableError):
        client.get("/agent/v1/assignment")


def test_other_refusals_are_final_and_count_as_contact(
    client: ServiceClient, service: Service, clock: FakeClock
) -> None:
    clock.advance(10)
    service.overrides["heartbeat"] = 422, problem(422, "state: unknown")
    with pytest.raises(RefusedError, match="422: state: unknown"):
        client.post("/agent/v1/heartbeat", {})
    assert client.last_contact == clock.monotonic()


def test_wrong_log_offset_is_no_verdict_on_the_attempt(client: ServiceClient, service: Service) -> None:
    with pytest.raises(RefusedError) as caught:
        client.post_bytes("/agent/v1/logs", b"x", epoch=1, offset=5)
    assert caught.value.body["next_offset"] == 0


def test_protocol_that_is_too_old_is_named(client: ServiceClient, service: Service) -> None:
    service.overrides["heartbeat"] = 426, problem(426, "protocol 1 is not spoken here")
    with pytest.raises(UpgradeRequiredError, match="protocol 1"):
        client.post("/agent/v1/heartbeat", {})


def test_session_never_leaves_for_another_host(client: ServiceClient, service: Service) -> None:
    with pytest.raises(RefusedError, match="not a path"):
        client.download("https://elsewhere.example/agent/v1/blobs/x", lambda chunk: None)
    with pytest.raises(RefusedError, match="not a path"):
        client.download("//elsewhere.example/x", lambda chunk: None)


def test_private_authority_is_trusted_beside_the_systems(tmp_path: Path, clock: FakeClock) -> None:
    certificate, key = self_signed(tmp_path)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client that hangs up is the point
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"https://127.0.0.1:{server.server_address[1]}"
    try:
        stranger = ServiceClient(url, clock)
        with pytest.raises(UnavailableError, match=r"(?i)certificate"):
            stranger.get("/agent/v1/assignment")
        stranger.close()
        trusting = ServiceClient(url, clock, ca=certificate.read_text())
        assert trusting.get("/agent/v1/assignment").status == 204
        trusting.close()
    finally:
        server.shutdown()
        server.server_close()


def test_importing_httpx_for_the_agent_leaves_its_command_line_out_and_hides_nothing_from_others() -> None:
    code = (
        "import sys; from agent.client import _import_httpx; _import_httpx();"
        "assert 'rich' not in sys.modules and 'click' not in sys.modules, 'loaded';"
        "import rich"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return
