"""The `filter` and `orderBy` parameters of list calls, both dialects that the API documents.

AIP-160: `labels.owner="x" AND (status=RUNNING OR labels.k:*)`. The older one: `name eq "a|b.*"`, whose value
is a regular expression for the whole field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Predicate = Callable[[Mapping[str, Any]], bool]

_TOKEN = re.compile(
    r"""\s*(?:(?P<paren>[()]) | (?P<op>!=|<=|>=|=|:|<|>) | "(?P<double>(?:[^"\\]|\\.)*)"
        | '(?P<single>(?:[^'\\]|\\.)*)' | (?P<word>[^\s()=!:<>"']+))""",
    re.VERBOSE,
)
_OLD = {"eq", "ne"}


class FilterError(ValueError):
    """The expression cannot be read; the text says why."""


def compile_filter(text: str) -> Predicate:
    """A predicate over a resource's JSON; an empty expression takes everything."""
    if not text.strip():
        return lambda resource: True
    parser = _Parser(_tokens(text))
    found = parser.either()
    if parser.peek() is not None:
        raise FilterError(f"unexpected {parser.peek()!r} in filter {text!r}")
    return found


def order_of(text: str) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """How results are sorted: by name as it is, or `creationTimestamp desc`."""
    if text in ("", "name"):
        return lambda items: sorted(items, key=lambda item: str(item.get("name", "")))
    if text == "creationTimestamp desc":
        return lambda items: sorted(items, key=_made_at, reverse=True)
    raise FilterError(f"orderBy {text!r}: only name and creationTimestamp desc are supported")


def _made_at(item: Mapping[str, Any]) -> str:
    return str(item.get("creationTimestamp") or item.get("insertTime") or "")


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FilterError(f"filter {text!r}: cannot read {text[position:]!r}")
        kind = str(match.lastgroup)
        value = match[kind]
        if kind in ("double", "single"):
            kind, value = "text", re.sub(r"\\(.)", r"\1", value)
        found.append((kind, value))
        position = match.end()
    return found


class _Parser:
    """Recursive descent: OR of ANDs of comparisons; juxtaposition is AND."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> tuple[str, str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        token = self.peek()
        if token is None:
            raise FilterError("the filter ends too early")
        self._at += 1
        return token

    def either(self) -> Predicate:
        choices = [self._both()]
        while self.peek() == ("word", "OR"):
            self._take()
            choices.append(self._both())
        return lambda resource: any(choice(resource) for choice in choices)

    def _both(self) -> Predicate:
        terms = [self._term()]
        while (token := self.peek()) is not None and token not in (("word", "OR"), ("paren", ")")):
            if token == ("word", "AND"):
                self._take()
            terms.append(self._term())
        return lambda resource: all(term(resource) for term in terms)

    def _term(self) -> Predicate:
        token = self._take()
        if token == ("word", "NOT"):
            inner = self._term()
            return lambda resource: not inner(resource)
        if token == ("paren", "("):
            inner = self.either()
            if self._take() != ("paren", ")"):
                raise FilterError("a bracket is not closed")
            return inner
        if token[0] not in ("word", "text"):
            raise FilterError(f"expected a field, got {token[1]!r}")
        return self._comparison(token[1])

    def _comparison(self, name: str) -> Predicate:
        kind, operator = self._take()
        if kind != "op" and operator not in _OLD:
            raise FilterError(f"expected an operator after {name!r}, got {operator!r}")
        _, value = self._take()
        if operator in _OLD:
            return _matching(name, value, operator == "eq")
        if operator == ":":
            return _having(name, value)
        return _comparing(name, operator, value)


def _matching(name: str, pattern: str, wanted: bool) -> Predicate:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise FilterError(f"{pattern!r} is no regular expression: {error}") from error
    return lambda resource: (compiled.fullmatch(_text(_value(resource, name))) is not None) is wanted


def _having(name: str, value: str) -> Predicate:
    if value == "*":
        return lambda resource: _value(resource, name) is not None
    return lambda resource: value.lower() in _text(_value(resource, name)).lower()


def _comparing(name: str, operator: str, value: str) -> Predicate:
    def holds(resource: Mapping[str, Any]) -> bool:
        mine = _value(resource, name)
        if mine is None:
            return operator == "!="
        text = _text(mine)
        return {
            "=": text == value,
            "!=": text != value,
            "<": text < value,
            "<=": text <= value,
            ">": text > value,
            ">=": text >= value,
        }[operator]

    return holds


def _value(resource: Mapping[str, Any], name: str) -> Any:
    found: Any = resource
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
