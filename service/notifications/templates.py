"""Texts that people may write: jinja2 in its sandbox. Also for justifications of quota requests.

The sandbox keeps a template from reaching anything but the values it is given; a value is text, never a
template, so what a user wrote is not run. jinja2 is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_TEXT = 20_000
"""Characters of a filled template; more is cut."""


class TemplateTextError(Exception):
    """A template cannot be read or filled; the message says where and why."""


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


def check(text: str) -> str | None:
    """What is wrong with a template's form; None if it can be read."""
    from jinja2 import TemplateSyntaxError

    try:
        _environment().parse(text)
    except TemplateSyntaxError as error:
        return f"line {error.lineno}: {error.message}"
    return None


def fill(text: str, values: Mapping[str, Any]) -> str:
    """The template with its values; TemplateTextError if it names what there is not, or what it may not."""
    from jinja2 import TemplateError

    try:
        filled = ""
        for part in _compiled(text).generate(values):
            filled += part
            if len(filled) >= MAX_TEXT:
                break
        return filled[:MAX_TEXT].strip()
    except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise TemplateTextError(f"{type(error).__name__}: {error}") from None


@lru_cache(maxsize=128)
def _compiled(text: str) -> Any:
    return _environment().from_string(text)
