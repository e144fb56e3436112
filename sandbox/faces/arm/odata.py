"""The part of OData's `$filter` that is used here: `name eq 'text'` with `and`, `or` and parentheses."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sandbox.faces.arm.call import ArmError

_TOKEN = re.compile(r"\s*(?:(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z][\w./]*)|(?P<mark>[()]))")
_DEPTH = 50


def matches(filter_: str, alternatives: Sequence[Mapping[str, str]]) -> bool:
    """Whether any of the alternatives satisfies the filter; names are in lower case, values as they are."""
    if not filter_.strip():
        return True
    tokens = _tokens(filter_)
    return any(_Reader(tokens, fields).whole() for fields in alternatives)


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    while text[position:].strip():
        token = _TOKEN.match(text, position)
        if token is None:
            raise _invalid(text[position:])
        found.append(token.group().strip())
        position = token.end()
    return found


def _invalid(rest: str) -> ArmError:
    return ArmError(400, "InvalidFilterInQueryString", f"Invalid $filter near '{rest[:40]}'.")


class _Reader:
    """Recursive descent: or, and, comparison."""

    def __init__(self, tokens: Sequence[str], fields: Mapping[str, str]) -> None:
        self._tokens = tokens
        self._fields = fields
        self._at = 0

    def whole(self) -> bool:
        value = self._any(0)
        if self._at != len(self._tokens):
            raise _invalid(self._peek())
        return value

    def _any(self, depth: int) -> bool:
        if depth > _DEPTH:
            raise _invalid(self._peek())
        value = self._all(depth)
        while self._peek().lower() == "or":
            self._take()
            value = self._all(depth) or value
        return value

    def _all(self, depth: int) -> bool:
        value = self._one(depth)
        while self._peek().lower() == "and":
            self._take()
            value = self._one(depth) and value
        return value

    def _one(self, depth: int) -> bool:
        if self._peek() == "(":
            self._take()
            value = self._any(depth + 1)
            if self._take() != ")":
                raise _invalid(self._peek())
            return value
        name, verb, text = self._take(), self._take(), self._take()
        if verb.lower() != "eq" or not text.startswith("'"):
            raise _invalid(f"{name} {verb} {text}")
        return self._fields.get(name.lower()) == text[1:-1].replace("''", "'")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token
