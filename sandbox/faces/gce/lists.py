"""Filtered, ordered, paged lists, of one place and of all."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.faces.gce.answers import Call, invalid
from sandbox.faces.gce.filters import FilterError, compile_filter, order_of

_MOST = 500


def page(call: Call, items: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], str | None]:
    """The call's page of what matches its filter, and the token of the next one."""
    query = call.query
    try:
        matches = compile_filter(query.get("filter", ""))
        ordered = order_of(query.get("orderBy", ""))([item for item in items if matches(item)])
    except FilterError as error:
        raise invalid("filter", query.get("filter", ""), str(error)) from None
    size = int(query.get("maxResults") or _MOST)
    if not 0 <= size <= _MOST:
        raise invalid("maxResults", size, f"Values must be within the range [0, {_MOST}].")
    size = size or _MOST
    start = _offset(query.get("pageToken", ""))
    if call.faulty("empty_page"):
        return [], _token(start)
    return ordered[start : start + size], _token(start + size) if len(ordered) > start + size else None


def listed(call: Call, kind: str, items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A list of one place."""
    found, token = page(call, items)
    body: dict[str, Any] = {"kind": f"compute#{kind}List", "id": f"{call.method}/{call.project}"}
    body |= {"items": found, "selfLink": call.link(kind)}
    if token:
        body["nextPageToken"] = token
    return body


def aggregated(
    call: Call, kind: str, field: str, scopes: Mapping[str, Iterable[dict[str, Any]]]
) -> dict[str, Any]:
    """A list over all places (`zones/us-central1-a`, `regions/us-central1`); `field` holds each one's items.

    A place that cannot be reached is missing among the items and named, as the API does since 2026-09-01.
    """
    lost = call.faulty("unreachable")
    tagged = [
        (scope, item)
        for scope, items in scopes.items()
        if lost is None or not scope.endswith(f"/{lost.value}")
        for item in items
    ]
    where = {id(item): scope for scope, item in tagged}
    found, token = page(call, [item for _, item in tagged])
    body: dict[str, dict[str, Any]] = {}
    for scope in scopes:
        mine = [item for item in found if where[id(item)] == scope]
        body[scope] = {field: mine} if mine else {"warning": _nothing(scope)}
        if lost is not None and scope.endswith(f"/{lost.value}"):
            body[scope] = {"warning": _unreachable(scope)}
    answer: dict[str, Any] = {
        "kind": f"compute#{kind}AggregatedList",
        "id": f"{call.method}/{call.project}",
        "items": body,
        "selfLink": call.link("aggregated", kind),
    }
    if lost is not None:
        answer["unreachables"] = [call.link("zones", lost.value).partition("/compute/v1/")[2]]
    if token:
        answer["nextPageToken"] = token
    return answer


def _nothing(scope: str) -> dict[str, Any]:
    text = f"There are no results for scope '{scope}' on this page."
    return {"code": "NO_RESULTS_ON_PAGE", "message": text, "data": [{"key": "scope", "value": scope}]}


def _unreachable(scope: str) -> dict[str, Any]:
    text = f"The scope '{scope}' could not be reached."
    return {"code": "UNREACHABLE", "message": text, "data": [{"key": "scope", "value": scope}]}


def _token(offset: int) -> str:
    return base64.urlsafe_b64encode(f"p{offset}".encode()).decode()


def _offset(token: str) -> int:
    if not token:
        return 0
    try:
        text = base64.urlsafe_b64decode(token).decode()
        return int(text.removeprefix("p"))
    except (ValueError, binascii.Error):
        raise invalid("pageToken", token, "Not a token of this list.") from None
