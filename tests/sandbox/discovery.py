"""Checks calls and answers against Google's discovery documents, which ship with google-api-python-client."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.sandbox.cloudquotas_v1 import DOCUMENT

Document = dict[str, Any]
_INTEGER = re.compile(r"-?\d+")
_TYPES: dict[str, type | tuple[type, ...]] = {"boolean": bool, "number": (int, float), "integer": int}


class Discovery:
    """Middleware. violations: what the documents do not allow; seen: the methods that were called."""

    def __init__(self, face: ASGIApp) -> None:
        self._face = face
        self.violations: list[str] = []
        self.seen: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, answer = bytearray(), bytearray()
        status = 0

        async def reading() -> Message:
            message = await receive()
            request.extend(message.get("body", b""))
            return message

        async def writing(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            answer.extend(message.get("body", b""))
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._check(scope, bytes(request), status, bytes(answer))
            await send(message)

        await self._face(scope, reading, writing)

    def _check(self, scope: Scope, request: bytes, status: int, answer: bytes) -> None:
        found = method_of(scope["method"], scope["path"])
        if found is None:
            self.violations.append(f"{scope['method']} {scope['path']}: not in the discovery documents")
            return
        document, method = found
        self.seen.add(method["id"])
        query = [pair.partition("=")[0] for pair in scope["query_string"].decode().split("&") if pair]
        known = set(method["parameters"]) | set(document["parameters"])
        problems = [f"query {name}" for name in query if name.replace("%24", "$") not in known]
        if request:
            problems += _in_body(document, method.get("request", {}).get("$ref"), request)
        if status == 200:
            problems += violations(document, method["response"]["$ref"], json.loads(answer))
        elif answer and not answer.startswith(b"<!DOCTYPE") and not is_google_error(json.loads(answer)):
            problems.append(f"error body {answer!r}")
        self.violations += [f"{method['id']}: {problem}" for problem in problems]


def _in_body(document: Document, schema: str | None, raw: bytes) -> list[str]:
    if schema is None:
        return ["it takes no body"]
    try:
        return violations(document, schema, json.loads(raw))
    except ValueError:
        return ["the body is no JSON"]


def violations(document: Document, schema: str, value: Any) -> list[str]:
    """Where a value leaves the schema of that name."""
    return list(_walk(document, {"$ref": schema}, value, schema))


def _walk(document: Document, schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = document["schemas"][schema["$ref"]]
    kind = schema.get("type", "any")
    if kind == "object":
        yield from _object(document, schema, value, where)
    elif kind == "array":
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for index, item in enumerate(value):
            yield from _walk(document, schema["items"], item, f"{where}[{index}]")
    elif kind == "string":
        yield from _string(schema, value, where)
    elif kind in _TYPES and (not isinstance(value, _TYPES[kind]) or (kind != "boolean" and value is True)):
        yield f"{where}: {value!r} is no {kind}"


def _object(document: Document, schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is no object"
        return
    properties, other = schema.get("properties", {}), schema.get("additionalProperties")
    for key, item in value.items():
        rule = properties.get(key, other)
        if rule is None:
            yield f"{where}.{key}: unknown"
        else:
            yield from _walk(document, rule, item, f"{where}.{key}")


def _string(schema: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, str):
        yield f"{where}: {value!r} is no text"
    elif schema.get("format") in ("int64", "uint64") and not _INTEGER.fullmatch(value):
        yield f"{where}: {value!r} is no decimal number"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {', '.join(schema['enum'][:5])} ..."


def method_of(verb: str, path: str) -> tuple[Document, dict[str, Any]] | None:
    """The document and its method that a request is for."""
    for name in ("compute", "cloudbilling", "cloudquotas", "cloudresourcemanager"):
        document = load(name)
        prefix = "/" + document["servicePath"]
        for pattern, method in _patterns(name):
            if method["httpMethod"] == verb and path.startswith(prefix):
                match = pattern.fullmatch(path.removeprefix(prefix))
                if match:
                    return document, method
    return None


@cache
def load(name: str) -> Document:
    """A discovery document of version 1; Cloud Quotas' is written out here, as the package has none."""
    if name == "cloudquotas":
        return DOCUMENT
    folder = files("googleapiclient").joinpath("discovery_cache", "documents")
    document: Document = json.loads(folder.joinpath(f"{name}.v1.json").read_text("utf-8"))
    return document


@cache
def _patterns(name: str) -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Each method with its path as a pattern; paths with fewer parameters first, as they are narrower."""
    found = []
    for method in _methods(load(name)["resources"]):
        escaped = re.sub(r"\\\{[^}]+\\\}", "[^/]+", re.escape(method["flatPath"]))
        found.append((method["flatPath"].count("{"), re.compile(escaped), method))
    return [(pattern, method) for _, pattern, method in sorted(found, key=lambda entry: entry[0])]


def _methods(resources: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in resources.values():
        yield from resource.get("methods", {}).values()
        yield from _methods(resource.get("resources", {}))


def is_google_error(body: Any) -> bool:
    """The shape of error answers, which the documents do not describe (Google APIs, "Errors")."""
    error = body.get("error", {}) if isinstance(body, dict) else {}
    items = error.get("errors", ())
    fields = {"message", "domain", "reason"}
    return bool({"code", "message"} <= set(error) and items and all(fields <= set(item) for item in items))
