"""For every test: nothing is sent to another machine. The service's log goes nowhere, plainly, instead of
being drawn for a terminal. The seed of a test that recorded one is printed at the end.
"""

from __future__ import annotations

import io
import logging
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest
import structlog

from service.structured_logging import configure


class LeftTheMachineError(AssertionError):
    """A test tried to reach something other than loopback."""


_connect, _getaddrinfo = socket.socket.connect, socket.getaddrinfo


def _is_here(host: str | bytes | None) -> bool:
    text = host.decode() if isinstance(host, bytes) else host
    if text in (None, "", "localhost"):
        return True
    try:
        address = ip_address(str(text).partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _guarded_connect(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(address[0]):
        raise LeftTheMachineError(f"a test tried to connect to {address[0]}")
    _connect(self, address)


def _guarded_getaddrinfo(host: str | bytes | None, *rest: Any, **options: Any) -> Any:
    if not _is_here(host):
        raise socket.gaierror(socket.EAI_NONAME, f"a test looked up {host!r}: only this machine is there")
    return _getaddrinfo(host, *rest, **options)


@pytest.fixture(scope="session", autouse=True)
def _nothing_leaves_the_machine() -> Iterator[None]:
    """In this process; the service's own processes are given accounts on loopback only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", _guarded_connect)
        patch.setattr(socket, "getaddrinfo", _guarded_getaddrinfo)
        yield


@pytest.fixture(scope="session", autouse=True)
def _quiet_log() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    configure("info", stream=io.StringIO())
    root.handlers, root.level = handlers, level
    yield
    structlog.reset_defaults()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name, value in report.user_properties:
                if name == "seed":
                    terminalreporter.write_line(f"seed {value}: {report.nodeid}")
