"""Receivers on loopback: a program that is told by webhook, and a mail server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "canary-signing-key-0b7d"


@dataclass
class Program:
    """What came by webhook and was signed well. `answers`: statuses and headers to give first."""

    url: str = ""
    got: list[dict[str, Any]] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    badly_signed: int = 0
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)

    def events(self) -> list[int]:
        return [event["id"] for one in self.got for event in one["events"]]


@contextmanager
def program() -> Iterator[Program]:
    """A program that listens until the block ends."""
    kept = Program()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            return

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = kept.answers.pop(0) if kept.answers else (200, {})
            if not _is_signed(self.headers, body):
                kept.badly_signed += 1
            elif status == 200:
                kept.got.append(json.loads(body))
                kept.ids.append(self.headers["webhook-id"])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    with _serving(server):
        yield kept


def _is_signed(headers: Any, body: bytes) -> bool:
    """As the Standard Webhooks specification has receivers do it."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], f"v1,{digest}")


@dataclass
class MailBox:
    """What came by SMTP. `refuse`: the answer to each recipient instead of 250."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refuse: str = ""


@contextmanager
def mail_server() -> Iterator[MailBox]:
    """An SMTP server without TLS until the block ends."""
    box = MailBox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 test\r\n")
            for line in self.rfile:
                word = line.strip().upper()[:4].decode()
                if word == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    box.mails.append(self._mail())
                    self.wfile.write(b"250 kept\r\n")
                elif word == "RCPT" and box.refuse:
                    self.wfile.write(f"{box.refuse}\r\n".encode())
                elif word == "QUIT":
                    self.wfile.write(b"221 bye\r\n")
                    return
                else:
                    self.wfile.write(b"250 ok\r\n")

        def _mail(self) -> EmailMessage:
            lines = []
            for line in self.rfile:
                if line == b".\r\n":
                    break
                lines.append(line)
            found = message_from_bytes(b"".join(lines), policy=policy.default)
            assert isinstance(found, EmailMessage)
            return found

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    box.port = server.server_address[1]
    with _serving(server):
        yield box


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def event_ids(texts: list[str]) -> list[int]:
    """The ids that the last lines of messages name, in order."""
    found: list[int] = []
    for text in texts:
        for part in re.findall(r"event ([0-9, -]+)$", text, re.MULTILINE):
            for span in part.split(","):
                first, _, last = span.strip().partition("-")
                found += range(int(first), int(last or first) + 1)
    return found
