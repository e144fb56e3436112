"""uvicorn, driven by us: on a socket that is open already, without its own signal handlers and logs."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.health import metrics_response
from service.api.problems import not_found
from service.api.state import Api
from service.settings import Settings

DRAIN_SECONDS = 3
"""How long open requests have, after SIGTERM, to be answered."""
IDLE_TICK = 1.0


class Server(uvicorn.Server):
    """Serves an application on one socket until `stop`."""

    def __init__(self, app: ASGIApp, settings: Settings, listening: socket.socket) -> None:
        listen = settings.listen
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=bool(settings.trusted_proxies),
                forwarded_allow_ips=list(settings.trusted_proxies),
                timeout_graceful_shutdown=DRAIN_SECONDS,
                ssl_certfile=_file(settings, listen.tls_cert),
                ssl_keyfile=_file(settings, listen.tls_key),
            )
        )
        try:
            self.config.load()  # now, since the certificate may be unusable
        except OSError as error:
            problem = f"listen.tls_cert, listen.tls_key: {error.strerror or error}"
            raise OSError(error.errno or errno.EINVAL, problem, _file(settings, listen.tls_cert)) from error
        self.ready = asyncio.Event()
        self._listening = listening
        self._stop = asyncio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve([self._listening])

    def stop(self) -> None:
        """Accept nothing more, finish what is open, return from `serve`."""
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        """As uvicorn's, but asleep for a second at a time: an idle service should be idle."""
        self.ready.set()
        while not await self.on_tick(0):
            try:
                await asyncio.wait_for(self._stop.wait(), IDLE_TICK)
            except TimeoutError:
                continue

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's business, not a listener's."""
        yield


def listen_on(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. OSError names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from None
    return listening


def _file(settings: Settings, name: str | None) -> str | None:
    return None if name is None else str(Path(settings.data_dir) / name)


def metrics_server(api: Api, settings: Settings) -> Server:
    """A listener for /metrics alone, without a token: `listen.metrics_port`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        asked: Any = scope["path"]
        answer = await metrics_response(api) if asked == "/metrics" else not_found("route").response()
        await answer(scope, receive, send)

    return Server(app, settings, listen_on(settings.listen.host, settings.listen.metrics_port or 0))
