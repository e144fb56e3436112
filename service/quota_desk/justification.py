"""Why more is needed, in the team's words: a template of the settings, run in jinja2's sandbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment

LONGEST = 2000
"""Characters; what is longer is cut."""

TEMPLATE = (
    "We ask for room for {{ gpus }} {{ gpu }} ({{ instances }} x {{ instance_type }}, {{ capacity_type }}) "
    "in {{ place }}: {{ name }} from {{ limit_before }} to {{ requested }} {{ unit }}."
    "{% if why %} {{ why }}{% endif %}"
)
NAMES = (
    "provider",
    "account",
    "region",
    "place",
    "quota",
    "name",
    "unit",
    "limit_before",
    "requested",
    "gpu",
    "gpus",
    "instance_type",
    "instances",
    "capacity_type",
    "why",
)


class TemplateFaultError(ValueError):
    """A template cannot be used; the message says why."""


def check_template(source: str, words: Mapping[str, str]) -> None:
    """TemplateFaultError unless the template can be rendered with what every request has, and the words."""
    clash = sorted(set(words) & set(NAMES))
    if clash:
        raise TemplateFaultError(f"words.{clash[0]}: is the name of something that every request has")
    render(source, dict.fromkeys(NAMES, "1"), words)


def render(source: str, about: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The justification of one request. TemplateFaultError if the template is at fault."""
    from jinja2 import TemplateError

    try:
        text = _environment().from_string(source).render({**words, **about})
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, OverflowError) as error:
        raise TemplateFaultError(f"{type(error).__name__}: {error}") from None
    return " ".join(text.split())[:LONGEST]


def _environment() -> SandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment(undefined=StrictUndefined)
