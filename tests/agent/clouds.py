"""The three clouds' metadata services on loopback, as far as the agent needs them, with faults on demand."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

EC2_ID = "i-0123456789abcdef0"
VM_NAME = "corral-5f0c-0"


class Metadata:
    """What the metadata service knows of one instance.

    faults: statuses to answer the next requests with; 0 for no answer at all. token_good: how many requests
    an EC2 token is good for.
    """

    def __init__(self) -> None:
        self.interruption: dict[str, str] | None = None
        self.rebalance: dict[str, str] | None = None
        self.preempted = False
        self.events: list[dict[str, Any]] = []
        self.faults: deque[int] = deque()
        self.token_good: int | None = None
        self.tokens = 0
        self.requests: list[str] = []
        self.etags = True
        self._used = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # agents are killed mid-call
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/i/key"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def interrupt(self, at: datetime) -> None:
        """EC2: a spot interruption notice."""
        self.interruption = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def schedule(
        self, kind: str, at: datetime | None, *, status: str = "Scheduled", name: str = VM_NAME
    ) -> None:
        """Azure: an event."""
        before = at.strftime("%a, %d %b %Y %H:%M:%S GMT") if at else ""
        self.events.append(
            {
                "EventId": f"event-{len(self.events)}",
                "EventType": kind,
                "EventStatus": status,
                "ResourceType": "VirtualMachine",
                "Resources": [name],
                "NotBefore": before,
            }
        )

    def answer(self, method: str, target: str, headers: Any) -> tuple[int, str, dict[str, str]]:
        parts = urlsplit(target)
        path = parts.path.removeprefix("/i/key")
        self.requests.append(f"{method} {path}")
        if self.faults:
            return self.faults.popleft(), "fault", {}
        if path.startswith("/latest/"):
            return self._ec2(method, path, headers)
        if path.startswith("/computeMetadata/"):
            return self._gce(path, parse_qs(parts.query), headers)
        return self._azure(path, headers)

    def _ec2(self, method: str, path: str, headers: Any) -> tuple[int, str, dict[str, str]]:
        if path == "/latest/api/token":
            if method != "PUT" or not headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
                return 400, "", {}
            self.tokens += 1
            self._used = 0
            return 200, f"token-{self.tokens}", {}
        self._used += 1
        worn = self.token_good is not None and self._used > self.token_good
        if worn or headers.get("X-aws-ec2-metadata-token") != f"token-{self.tokens}":
            return 401, "", {}
        if path == "/latest/meta-data/instance-id":
            return 200, EC2_ID, {}
        value = {
            "/latest/meta-data/spot/instance-action": self.interruption,
            "/latest/meta-data/events/recommendations/rebalance": self.rebalance,
        }.get(path)
        return (200, json.dumps(value), {}) if value else (404, "", {})

    def _gce(self, path: str, query: dict[str, list[str]], headers: Any) -> tuple[int, str, dict[str, str]]:
        if headers.get("Metadata-Flavor") != "Google":
            return 403, "", {}
        name = path.removeprefix("/computeMetadata/v1/instance/")
        if name == "name":
            return 200, VM_NAME, {}
        known = query.get("last_etag", [""])[0]
        until = time.monotonic() + 0.25
        while known == self._etag() and "wait_for_change" in query and time.monotonic() < until:
            time.sleep(0.002)
        return 200, "TRUE" if self.preempted else "FALSE", {"ETag": self._etag()} if self.etags else {}

    def _etag(self) -> str:
        return f"etag{int(self.preempted)}"

    def _azure(self, path: str, headers: Any) -> tuple[int, str, dict[str, str]]:
        if headers.get("Metadata") != "true":
            return 400, "", {}
        if path == "/metadata/instance/compute/name":
            return 200, VM_NAME, {}
        return 200, json.dumps({"DocumentIncarnation": 1 + len(self.events), "Events": self.events}), {}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        metadata = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                status, text, headers = metadata.answer(self.command, self.path, self.headers)
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PUT = handle_any  # noqa: N815 - the name that http.server looks for

            def log_message(self, format: str, *args: object) -> None:
                return

        return Handler
