"""A signed POST to a program of yours, in the form of www.standardwebhooks.com (version 1).

`webhook-id` is the message's id and stays the same when it is sent again; `webhook-signature` is `v1,` and
the base64 of HMAC-SHA256 over `ID.TIMESTAMP.BODY`. A secret that begins with `whsec_` is base64, as there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection
from datetime import datetime
from typing import Any

import orjson

from clock import Clock
from service.notifications.channels.addresses import ForbiddenAddressError, Resolve, resolve
from service.notifications.channels.pinned_http import Answer, NoAnswerError, post
from service.notifications.channels.protocol import Parcel, Refused, Sent
from service.notifications.content import Item

_FINAL = frozenset({400, 405, 409, 411, 413, 414, 415, 422})
"""Statuses that speak of this very message. Others (401, 404, 410, 5xx) speak of the channel."""


class Webhook:
    """Implements `Sender`."""

    def __init__(
        self,
        url: str,
        secret: str,
        clock: Clock,
        *,
        allowed: Collection[str] = (),
        look_up: Resolve = resolve,
    ) -> None:
        self._url, self._key, self._clock = url, _key(secret), clock
        self._allowed, self._look_up = allowed, look_up

    def send(self, parcel: Parcel) -> Sent | Refused:
        """One call; the answer's status says how it went."""
        body = orjson.dumps(_document(parcel), default=str, option=orjson.OPT_UTC_Z)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "corral-webhook/1",
            **signed(self._key, parcel.content.id, self._clock.now(), body),
        }
        try:
            answer = post(self._url, body, headers, allowed=self._allowed, look_up=self._look_up)
        except ForbiddenAddressError as error:
            return Refused(str(error))
        except NoAnswerError as error:
            return Refused(str(error), uncertain=error.sent)
        return _verdict(answer)


def signed(key: bytes, message_id: str, now: datetime, body: bytes) -> dict[str, str]:
    """The three headers by which a receiver knows that it is us, and now."""
    at = str(int(now.timestamp()))
    digest = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; None without one. A date, which it may be too, counts as a minute."""
    if value is None:
        return None
    try:
        return min(max(float(value), 1.0), 3600.0)
    except ValueError:
        return 60.0


def _verdict(answer: Answer) -> Sent | Refused:
    status = answer.status
    if 200 <= status < 300:
        return Sent()
    if 300 <= status < 400:
        return Refused(f"HTTP {status}: redirects are not followed")
    wait = retry_after(answer.headers.get("retry-after"))
    if status == 429:
        return Refused("HTTP 429", retry_after=wait or 60.0)
    if status == 503 and wait is not None:
        return Refused("HTTP 503", retry_after=wait)
    return Refused(f"HTTP {status}", final=status in _FINAL, uncertain=status >= 500)


def _document(parcel: Parcel) -> dict[str, Any]:
    content = parcel.content
    return {
        "id": content.id,
        "deployment": parcel.deployment,
        "severity": content.severity,
        "title": content.title,
        "created_at": content.created_at,
        "events": [_event(item) for item in content.items],
    }


def _event(item: Item) -> dict[str, Any]:
    return {
        "id": item.event_id,
        "at": item.at,
        "kind": item.kind,
        "topic": item.topic,
        "severity": item.severity,
        "subject": item.subject,
        "project": item.project,
        "message": item.what,
        "title": item.title,
        "done": item.did,
        "to_do": item.can,
        "command": item.command,
        "link": item.link,
        "data": item.data,
    }


def _key(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        try:
            return base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            pass
    return secret.encode()
