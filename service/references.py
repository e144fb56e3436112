"""Values that settings hold by reference, so that no secret stands in a settings file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class UnresolvedError(Exception):
    """A reference that leads nowhere; the message names it, never a value."""


def resolved(options: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The options with `env:NAME` and `file:PATH` replaced by what they refer to."""
    return {name: _value(name, text, environment) for name, text in options.items()}


def _value(option: str, text: str, environment: Mapping[str, str]) -> str:
    kind, _, target = text.partition(":")
    if kind == "env":
        if target not in environment:
            raise UnresolvedError(f"{option}: the variable {target} is not set")
        return environment[target]
    if kind == "file":
        try:
            return Path(target).read_text().strip()
        except OSError as error:
            raise UnresolvedError(f"{option}: {target} cannot be read: {error.strerror}") from None
    return text
