"""Whether `public_url`, which every agent calls, answers as this service, with a certificate that lasts."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from service.settings import Settings

SECONDS = 10.0
EXPIRES_SOON = timedelta(days=7)
MOST_BYTES = 4096
ACCOUNT = "service"
SUBJECT = "public_url"


def check_public_url(settings: Settings, now: datetime) -> list[dict[str, Any]]:
    """One line of `corral check`; none where no address is set. Never raises."""
    url = settings.public_url
    if url is None:
        return []
    try:
        context = _trust(settings) if url.startswith("https://") else None
    except (OSError, ssl.SSLError) as error:
        return [_line(ok=False, detail=f"public_ca: {error}", remedy="give the PEM of the CA that signed it")]
    try:
        status, expires = _ask(url, context)
    except ssl.SSLCertVerificationError as error:
        detail = f"{url}: the certificate is not good: {error.verify_message}"
        remedy = "mend the certificate, or give its private CA in public_ca; agents trust no other"
        return [_line(ok=False, detail=detail, remedy=remedy)]
    except (OSError, HTTPException, ValueError) as error:
        detail = f"{url}: no answer from here: {type(error).__name__}: {error}"
        return [_line(ok=False, detail=detail, remedy="start `corral serve`; let agents through to it")]
    return [_judged(url, status, expires, now)]


def _judged(url: str, status: int, expires: datetime | None, now: datetime) -> dict[str, Any]:
    if status != 200:
        detail = f"{url}: /healthz was answered with {status}"
        return _line(
            ok=False, detail=detail, remedy="something else listens there, or the proxy leads elsewhere"
        )
    if expires is None:
        return _line(ok=True, detail=f"{url}: answers from here", remedy="")
    detail = f"{url}: answers from here; certificate good until {expires:%Y-%m-%d}"
    soon = expires - now < EXPIRES_SOON
    return _line(ok=not soon, detail=detail, remedy="renew the certificate now" if soon else "")


def _ask(url: str, context: ssl.SSLContext | None) -> tuple[int, datetime | None]:
    """The status of /healthz, and when the certificate expires."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: HTTPConnection
    if context is not None:
        connection = HTTPSConnection(host, parts.port or 443, timeout=SECONDS, context=context)
    else:
        connection = HTTPConnection(host, parts.port or 80, timeout=SECONDS)
    try:
        connection.connect()
        expires = _expiry(connection.sock) if context is not None else None
        connection.request("GET", f"{parts.path.rstrip('/')}/healthz")
        answer = connection.getresponse()
        answer.read(MOST_BYTES)
        return answer.status, expires
    finally:
        connection.close()


def _expiry(sock: Any) -> datetime | None:
    text = (sock.getpeercert() or {}).get("notAfter")
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC) if text else None


def _trust(settings: Settings) -> ssl.SSLContext:
    """What agents trust: the system's authorities, and the private one."""
    context = ssl.create_default_context()
    if settings.public_ca is not None:
        context.load_verify_locations(cafile=str(Path(settings.data_dir) / settings.public_ca))
    return context


def _line(*, ok: bool, detail: str, remedy: str) -> dict[str, Any]:
    return {"account": ACCOUNT, "subject": SUBJECT, "ok": ok, "detail": detail, "remedy": remedy}
