"""The application on a real port of this machine, for what only a real connection shows."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.http_server import Server
from tests.api.service import Service


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """Serve until the block ends; gives the address."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(512)
    ready, loops = threading.Event(), []
    servers: list[Server] = []

    async def run() -> None:
        server = Server(service.client.app, service.ctx.settings, sock)
        servers.append(server)
        loops.append(asyncio.get_running_loop())
        task = asyncio.create_task(server.serve())
        await server.ready.wait()
        ready.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        loops[0].call_soon_threadsafe(service.client.app.state.api.closing.set)  # type: ignore[attr-defined]
        loops[0].call_soon_threadsafe(servers[0].stop)
        thread.join(10)
