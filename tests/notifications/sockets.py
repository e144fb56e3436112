"""Slack's Socket Mode on loopback: one WebSocket connection, just enough of RFC 6455."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any

from tests.notifications.slack import Slack

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass
class Socket:
    """The connection's other end."""

    app_token: str = "xapp-canary-1"
    acks: Queue[str] = field(default_factory=Queue)
    connected: threading.Event = field(default_factory=threading.Event)
    connection: socket.socket | None = None

    def send(self, envelope: dict[str, Any]) -> None:
        """Send a frame once someone is connected."""
        assert self.connected.wait(10)
        assert self.connection is not None
        data = json.dumps(envelope).encode()
        self.connection.sendall(b"\x81" + _length(len(data)) + data)

    def acknowledged(self, within: float) -> str | None:
        """The next envelope that was acknowledged."""
        with suppress(Empty):
            return self.acks.get(timeout=within)
        return None


def _length(size: int) -> bytes:
    return bytes([size]) if size < 126 else b"\x7e" + struct.pack("!H", size)


@contextmanager
def socket_server(slack: Slack) -> Iterator[Socket]:
    """A WebSocket server whose address `apps.connections.open` tells."""
    end = Socket()
    listening = socket.create_server(("127.0.0.1", 0))
    slack.socket_url = f"ws://127.0.0.1:{listening.getsockname()[1]}/link"
    slack.app_token = end.app_token
    threading.Thread(target=_serve, args=[listening, end], daemon=True).start()
    try:
        yield end
    finally:
        listening.close()
        if end.connection is not None:
            end.connection.close()


def _serve(listening: socket.socket, end: Socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            end.connection = connection
            _shake(connection)
            end.connected.set()
            with suppress(OSError, ConnectionError):
                _listen(connection, end)


def _shake(connection: socket.socket) -> None:
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += connection.recv(4096)
    key = next(
        line.split(b":", 1)[1].strip()
        for line in asked.split(b"\r\n")
        if line.lower().startswith(b"sec-websocket-key")
    )
    accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())  # noqa: S324 - as the RFC has it
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


def _listen(connection: socket.socket, end: Socket) -> None:
    while True:
        head = _exactly(connection, 2)
        size = head[1] & 0x7F
        if size == 126:
            size = struct.unpack("!H", _exactly(connection, 2))[0]
        mask = _exactly(connection, 4)
        data = bytes(byte ^ mask[index % 4] for index, byte in enumerate(_exactly(connection, size)))
        kind = head[0] & 0x0F
        if kind == 9:
            connection.sendall(b"\x8a" + _length(len(data)) + data)
        elif kind == 1:
            end.acks.put(json.loads(data)["envelope_id"])
        elif kind == 8:
            return


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError
        data += part
    return data
