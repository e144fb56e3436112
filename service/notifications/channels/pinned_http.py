"""One POST to one address: no redirect is followed, no name is resolved again, no answer is read without
end.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from service.notifications.channels.addresses import ForbiddenAddressError, Resolve, pinned, resolve
from service.notifications.channels.protocol import TIMEOUT

LONGEST = 3 * TIMEOUT
"""Seconds (real) after which a call is cut off, however lively its receiver drips."""
ANSWER = 4096
"""Bytes of an answer that are looked at."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said. Header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswerError(Exception):
    """No answer came. `sent`: the request may have been received all the same."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class _Connection(HTTPConnection):
    """To a fixed address, with TLS to the name that was asked for, through the machine's proxy if it has
    one.
    """

    def __init__(self, host: str, address: str, port: int, *, tls: bool) -> None:
        proxy = _proxy(host) if tls else None
        if proxy is None:
            super().__init__(address, port, timeout=TIMEOUT)
        else:
            super().__init__(proxy[0], proxy[1], timeout=TIMEOUT)
            self.set_tunnel(address, port)
        self._name = host if tls else None

    def connect(self) -> None:
        super().connect()
        if self._name is not None:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self._name)


def _proxy(host: str) -> tuple[str, int] | None:
    url = getproxies().get("https")
    if not url or proxy_bypass(host):
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return (parts.hostname, parts.port or 3128) if parts.hostname else None


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed: Collection[str] = (),
    look_up: Resolve = resolve,
) -> Answer:
    """Send it once. ForbiddenAddressError if it may not go there; NoAnswerError if nothing came back.

    https, except to hosts that the settings allow.
    """
    host, port, tls, path = _target(url, allowed)
    connection = _Connection(host, pinned(host, port, allowed, look_up), port, tls=tls)
    cut_off = threading.Timer(LONGEST, _cut, [connection])
    cut_off.daemon = True
    cut_off.start()
    sent = False
    try:
        connection.connect()
        sent = True
        shown = f"[{host}]" if ":" in host else host
        usual = port == (443 if tls else 80)
        connection.request(
            "POST", path, body=body, headers={"Host": shown if usual else f"{shown}:{port}", **headers}
        )
        answer = connection.getresponse()
        return Answer(
            answer.status,
            {name.lower(): value for name, value in answer.getheaders()},
            answer.read(ANSWER),
        )
    except TimeoutError:
        raise NoAnswerError("no answer in time", sent=sent) from None
    except ssl.SSLError as error:
        raise NoAnswerError(f"TLS: {error.reason or 'failed'}", sent=sent) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswerError(f"no connection ({type(error).__name__})", sent=sent) from None
    finally:
        cut_off.cancel()
        connection.close()


def _target(url: str, allowed: Collection[str]) -> tuple[str, int, bool, str]:
    """Host, port, whether with TLS, and the path of a URL that may be called."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ForbiddenAddressError("the url cannot be read") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ForbiddenAddressError("the url must begin with https://HOST")
    if parts.username is not None or parts.password is not None:
        raise ForbiddenAddressError("the url holds a user name; that would be sent to whoever answers")
    tls = parts.scheme == "https"
    if not tls and host not in allowed:
        raise ForbiddenAddressError(f"{host}: only https, unless notifications.allow_hosts names it")
    path = parts.path or "/"
    return host, port or (443 if tls else 80), tls, f"{path}?{parts.query}" if parts.query else path


def _cut(connection: HTTPConnection) -> None:
    sock = connection.sock
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it is over already
