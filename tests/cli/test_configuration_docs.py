"""docs/configuration.md and docs/exit-codes.md say what the code says."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from service.cli.failure import MEANINGS
from service.configuration import OTHER_VARIABLES, RELOADABLE
from service.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"


def _bare(annotation: Any) -> Any:
    """`X` of `X | None`, and the values' type of a list or mapping of models."""
    for part in get_args(annotation):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return annotation


def _settings(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Every setting's path and its default as YAML; `-` where one is required."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        path = prefix + (field.alias or name)
        inner = _bare(field.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            origin = get_origin(field.annotation)
            mark = "[]." if origin is tuple else ".NAME." if origin is dict else "."
            found |= _settings(inner, path + mark)
            continue
        default = field.get_default(call_default_factory=True)
        if default is PydanticUndefined:
            found[path] = "-"
        else:
            data = list(default) if isinstance(default, tuple) else default
            data = str(data) if isinstance(data, StrEnum) else data
            found[path] = yaml.safe_dump(data, default_flow_style=True).split("\n")[0].strip("'")
    return found


def _table(file: str, columns: int) -> list[list[str]]:
    rows = re.findall(r"^\| `?([^|`]+)`? \|(.+)\|$", (DOCS / file).read_text("utf-8"), re.MULTILINE)
    split = [[first, *(cell.strip().strip("`") for cell in rest.split(" | "))] for first, rest in rows]
    return [row for row in split if len(row) == columns and not row[1].startswith("---")]


def test_every_setting_is_documented_with_its_default_and_no_other() -> None:
    documented = {row[0]: row[1] for row in _table("configuration.md", 3) if row[0] != "setting"}
    assert documented == _settings(Settings)


def test_the_variables_that_are_no_settings_are_documented() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    assert {name for name in OTHER_VARIABLES if f"`{name}`" not in text} == set()


def test_what_a_reload_takes_over_is_documented() -> None:
    text = (DOCS / "configuration.md").read_text("utf-8")
    sentence = re.search(r"A reload takes over ([^.]+)\.", text)
    assert sentence is not None
    assert set(re.findall(r"`([a-z_]+)`", sentence[1])) == RELOADABLE


def test_the_exit_codes_are_documented_word_for_word() -> None:
    documented = {row[0]: row[1] for row in _table("exit-codes.md", 2) if row[0] != "code"}
    assert documented == {str(int(code)): meaning for code, meaning in MEANINGS.items()}
