"""The face of Resource Manager over real HTTP, on a world whose time a test moves by hand."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.faces.arm import app
from sandbox.scenario import Scenario, SetFault
from sandbox.vm import Vm
from sandbox.wire import CuttableProtocol
from sandbox.world import World
from tests.clocks import FakeClock

SUBSCRIPTION = "00000000-0000-4000-8000-000000000001"
GROUP = "sandbox"


class NoGuests:
    """Machines whose guests do nothing; `off` are those that shut themselves down."""

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


@dataclass
class Azure:
    """A local Azure: where it listens, its world, and what a test does to it."""

    url: str
    world: World
    clock: FakeClock
    guests: NoGuests

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.world.tick()

    def vm(self, name: str) -> Vm:
        """The machine of that name, over or not."""
        return self.world.vms("azure", lambda vm: vm.name == name)[-1]

    def live(self) -> dict[str, int]:
        """How many objects of each kind exist."""
        return {kind: row["live"] for kind, row in self.world.ledger()["objects"].items()}

    def calls(self) -> dict[str, int]:
        """How often each operation was called."""
        calls: dict[str, int] = self.world.ledger()["calls"].get("azure", {})
        return calls

    def fault(self, call: str, action: str, **more: object) -> None:
        """Have the next matching call go wrong."""
        event = {"do": "fault", "at": 0, "provider": "azure", "call": call, "action": action, **more}
        self.world.add_fault(SetFault.model_validate(event).rule())


class _Switch:
    """One server for a whole test run, in front of the face of the test that is running."""

    def __init__(self) -> None:
        self.face: ASGIApp | None = None
        self._url: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.face is not None
        await self.face(scope, receive, send)

    def url(self) -> str:
        """Where it listens; started by the first who asks, ended with the process."""
        if self._url is None:
            sock = socket.socket()
            sock.bind(("127.0.0.1", 0))
            config = uvicorn.Config(
                self, http=CuttableProtocol, ws="none", lifespan="off", log_config=None, access_log=False
            )
            server = uvicorn.Server(config)
            threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True).start()
            deadline = time.monotonic() + 10
            while not server.started and time.monotonic() < deadline:
                time.sleep(0.005)
            assert server.started
            self._url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        return self._url


_SWITCH = _Switch()


@contextmanager
def azure(scenario: dict[str, object] | None = None) -> Iterator[Azure]:
    """A local Azure for as long as the block lasts; one at a time."""
    assert _SWITCH.face is None
    clock, guests = FakeClock(waits_advance=True), NoGuests()
    world = World(Scenario.parse(scenario or {}), clock, guests)
    _SWITCH.face = app(world)
    try:
        yield Azure(_SWITCH.url(), world, clock, guests)
    finally:
        _SWITCH.face = None
