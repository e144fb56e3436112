"""Calls to the service: one status table, no retries of its own. Who waits and tries again is the caller."""

from __future__ import annotations

import json
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any

from agent.protocol import VERSION
from clock import Clock


class ServiceError(Exception):
    """A call that did not do what it should."""


class UnavailableError(ServiceError):
    """Not reached, or not able to answer now. `retry_after`: seconds that the service asked for."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RefusedError(ServiceError):
    """The service will not do this; the same call again would not help."""

    def __init__(self, status: int, detail: str, body: dict[str, Any] | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.body = body or {}


class OverKind(StrEnum):
    """Why this instance has nothing to do here any more."""

    REVOKED = "revoked"
    STALE_EPOCH = "stale_epoch"
    GONE = "gone"


class OverError(ServiceError):
    """Stop the job, upload nothing more, end the instance."""

    def __init__(self, kind: OverKind, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


class UpgradeRequiredError(ServiceError):
    """The service no longer speaks this protocol version."""


# 409 with `next_offset` is a log offset that is not the next one, and no verdict on the attempt.
_OVER = {401: OverKind.REVOKED, 409: OverKind.STALE_EPOCH, 410: OverKind.GONE}
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
CONNECT_SECONDS = 5.0  # real seconds: sockets know no other
READ_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and decoded body of a call that went well; `body` is empty for 204."""

    status: int
    body: dict[str, Any]


class ServiceClient:
    """The service, spoken to over one pool of connections; may be shared by threads.

    HTTPS_PROXY and NO_PROXY are honoured. `ca`: a private authority (PEM), trusted beside the system's.
    `last_contact`: when (monotonic) the service last answered anything that was not a failure of its own.
    """

    def __init__(self, url: str, clock: Clock, *, ca: str | None = None) -> None:
        self._httpx = _import_httpx()
        self._clock = clock
        self._http = self._httpx.Client(
            base_url=url,
            verify=_trust(url, ca),
            timeout=self._httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            headers={"Corral-Protocol": str(VERSION), "User-Agent": "corral-agent"},
        )
        self.session: str | None = None
        self.last_contact = clock.monotonic()

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def get(self, path: str) -> Answer:
        """GET with the session."""
        return self._call("GET", path)

    def post(self, path: str, body: dict[str, Any]) -> Answer:
        """POST JSON, with the session once there is one."""
        content = json.dumps(body).encode()
        return self._call("POST", path, content=content, headers={"Content-Type": "application/json"})

    def post_bytes(self, path: str, data: bytes, **query: int) -> Answer:
        """POST raw bytes, with a query."""
        headers = {"Content-Type": "application/octet-stream"}
        return self._call("POST", path, content=data, params=query, headers=headers)

    def download(self, path: str, sink: Callable[[bytes], object]) -> None:
        """GET bytes of any length, handed to `sink` as they come."""
        if not path.startswith("/agent/"):  # the session goes with the request
            raise RefusedError(0, f"{path!r} is not a path on the service")
        try:
            with self._http.stream("GET", path, headers=self._credentials()) as response:
                if response.status_code != 200:
                    response.read()
                    self._judge(response)
                for chunk in response.iter_bytes():
                    sink(chunk)
        except (self._httpx.TransportError, self._httpx.DecodingError) as error:
            raise UnavailableError(f"{type(error).__name__}: {error}") from error
        self.last_contact = self._clock.monotonic()

    def _call(self, method: str, path: str, headers: dict[str, str] | None = None, **rest: Any) -> Answer:
        try:
            response = self._http.request(
                method, path, headers={**(headers or {}), **self._credentials()}, **rest
            )
        except (self._httpx.TransportError, self._httpx.DecodingError) as error:
            raise UnavailableError(f"{type(error).__name__}: {error}") from error
        self._judge(response)
        self.last_contact = self._clock.monotonic()
        return Answer(response.status_code, {} if response.status_code == 204 else _body(response))

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.session}"} if self.session else {}

    def _judge(self, response: Any) -> None:
        """The status table of the protocol."""
        status = response.status_code
        if status < 300:
            return
        if status in _LATER or status >= 500:
            raise UnavailableError(f"the service answered {status}", _retry_after(response, self._clock))
        body = _body(response)
        detail = str(body.get("detail") or body.get("title") or response.reason_phrase)
        if status == 426:
            raise UpgradeRequiredError(detail)
        self.last_contact = self._clock.monotonic()
        if status in _OVER and "next_offset" not in body:
            raise OverError(_OVER[status], detail)
        raise RefusedError(status, detail, body)


def _import_httpx() -> Any:
    """httpx without its command line, which would load click and rich where they are installed and triple
    the import time.
    """
    blocked = [name for name in ("click", "rich") if name not in sys.modules and "httpx" not in sys.modules]
    for name in blocked:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        import httpx
    finally:
        for name in blocked:
            del sys.modules[name]
    import logging

    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log each heartbeat
    return httpx


def _trust(url: str, ca: str | None) -> ssl.SSLContext:
    if not url.startswith("https://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used; reading the system's store takes 30 ms
    context = ssl.create_default_context()
    if ca:
        context.load_verify_locations(cadata=ca)
    return context


def _body(response: Any) -> dict[str, Any]:
    try:
        value = json.loads(response.content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _retry_after(response: Any, clock: Clock) -> float | None:
    """Retry-After as seconds; both of its forms (RFC 9110, 10.2.3)."""
    text = response.headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - clock.now()).total_seconds())
    except (TypeError, ValueError):
        return None
