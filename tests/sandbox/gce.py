"""Compute Engine's face served on loopback, with the world behind it at hand."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from clock import Clock
from sandbox.faces.gce import app
from sandbox.scenario import Scenario, SetFault
from sandbox.vm import Vm
from sandbox.wire import CuttableProtocol
from sandbox.world import World
from tests.clocks import FakeClock
from tests.sandbox.discovery import Discovery

PROJECT = "sandbox-project"
IMAGE = f"projects/{PROJECT}/global/images/family/corral"


class NoMachines:
    """Instances without guests."""

    def __init__(self) -> None:
        self.off: list[Vm] = []

    def start(self, vm: Vm) -> None: ...

    def shutdown(self, vm: Vm) -> None: ...

    def kill(self, vm: Vm) -> None: ...

    def discard(self, vm: Vm) -> None: ...

    def console(self, vm: Vm) -> str:
        return ""

    def powered_off(self) -> Iterable[Vm]:
        off, self.off = self.off, []
        return off


class LocalGce:
    """A world with a clock that is moved by hand, and the URL under which its Compute Engine answers."""

    def __init__(self, scenario: Mapping[str, Any], clock: Clock, machines: NoMachines) -> None:
        self.machines = machines
        self.world = World(Scenario.parse(dict(scenario)), clock, machines)
        self.clock = clock
        self.discovery = Discovery(app(self.world))
        self.url = ""

    def advance(self, seconds: float) -> None:
        """Let time pass in small steps, each with what is due in it."""
        assert isinstance(self.clock, FakeClock)
        steps = max(1, min(240, round(seconds)))
        for _ in range(steps):
            self.clock.advance(seconds / steps)
            self.world.tick()

    def fault(self, call: str, action: str, **facts: Any) -> None:
        """Have a call go wrong, as an event of a scenario would."""
        event = {"do": "fault", "at": 0, "provider": "gcp", "call": call, "action": action, **facts}
        self.world.add_fault(SetFault.model_validate(event).rule())

    def vms(self) -> list[Vm]:
        """Live instances."""
        return self.world.vms("gcp", lambda vm: vm.live)

    def calls(self) -> dict[str, int]:
        """How often each method was called."""
        calls: dict[str, int] = self.world.ledger()["calls"].get("gcp", {})
        return calls


@contextlib.contextmanager
def local_gce(scenario: Mapping[str, Any] | None = None, *, clock: Clock | None = None) -> Iterator[LocalGce]:
    """Serve while the block runs, and see that calls and answers are those of the discovery documents."""
    gce = LocalGce(scenario or {}, clock or FakeClock(waits_advance=True), NoMachines())
    server = _server()
    server.face, gce.url = gce.discovery, server.url
    yield gce
    if gce.discovery.violations:
        raise AssertionError("\n".join(gce.discovery.violations))


class _Server:
    """One server for all tests of this process, each with a face of its own: starting one takes 0.3 s."""

    def __init__(self) -> None:
        self.face: ASGIApp | None = None
        # With the protocol named asyncio turns Nagle off; else an answer waits 40 ms for its acknowledgement.
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=CuttableProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve(sockets=[self._socket])), daemon=True
        )
        self._thread.start()
        waited = threading.Event()
        for _ in range(1000):
            if self._server.started:
                return
            waited.wait(0.005)
        raise RuntimeError("the server did not start")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.face is not None
        await self.face(scope, receive, send)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(5)
        self._socket.close()


@cache
def _server() -> _Server:
    server = _Server()
    atexit.register(server.stop)
    return server
