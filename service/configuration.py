"""Where the settings come from: one YAML file, then `CORRAL_…` variables, which beat the file.

    CORRAL_LISTEN__PORT=9000        listen: {port: 9000}
    CORRAL_ACCOUNTS='[{...}]'       lists and mappings as YAML or JSON

An unknown key is an error that says which, where it stands and what is allowed. What is not set anywhere
has the default of `service.settings`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, ValidationError

from service.settings import Settings
from service.yaml_documents import Document, YamlError, parse

PREFIX = "CORRAL_"
CONFIG = "CORRAL_CONFIG"
SECRET_KEY = "CORRAL_SECRET_KEY"  # noqa: S105 - the name of a variable
# Variables of ours that are no settings: of the command line, of the agent, and the two above.
OTHER_VARIABLES = frozenset(
    {CONFIG, SECRET_KEY}
    | {"CORRAL_URL", "CORRAL_TOKEN", "CORRAL_PROJECT", "CORRAL_DEBUG", "CORRAL_ROOT", "CORRAL_METADATA_URL"}
)
RELOADABLE = frozenset(
    {
        "accounts",
        "routes",
        "shares",
        "quota_desk",
        "limits",
        "times",
        "retention",
        "notifications",
        "log_level",
    }
)
MAX_FILE_BYTES = 4 << 20


class ConfigurationError(Exception):
    """The settings cannot be used. `problems`: one line each, with the place."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def load(
    path: Path | None, environment: Mapping[str, str], overrides: Mapping[str, Any] | None = None
) -> Settings:
    """Read and check the settings; ConfigurationError lists every problem.

    overrides: top-level keys that replace both sources (the accounts of local clouds, for example).
    """
    where = str(path) if path else "no file"
    document = _read(path) if path else Document({}, {})
    if not isinstance(document.data, dict | None):
        raise ConfigurationError([f"{where}: expected a mapping of settings"])
    data, variables, problems = _with_environment(document.data or {}, environment)
    try:
        settings = Settings.model_validate({**data, **(overrides or {})})
    except ValidationError as error:
        for fault in error.errors():
            problems.append(_problem(fault, document, where, variables))
        raise ConfigurationError(problems) from None
    if problems:
        raise ConfigurationError(problems)
    return settings


def check(path: Path | None, environment: Mapping[str, str] | None = None) -> list[str]:
    """Every problem of a file, each with its line and key; empty if it can be used."""
    try:
        load(path, environment or {})
    except ConfigurationError as error:
        return error.problems
    return []


def digest(settings: Settings) -> str:
    """A short hash of what the settings say, whichever way it was written."""
    content = orjson.dumps(settings.model_dump(mode="json"), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:12]


