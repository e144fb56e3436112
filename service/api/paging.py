"""Lists in pages: `{"items": [...], "next_cursor": "…" or null}`. A cursor is opaque and does not expire."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
from fastapi import Query
from starlette.responses import Response

from service.api.problems import invalid

MAX_PAGE = 500
LARGEST_INT = 2**63 - 1  # what a column holds

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many items at most.")]
Cursor = Annotated[
    str | None, Query(max_length=512, description="`next_cursor` of the page before.", examples=[None])
]


def encode_cursor(*key: Any) -> str:
    """The key of the last item of a page, as text for a URL."""
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def decode_cursor(text: str, kinds: Sequence[type]) -> list[Any]:
    """The key; Problem 422 if the text is not a cursor of this list. A datetime is sent as RFC 3339."""
    try:
        key = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not isinstance(key, list) or len(key) != len(kinds):
            raise ValueError("wrong length")
        return [_as(kind, part) for kind, part in zip(kinds, key, strict=True)]
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise invalid("cursor", "is not a next_cursor of this list") from None


def _as(kind: type, part: Any) -> Any:
    if kind is datetime and isinstance(part, str):
        moment = datetime.fromisoformat(part)
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return moment.astimezone(UTC)
    if not isinstance(part, kind) or isinstance(part, bool):
        raise TypeError(f"not {kind}")
    if isinstance(part, int) and abs(part) > LARGEST_INT:
        raise ValueError("beyond every key")
    if isinstance(part, str) and "\0" in part:
        raise ValueError("no key holds a NUL")
    return part


def page(items: Sequence[Any], next_cursor: str | None) -> Response:
    """The reply."""
    return json_response({"items": items, "next_cursor": next_cursor})


def json_response(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A reply whose body is ready: no model is validated again on the way out. Times end in Z."""
    return Response(
        orjson.dumps(body, option=orjson.OPT_UTC_Z), status, headers, media_type="application/json"
    )
