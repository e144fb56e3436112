"""`corral check` beside the clouds: is `public_url` reachable, and is its certificate good?"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from service.cli.accounts import summary
from service.cli.reachability import check_public_url
from service.settings import Settings
from tests.certificates import self_signed

NOW = datetime.now(UTC)


@contextmanager
def answering(status: int, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Something that answers everything with a status; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign] # who does not trust it hangs up
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        scheme = "https" if certificate else "http"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def settings(url: str | None, ca: Path | None = None) -> Settings:
    return Settings(public_url=url, public_ca=str(ca) if ca else None)


def test_without_an_address_there_is_nothing_to_say() -> None:
    assert check_public_url(settings(None), NOW) == []


def test_an_address_that_answers_is_fine() -> None:
    with answering(200) as url:
        (line,) = check_public_url(settings(url), NOW)
    assert (line["account"], line["subject"], line["ok"], line["remedy"]) == (
        "service",
        "public_url",
        True,
        "",
    )


def test_an_address_where_nobody_answers_is_wrong_and_says_what_to_do() -> None:
    with answering(200) as url:
        pass
    (line,) = check_public_url(settings(url), NOW)
    assert not line["ok"]
    assert "no answer from here" in line["detail"]
    assert "corral serve" in line["remedy"]


def test_something_else_at_the_address_is_wrong() -> None:
    with answering(404) as url:
        (line,) = check_public_url(settings(url), NOW)
    assert not line["ok"]
    assert "404" in line["detail"]


def test_a_certificate_of_the_private_authority_is_fine_and_its_end_is_told(tmp_path: Path) -> None:
    pair = self_signed(tmp_path)
    with answering(200, pair) as url:
        (line,) = check_public_url(settings(url, pair[0]), NOW - timedelta(days=30))
    assert line["ok"], line
    assert f"good until {NOW + timedelta(days=1):%Y-%m-%d}" in line["detail"]


def test_a_certificate_that_ends_within_a_week_is_wrong(tmp_path: Path) -> None:
    pair = self_signed(tmp_path)
    with answering(200, pair) as url:
        (line,) = check_public_url(settings(url, pair[0]), NOW)
    assert not line["ok"]
    assert "renew" in line["remedy"]


def test_a_certificate_that_agents_would_not_trust_is_wrong(tmp_path: Path) -> None:
    pair = self_signed(tmp_path)
    with answering(200, pair) as url:
        (line,) = check_public_url(settings(url), NOW)
    assert not line["ok"]
    assert "certificate is not good" in line["detail"]
    assert "public_ca" in line["remedy"]


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_private_authority_that_cannot_be_read_is_wrong(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    (line,) = check_public_url(settings("https://127.0.0.1:1", file), NOW)
    assert not line["ok"]
    assert line["detail"].startswith("public_ca: ")


def test_each_account_is_summed_up_in_a_line() -> None:
    lines = [
        {"account": "aws/main", "ok": True},
        {"account": "aws/main", "ok": False},
        {"account": "service", "ok": True},
    ]
    assert summary(lines) == ["aws/main: 1 of 2 fine", "service: 1 of 1 fine"]