class Configuration:
    """The settings in force, and how to read them again.

    Reloading changes accounts, routes, the quota desk, limits, times, retention, notifications and the log
    level, all of them or none: whatever else has changed needs a restart, and then nothing is taken over.
    """

    def __init__(
        self,
        path: Path | None,
        environment: Mapping[str, str],
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = path
        self._environment = environment
        self._overrides = dict(overrides or {})
        self._turn = threading.Lock()
        self.settings = load(path, environment, self._overrides)
        self.hash = digest(self.settings)

    def reload(self, apply: Callable[[Settings], None]) -> list[str]:
        """Read again and hand the new settings to `apply`; the keys that changed.

        ConfigurationError, or whatever `apply` raises, leaves everything as it was.
        """
        with self._turn:
            new = load(self.path, self._environment, self._overrides)
            changed = [
                name for name in type(new).model_fields if getattr(new, name) != getattr(self.settings, name)
            ]
            fixed = [name for name in changed if name not in RELOADABLE]
            if fixed:
                raise ConfigurationError(
                    [f"{name}: changed, which needs a restart; nothing was reloaded" for name in fixed]
                )
            if changed:
                apply(new)
                self.settings = new
                self.hash = digest(new)
            return changed


def _read(path: Path) -> Document:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError([f"{path}: {len(content)} bytes; at most {MAX_FILE_BYTES}"])
    try:
        return parse(content)
    except YamlError as error:
        place = f"{path}:{error.line}" if error.line else str(path)
        raise ConfigurationError([f"{place}: {error.problem}"]) from None


Variables = dict[tuple[str, ...], str]


def _with_environment(data: Any, environment: Mapping[str, str]) -> tuple[Any, Variables, list[str]]:
    """The file's data with the variables laid over it; which variable set which path; what is wrong."""
    variables: Variables = {}
    problems: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in OTHER_VARIABLES:
            continue
        path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
        try:
            value = _value(path, environment[variable])
            data = _laid_over(data, path, value)
        except _NoSuchKey as fault:
            problems.append(f"{variable}: unknown key {'.'.join(path)}{_hint(fault.name, fault.allowed)}")
        except YamlError as fault:
            problems.append(f"{variable}: {fault.problem}")
        else:
            variables[path] = variable
    return data, variables, problems


class _NoSuchKey(Exception):  # noqa: N818
    def __init__(self, name: str, allowed: list[str]) -> None:
        super().__init__(name)
        self.name, self.allowed = name, allowed


def _value(path: tuple[str, ...], text: str) -> Any:
    """A variable's text as its setting wants it: as it is for a single value, read as YAML for the rest."""
    annotation: Any = Settings
    for name in path:
        model = _model(annotation)
        if model is None:
            if _is_mapping(annotation):
                return text
            raise _NoSuchKey(name, [])
        if name not in model.model_fields:
            raise _NoSuchKey(name, _keys(model))
        annotation = model.model_fields[name].annotation
    if _model(annotation) is not None or _is_mapping(annotation) or _is_list(annotation):
        return parse(text).data
    return text


def _laid_over(data: Any, path: tuple[str, ...], value: Any) -> Any:
    if not path:
        return value
    below = dict(data) if isinstance(data, dict) else {}
    below[path[0]] = _laid_over(below.get(path[0]), path[1:], value)
    return below


def _problem(fault: Any, document: Document, where: str, variables: Variables) -> str:
    """One pydantic error as a line: the place, the key, what is wrong, what is allowed."""
    path: tuple[str | int, ...] = fault["loc"]
    place = where
    variable = next((v for at, v in variables.items() if path[: len(at)] == at), None)
    line = document.line_of(path)
    if variable:
        place = variable
    elif line:
        place = f"{where}:{line}"
    key = ".".join(str(part) for part in path)
    if fault["type"] == "extra_forbidden":
        return f"{place}: unknown key {key}{_hint(str(path[-1]), _allowed_beside(path))}"
    if fault["type"] == "missing":
        return f"{place}: {key}: is required"
    text = fault["msg"].removeprefix("Value error, ")
    return f"{place}: {key}: {text}" if key else f"{place}: {text}"


def _allowed_beside(path: tuple[str | int, ...]) -> list[str]:
    annotation: Any = Settings
    for part in path[:-1]:
        model = _model(annotation)
        if model is not None and isinstance(part, str) and part in model.model_fields:
            annotation = model.model_fields[part].annotation
        else:
            annotation = get_args(annotation)[-1 if _is_mapping(annotation) else 0]
    model = _model(annotation)
    return _keys(model) if model else []


def _keys(model: type[BaseModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _hint(name: str, allowed: list[str]) -> str:
    if not allowed:
        return ""
    near = get_close_matches(name, allowed, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    return f"{meant} (allowed: {', '.join(allowed)})"


def _bare(annotation: Any) -> Any:
    """The annotation without `| None`."""
    if get_origin(annotation) in (Union, UnionType):
        return next(arg for arg in get_args(annotation) if arg is not type(None))
    return annotation


def _model(annotation: Any) -> type[BaseModel] | None:
    bare = _bare(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def _is_mapping(annotation: Any) -> bool:
    return get_origin(_bare(annotation)) is dict


def _is_list(annotation: Any) -> bool:
    return get_origin(_bare(annotation)) in (tuple, list)
