"""Checkpoints over each vendor's wire protocol, on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from agent.checkpoints.objects import MissingError, Objects
from agent.checkpoints.store import CheckpointStore

NEVER = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    """PUT, GET with ranges, HEAD: what the three vendors have in common."""

    protocol_version = "HTTP/1.1"
    held: dict[str, bytes]

    def do_PUT(self) -> None:
        key = self.path.partition("?")[0]
        self.held[key] = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._send(201, b"")

    def do_GET(self) -> None:
        data = self.held.get(self.path.partition("?")[0])
        if data is None:
            self._send(404, b"")
            return
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, data)
            return
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self._send(206, part, **{"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"})

    do_HEAD = do_GET  # noqa: N815

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        self.send_response(status)
        always = {"ETag": '"e"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        for name, value in {**always, **headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def vendor() -> Iterator[tuple[str, dict[str, bytes]]]:
    held: dict[str, bytes] = {}
    handler = type("Handler", (_Handler,), {"held": held})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", held
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_objects_go_to_each_vendors_store_with_the_options_that_the_service_gives(
    vendor: tuple[str, dict[str, bytes]], scheme: str
) -> None:
    endpoint, held = vendor
    options = {
        "s3": {
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key_id": "a",
            "secret_access_key": "b",
        },
        "gs": {"base_url": endpoint, "bearer_token": "t"},
        "az": {"endpoint": endpoint, "account_name": "acct", "account_key": "a2V5"},
    }[scheme]
    objects = Objects(f"{scheme}://bucket/team", options, retries=0)
    objects.put("job/step 1/file", b"content")
    objects.put_stream("job/step 1/stream", iter([b"in ", b"pieces"]), 9)
    assert objects.get("job/step 1/file") == b"content"
    assert b"".join(objects.stream("job/step 1/stream")) == b"in pieces"
    assert len(held) == 2
    assert all(name.startswith("/bucket/team") for name in held)
    with pytest.raises(MissingError):
        list(objects.stream("job/none"))


def test_checkpoint_makes_its_round_trip_through_s3(tmp_path: Path) -> None:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        httpx.put(f"{endpoint}/bucket").raise_for_status()
        options = {
            "endpoint": endpoint,
            "region": "us-east-1",
            "access_key_id": "a",
            "secret_access_key": "b",
        }
        for epoch in (1, 2, 3):
            place = tmp_path / f"job-{epoch}" / "latest"
            place.mkdir(parents=True)
            (place / "model #1.bin").write_bytes(bytes([epoch]) * (9 << 20))
            store = CheckpointStore(
                Objects("s3://bucket/team", options), "job", rank=0, num_nodes=1, epoch=epoch
            )
            name, sequence = store.reserve("latest")
            store.upload(place, name, sequence, NEVER)
            store.prune()
        reader = CheckpointStore(Objects("s3://bucket/team", options), "job", rank=0, num_nodes=1, epoch=4)
        assert [item.name for item in reader.catalogue()] == ["latest@3", "latest@2"]
        (tmp_path / "back").mkdir()
        found = reader.restore(tmp_path / "back", lambda text: None, NEVER)
        assert found is not None
        assert (found[1] / "model #1.bin").read_bytes() == bytes([3]) * (9 << 20)
    finally:
        server.stop()
