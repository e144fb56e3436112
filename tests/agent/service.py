"""A small service that speaks the agent protocol over real HTTP, does as told, and keeps what it hears."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PATIENCE = 20.0  # real seconds until a test gives up waiting

Respond = Callable[[], tuple[int, dict[str, Any]]]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Poll until a condition holds; its value. Fails the test when time is up."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if value := condition():
            return value
        time.sleep(0.003)
    raise AssertionError(f"{what}: not within {seconds} s")


@dataclass
class Heard:
    """All that the agent has said, in order."""

    hellos: list[dict[str, Any]] = field(default_factory=list)
    heartbeats: list[dict[str, Any]] = field(default_factory=list)
    notices: list[dict[str, Any]] = field(default_factory=list)
    started: list[dict[str, Any]] = field(default_factory=list)
    checkpoints: list[dict[str, Any]] = field(default_factory=list)
    exits: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def states(self) -> list[str]:
        """The states of the heartbeats, each once per visit."""
        seen: list[str] = []
        for beat in self.heartbeats:
            if not seen or seen[-1] != beat["state"]:
                seen.append(beat["state"])
        return seen


class Service:
    """`start_when`: says `start` once this holds. `directive`: said instead of all else while it is set.
    `down`: connections are cut without an answer. `overrides`: path -> status and body, or a function that
    gives them. `drop_log_replies`: each nth log batch is taken, and its acknowledgement lost.
    """

    def __init__(self, assignment: dict[str, Any] | None = None) -> None:
        self.assignment = make_assignment(**(assignment or {}))
        self.heard = Heard()
        self.epoch = 1
        self.rank = 0
        self.num_nodes = 1
        self.heartbeat_seconds = 10.0
        self.max_age_seconds = 7 * 86400.0
        self.node_ips = ["127.0.0.1"]
        self.start_when: Callable[[], bool] = lambda: True
        self.directive: dict[str, Any] | None = None
        self.down = threading.Event()
        self.overrides: dict[str, tuple[int, Any] | Respond] = {}
        self.drop_log_replies = 0
        self.log = bytearray()
        self.log_batches = 0
        self.blobs: dict[str, bytes] = {}
        self.update: dict[str, Any] | None = None
        self.session = ""
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # agents are killed mid-call
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def blob(self, data: bytes) -> dict[str, str]:
        """Keep bytes for the agent to fetch."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"sha256": digest, "url": f"/agent/v1/blobs/{digest}"}

    def log_text(self) -> str:
        with self._lock:
            return self.log.decode(errors="replace")

    def wait_exit(self) -> dict[str, Any]:
        """The exit, once it has come."""
        found: dict[str, Any] = wait_for(lambda: self.heard.exits, "an exit")[0]
        return found

    def wait_state(self, state: str) -> None:
        wait_for(lambda: state in self.heard.states, f"state {state}; saw {self.heard.states}")

    # -- the protocol -----------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        path = parts.path.removeprefix("/agent/v1/")
        with self._lock:
            self.heard.calls.append(f"{method} {path}")
            if path != "hello" and headers.get("Corral-Protocol") != "1":
                return 426, problem(426, "no protocol version")
            override = self.overrides.get(path)
            if override is not None:
                return override() if callable(override) else override
            if path == "hello":
                return self._hello(json.loads(body))
            if headers.get("Authorization") != f"Bearer {self.session}":
                return 401, problem(401, "unknown session")
            if path == "logs":
                return self._logs(parse_qs(parts.query), body)
            if path.startswith("blobs/"):
                data = self.blobs.get(path.removeprefix("blobs/"))
                return (200, data) if data is not None else (404, problem(404, "no such blob"))
            if path == "update":
                return (200, self.update) if self.update else (204, None)
            if path == "assignment":
                return 200, {**self.assignment, "epoch": self.epoch, "rank": self.rank}
            return self._said(path, json.loads(body))

    def _hello(self, said: dict[str, Any]) -> tuple[int, Any]:
        self.heard.hellos.append(said)
        self.session = f"session-{len(self.heard.hellos)}"
        return 200, {
            "session": self.session,
            "epoch": self.epoch,
            "rank": self.rank,
            "num_nodes": self.num_nodes,
            "heartbeat_seconds": self.heartbeat_seconds,
            "max_age_seconds": self.max_age_seconds,
        }

    def _said(self, path: str, said: dict[str, Any]) -> tuple[int, Any]:
        if said["epoch"] != self.epoch:
            return 409, problem(409, "another attempt writes now", "stale_epoch")
        if path == "heartbeat":
            self.heard.heartbeats.append(said)
            return 200, self._reply(said["state"])
        if path == "notice":
            self.heard.notices.append(said)
            return 200, self._reply("")
        if path == "exit":
            self.heard.exits.append(said)
            return 200, {"directive": "end"}
        {"started": self.heard.started, "checkpoint": self.heard.checkpoints}[path].append(said)
        return 200, {}

    def _reply(self, state: str) -> dict[str, Any]:
        reply: dict[str, Any] = {"directive": "continue"}
        if self.directive is not None:
            reply = dict(self.directive)
        elif state == "ready":
            reply = {"directive": "wait"}
            if self.start_when():
                reply = {"directive": "start", "node_ips": self.node_ips, "master_port": 29500}
        return {
            "epoch": self.epoch,
            "heartbeat_seconds": self.heartbeat_seconds,
            "node_ips": None,
            "master_port": None,
            "grace_seconds": None,
            "reason": None,
            **reply,
        }

    def _logs(self, query: dict[str, list[str]], data: bytes) -> tuple[int, Any]:
        assert len(data) <= 256 * 1024
        if int(query["epoch"][0]) != self.epoch:
            return 409, problem(409, "another attempt writes now", "stale_epoch")
        if int(query["offset"][0]) != len(self.log):
            return 409, {**problem(409, "not the next one", "wrong_offset"), "next_offset": len(self.log)}
        if len(self.log) + len(data) > self.assignment["log_limit_bytes"]:
            return 413, problem(413, "the log is full", "log_limit")
        self.log += data
        self.log_batches += 1
        if self.drop_log_replies and self.log_batches % self.drop_log_replies == 0:
            return 0, None
        return 200, {"next_offset": len(self.log)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if service.down.is_set():
                    self.close_connection = True
                    return
                status, value = service.answer(self.command, self.path, self.headers, body)
                if status == 0:  # the effect took place; the answer is lost
                    self.close_connection = True
                    return
                data = (
                    b""
                    if value is None
                    else value
                    if isinstance(value, bytes)
                    else json.dumps(value).encode()
                )
                self.send_response(status)
                if isinstance(value, dict) and "retry_after" in value:
                    self.send_header("Retry-After", str(value["retry_after"]))
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = handle_any  # noqa: N815 - the name that http.server looks for

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler


def problem(status: int, detail: str, code: str = "problem") -> dict[str, Any]:
    return {"type": f"urn:corral:problem:{code}", "title": code, "status": status, "detail": detail}


def make_assignment(**given: Any) -> dict[str, Any]:
    """A job that does nothing much, unless told otherwise."""
    return {
        "job_id": "job-1",
        "job_name": "train",
        "attempt_id": "attempt-1",
        "num_nodes": 1,
        "gpus_per_node": 0,
        "setup": None,
        "run": "true",
        "container": None,
        "env": {},
        "secrets": {},
        "files": [],
        "workdir": None,
        "git": None,
        "registry_auth": None,
        "checkpoint": None,
        "max_duration_seconds": None,
        "log_limit_bytes": 64 << 20,
        **given,
    }
