"""The three clouds on loopback: each face, the metadata server and the control API on a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.types import ASGIApp

from clock import Clock
from sandbox import accounts
from sandbox.catalogue import PROVIDERS
from sandbox.machines import ProcessMachines
from sandbox.scenario import Scenario
from sandbox.wire import CuttableProtocol
from sandbox.world import World

HOST = "127.0.0.1"

#: What listens where: name -> module that has `app(world: World) -> ASGI application`. With a base port,
#: ports are given out in this order.
FACES = {
    "aws": "sandbox.faces.ec2",
    "gcp": "sandbox.faces.gce",
    "azure": "sandbox.faces.arm",
    "metadata": "sandbox.metadata",
    "control": "sandbox.control",
}

_TICK_SECONDS = 0.02  # real seconds between two looks at the clock
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0

log = logging.getLogger(__name__)


class Sandbox:
    """Local clouds in this process: `with Sandbox(...) as sandbox: sandbox.endpoints`.

    root: a folder for the instances' disks and consoles; started there again, no id is given twice.
    agent_command: what an instance's unit starts.
    base_port: 0 takes free ports, else five ports from there on. ticking: False leaves time to the caller
    (`sandbox.world.tick()` or POST /control/tick), for clocks that are moved by hand. clouds: only these.
    """

    def __init__(
        self,
        scenario: Scenario,
        root: Path,
        agent_command: Sequence[str],
        clock: Clock,
        *,
        base_port: int = 0,
        ticking: bool = True,
        clouds: Sequence[str] = PROVIDERS,
    ) -> None:
        ports = {name: base_port + index if base_port else 0 for index, name in enumerate(FACES)}
        self._sockets = _listen(
            {name: ports[name] for name in FACES if name in clouds or name not in PROVIDERS}
        )
        self.endpoints = {name: _url(sock) for name, sock in self._sockets.items()}
        self.machines = ProcessMachines(root, agent_command, self.endpoints["metadata"], clock)
        self.world = World(scenario, clock, self.machines, run=_run(root))
        self.world.endpoints.update(self.endpoints)
        self._root = root.resolve()
        self._ticking = ticking
        self._http = threading.Thread(target=self._serve, name="sandbox-http", daemon=True)
        self._time = threading.Thread(target=self._tick, name="sandbox-time", daemon=True)
        self._servers: list[uvicorn.Server] = []

    def accounts(self) -> list[dict[str, Any]]:
        """The `accounts:` section that points the adapters here."""
        return accounts.accounts(self.endpoints, self._root)

    def start(self) -> Self:
        """Serve; returns once every port answers."""
        self._servers = [
            _server(importlib.import_module(FACES[name]).app(self.world)) for name in self._sockets
        ]
        self._http.start()
        if self._ticking:
            self._time.start()
        waited = threading.Event()
        for _ in range(int(_START_SECONDS / 0.01)):
            if all(server.started for server in self._servers):
                return self
            waited.wait(0.01)
        self.stop()
        raise RuntimeError(f"the local clouds did not start within {_START_SECONDS:g} s")

    def stop(self) -> None:
        """End every instance's processes, let go of who waits, close the ports. Safe to repeat."""
        self.world.closing.set()
        if self._time.ident is not None:
            self._time.join(_STOP_SECONDS)
        self.machines.close()
        for server in self._servers:
            server.should_exit = True
        if self._http.ident is not None:
            self._http.join(_STOP_SECONDS)
        for sock in self._sockets.values():
            sock.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _serve(self) -> None:
        async def serve_all() -> None:
            pairs = zip(self._servers, self._sockets.values(), strict=True)
            await asyncio.gather(*(server.serve(sockets=[sock]) for server, sock in pairs))

        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(serve_all())

    def _tick(self) -> None:
        while not self.world.closing.wait(_TICK_SECONDS):
            try:
                self.world.tick()
            except Exception:
                log.exception("the local clouds' time stumbled")


def _listen(ports: Mapping[str, int]) -> dict[str, socket.socket]:
    """A socket for each name, all or none."""
    bound: dict[str, socket.socket] = {}
    for name, port in ports.items():
        # asyncio turns Nagle off only where the protocol is named; without, each answer takes 40 ms longer.
        bound[name] = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound[name].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound[name].bind((HOST, port))
        except OSError as error:
            for sock in bound.values():
                sock.close()
            raise OSError(f"port {port} on {HOST}: {error.strerror}") from error
    return bound


def _run(root: Path) -> int:
    """How often a sandbox was started in this folder before; counts this one."""
    path = root / "runs"
    run = int(path.read_text()) if path.exists() else 0
    root.mkdir(parents=True, exist_ok=True)
    path.write_text(str(run + 1))
    return run


def _url(sock: socket.socket) -> str:
    return f"http://{HOST}:{sock.getsockname()[1]}"


def _server(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app,
        http=CuttableProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
