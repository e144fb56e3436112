"""For every test: the service's log goes nowhere, plainly, instead of being drawn for a terminal. The seed of
a test that recorded one is printed at the end.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from service.structured_logging import configure


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
