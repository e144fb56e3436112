"""A server that answers AWS requests with what a test wrote down, and keeps every request it got."""

from __future__ import annotations

import json
import socket
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

EC2 = 'xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"'


@dataclass(frozen=True)
class Answer:
    """status 0: the connection is closed without an answer."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


LOST = Answer(0)


def error(code: str, message: str = "", status: int = 400, headers: dict[str, str] | None = None) -> Answer:
    """The body that EC2 refuses with."""
    body = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message></Error></Errors>"
        "<RequestID>59dbff89-35bd-4eac-99ed-be587EXAMPLE</RequestID></Response>"
    )
    return Answer(status, body, headers or {})


def ok(action: str, inner: str = "") -> Answer:
    """The body that EC2 answers an action with."""
    return Answer(200, f"<{action}Response {EC2}><requestId>r</requestId>{inner}</{action}Response>")


def json_ok(value: Any) -> Answer:
    """An answer of the services that speak JSON (SSM, Pricing)."""
    return Answer(200, json.dumps(value), {"Content-Type": "application/x-amz-json-1.1"})


def json_error(code: str, message: str = "", status: int = 400) -> Answer:
    return Answer(status, json.dumps({"__type": code, "message": message}))


class StubServer:
    """`script(action, *answers)`: given in that order; the last one is given again when they run out."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self._answers: dict[str, deque[Answer]] = defaultdict(deque)
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one segment: two would wait for the client's delayed ACK

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                stub.answer(self, body)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests read `requests` instead."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> StubServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def script(self, action: str, *answers: Answer) -> None:
        with self._lock:
            self._answers[action] = deque(answers)

    def reset(self) -> None:
        with self._lock:
            self._answers.clear()
            self.requests.clear()

    def sent(self, action: str) -> list[dict[str, str]]:
        """The parameters of every request for an action, as they stood on the wire."""
        return [parameters for name, parameters in self.requests if name == action]

    def answer(self, handler: BaseHTTPRequestHandler, body: str) -> None:
        action, parameters = _read(handler, body)
        with self._lock:
            self.requests.append((action, parameters))
            waiting = self._answers.get(action)
            if waiting:
                given = waiting.popleft() if len(waiting) > 1 else waiting[0]
            else:
                given = error("UnscriptedAction", f"the test did not script {action}", 400)
        if given.status == 0:
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        payload = given.body.encode()
        handler.send_response_only(given.status)
        for name, value in {"Content-Length": str(len(payload)), **given.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(payload)


def _read(handler: BaseHTTPRequestHandler, body: str) -> tuple[str, dict[str, str]]:
    target = handler.headers.get("X-Amz-Target", "")
    if target:
        return target.rpartition(".")[2], {"body": body}
    form = {name: values[0] for name, values in parse_qs(body, keep_blank_values=True).items()}
    form["_authorization"] = handler.headers.get("Authorization", "")
    return form.get("Action", ""), form
