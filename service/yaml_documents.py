"""YAML as people mean it: one document, no surprises, and the line that each key stands on.

Stricter than YAML 1.1: `no`, `on` and `12:30` are texts, a date stays the text that was written, keys are
texts, a key given twice is an error, anchors and tags are refused (a few lines of them can expand to
gigabytes). JSON is YAML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

MAX_NODES = 200_000
MAX_DEPTH = 40

_INT = re.compile(r"^[-+]?(0|[1-9][0-9]*)$")
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?$")  # 1e5 may be a commit
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = {"", "~", "null", "Null", "NULL"}
_MAX_INT_DIGITS = 18

Path = tuple[str | int, ...]


class YamlError(ValueError):
    """What is wrong, and on which line (from 1; 0 where there is none)."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem = problem
        self.line = line


@dataclass(frozen=True)
class Document:
    """The data, and for each path of keys and indexes the line on which it is written."""

    data: Any
    lines: dict[Path, int]

    def line_of(self, path: Path) -> int | None:
        """The line of the path, or of the nearest thing that holds it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def parse(text: str | bytes, *, texts_below: frozenset[str] = frozenset()) -> Document:
    """Read one document. YamlError says what is wrong with it.

    texts_below: top-level keys under which every value stays the text that was written (`1.10`, `true`).
    """
    loader = (yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader)(text)
    try:
        builder = _Builder(loader, texts_below)
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(str(error.problem or "not YAML"), mark.line + 1 if mark else 0) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise YamlError(f"not YAML: {str(error).splitlines()[0]}") from None
    finally:
        loader.dispose()
    return Document(data, builder.lines)


class _Builder:
    """Builds the data straight from the parser's events, so that nothing is expanded before it is seen."""

    def __init__(self, loader: Any, texts_below: frozenset[str]) -> None:
        self._loader = loader
        self._texts_below = texts_below
        self._nodes = 0
        self.lines: dict[Path, int] = {}

    def document(self) -> Any:
        self._loader.get_event()  # stream start
        if self._loader.check_event(yaml.StreamEndEvent):
            return None
        self._loader.get_event()  # document start
        data = self._value((), 0)
        self._loader.get_event()  # document end
        if not self._loader.check_event(yaml.StreamEndEvent):
            raise YamlError("more than one document", _line(self._loader.peek_event()))
        return data

    def _value(self, path: Path, depth: int) -> Any:
        event = self._loader.get_event()
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise YamlError("too large or too deeply nested", _line(event))
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise YamlError("anchors and aliases are not accepted", _line(event))
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise YamlError(f"the tag {event.tag} is not accepted", _line(event))
        if isinstance(event, yaml.ScalarEvent):
            as_text = bool(path) and path[0] in self._texts_below
            return event.value if as_text else _scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while not self._loader.check_event(yaml.SequenceEndEvent):
            here = (*path, len(items))
            self.lines[here] = _line(self._loader.peek_event())
            items.append(self._value(here, depth + 1))
        self._loader.get_event()
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while not self._loader.check_event(yaml.MappingEndEvent):
            event = self._loader.get_event()
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None:
                raise YamlError("a key must be a plain text", _line(event))
            key = event.value
            if key in data:
                raise YamlError(f"the key {key!r} is given twice", _line(event))
            if key == "<<":
                raise YamlError("merge keys are not accepted", _line(event))
            here = (*path, key)
            self.lines[here] = _line(event)
            data[key] = self._value(here, depth + 1)
        self._loader.get_event()
        return data


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style or event.tag is not None:  # quoted or a block: a text
        return text
    if text in _NULLS:
        return None
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text) and len(text) <= _MAX_INT_DIGITS:
        return int(text)
    if _FLOAT.match(text):
        return float(text)
    return text


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1 if event.start_mark else 0
