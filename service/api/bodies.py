"""Reading a body that may be JSON or YAML."""

from __future__ import annotations

import json
from typing import Any

import orjson
from fastapi import Request

from service.api.problems import Problem
from service.api.state import Api
from service.yaml_documents import YamlError, parse

JSON_TYPES = frozenset({"application/json"})
YAML_TYPES = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
LARGE = 64 * 1024


async def read_document(request: Request, api: Api, texts_below: frozenset[str]) -> Any:
    """The body's data, read as its Content-Type says; without one, as YAML (which JSON is too).

    Problem 415 for another type, 400 if it is not what it says it is.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind and kind not in JSON_TYPES | YAML_TYPES:
        allowed = sorted(JSON_TYPES | YAML_TYPES)
        raise Problem(415, f"Content-Type {kind}: send {' or '.join(allowed[:2])}", allowed=allowed)
    body = await request.body()

    def read() -> Any:
        return _json(body) if kind in JSON_TYPES else _yaml(body, texts_below)

    return await api.aside(read) if len(body) > LARGE else read()


def _json(body: bytes) -> Any:
    try:
        data = orjson.loads(body)
        json.loads(body, object_pairs_hook=_each_once)
    except orjson.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except (RecursionError, ValueError):  # the second: a number of thousands of digits
        raise Problem(400, "the body is not usable JSON: too deeply nested, or too long a number") from None
    return data


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    """Of a key that is given twice one would be ignored, and it may be a limit."""
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise Problem(400, f"the body is not usable JSON: the key {key!r} is given twice")
        seen.add(key)


def _yaml(body: bytes, texts_below: frozenset[str]) -> Any:
    try:
        return parse(body, texts_below=texts_below).data
    except YamlError as error:
        raise Problem(400, f"the body is not usable YAML: {error}") from None
