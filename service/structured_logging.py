"""The service's own log: one structured line per fact, JSON unless a terminal reads it, secrets never in it.

What other libraries log goes the same way, from WARNING on. Errors are written with their traceback but
without the values of local variables.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterable, MutableMapping
from typing import Any, TextIO

import orjson
import structlog

from service.projects.redaction import MASK, Redactor

_TOKEN = re.compile(r"corral_(agent_)?[A-Za-z0-9_-]{20,}")
_URL_PASSWORD = re.compile(r"(://[^\s/:@]+:)[^\s/@]+@")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

Event = MutableMapping[str, Any]


class Mask:
    """Takes out of every text of a line: tokens and passwords in URLs by their form, the rest by value."""

    def __init__(self, values: Iterable[str]) -> None:
        self._redactor = Redactor(values)

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        for name, value in event.items():
            event[name] = self.masked(value)
        return event

    def masked(self, value: Any) -> Any:
        """The value with secrets masked, also inside lists and mappings."""
        if isinstance(value, str):
            value = _URL_PASSWORD.sub(rf"\1{MASK}@", _TOKEN.sub(f"corral_{MASK}", value))
            return self._redactor.redact(value)
        if isinstance(value, dict):
            return {key: self.masked(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.masked(item) for item in value]
        return value


def configure(level: str, hide: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """Set up logging for this process. `hide`: values that must appear nowhere."""
    out = stream or sys.stderr
    chain: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        Mask(hide),
        structlog.dev.ConsoleRenderer(pad_event_to=24) if out.isatty() else _as_json,
    ]
    structlog.configure(
        processors=chain,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_Forward()]
    root.setLevel(logging.WARNING)
    # What it warns of is malformed requests, which strangers may send in any number.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


class _Forward(logging.Handler):
    """Hands records of other libraries to the service's own log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger()
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write(record.getMessage(), logger=record.name, exc_info=record.exc_info or None)


def _as_json(_logger: Any, _method: str, event: Event) -> str:
    ordered = {"at": event.pop("timestamp", None), "level": event.pop("level", None), **event}
    return orjson.dumps(ordered, default=str, option=orjson.OPT_UTC_Z).decode()
