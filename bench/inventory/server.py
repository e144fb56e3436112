"""The lists over HTTP, in a process of its own: full ones on one port, thin ones on another.

    python -m bench.inventory.server

Prints both addresses once it listens, and ends when its input does. GET /counted tells how many answers of
how many bytes were given since it was asked last.
"""

from __future__ import annotations

import gzip
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from bench.inventory.arm import Azure
from bench.inventory.ec2 import Ec2
from bench.inventory.gce import Gce


class Server(ThreadingHTTPServer):
    """One port. `counted`: answers and their bytes before compression."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *, thin: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ec2, self.gce, self.azure = Ec2(thin=thin), Gce(thin=thin), Azure(thin=thin)
        self.counted = [0, 0]
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Tells the clouds apart by how they are asked."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_POST(self) -> None:
        """EC2 and its neighbours; the signature says which and where."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        _, _, region, service, _ = self.headers["Authorization"].partition("Credential=")[2].split("/", 4)
        kind = "application/x-amz-json-1.1" if service == "pricing" else "text/xml"
        self._send(self.server.ec2.answer(service, region, self.headers.get("X-Amz-Target", ""), body), kind)

    def do_GET(self) -> None:
        """Compute Engine, Cloud Billing and Azure."""
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query))
        if url.path == "/counted":
            self._tell()
        elif url.path.startswith(("/compute/", "/v1/")):
            self._send(self.server.gce.answer(url.path, query), "application/json")
        else:
            self._send(self.server.azure.answer(self.server.address, url.path, query), "application/json")

    def log_message(self, *_arguments: Any) -> None:
        """Nothing."""

    def _tell(self) -> None:
        with self.server.lock:
            answers, size = self.server.counted
            self.server.counted = [0, 0]
        self._write(json.dumps({"answers": answers, "bytes": size}).encode(), "application/json", {})

    def _send(self, content: bytes, kind: str) -> None:
        with self.server.lock:
            self.server.counted[0] += 1
            self.server.counted[1] += len(content)
        if "gzip" in self.headers.get("Accept-Encoding", ""):
            self._write(gzip.compress(content, 1), kind, {"Content-Encoding": "gzip"})
        else:
            self._write(content, kind, {})

    def _write(self, content: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    """Serve until the input ends."""
    servers = [Server(thin=False), Server(thin=True)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(*[server.address for server in servers], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
