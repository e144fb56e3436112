"""A job's spec as `run` and `plan` put it together: a file, a command after `--`, and options over both."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.cli.failure import UsageError

MAX_FILE_BYTES = 16 << 20
_NOT_IN_NAMES = re.compile(r"[^a-z0-9._-]+")
_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


@dataclass(frozen=True)
class Options:
    """What the command line said of the job; None or empty where it said nothing."""

    gpus: str | None = None
    name: str | None = None
    run_class: str | None = None
    spot: bool | None = None
    max_price: float | None = None
    allow: tuple[str, ...] = ()
    nodes: int | None = None
    env: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    project: str | None = None


def read(path: Path) -> dict[str, Any]:
    """A YAML or JSON file; UsageError with the line of what is wrong. What the fields mean is the service's
    to say.
    """
    from service.jobs.aliases import TEXTS_BELOW
    from service.yaml_documents import YamlError, parse

    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{path}: {len(content)} bytes; at most {MAX_FILE_BYTES}")
    try:
        data = parse(content, texts_below=TEXTS_BELOW).data
    except YamlError as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise UsageError(f"{path}: expected a mapping of fields, such as name and run")
    return data


def build(
    file: Path | None, command: Sequence[str], options: Options, environment: Mapping[str, str]
) -> dict[str, Any]:
    """The spec to send. Options win over the file; a command after `--` becomes `run`."""
    if file is None and not command:
        raise UsageError("give a spec FILE, or a command after --")
    spec = read(file) if file is not None else {}
    if command:
        text = command[0] if len(command) == 1 else shlex.join(command)
        spec = {**_without(spec, "run"), "run": text}
    spec.setdefault("name", _name_from(file, command))
    return laid_over(spec, options, environment)


# Field that an option sets -> its other spellings, at the top and under resources. The service takes each
# thing once, so what the command line says replaces whatever the file says of it.
_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", "commands"),
    "name": ("name",),
    "class": ("class", "run_class"),
    "project": ("project",),
    "max_price": ("max_price", "max_hourly_cost"),
    "allow": ("allow", "infra", "cloud", "clouds", "backends", "region", "regions"),
    "gpu": ("gpu", "gpus", "accelerators"),
    "nodes": ("nodes", "num_nodes"),
    "use": ("use_spot", "spot_policy"),
}


def laid_over(spec: dict[str, Any], options: Options, environment: Mapping[str, str]) -> dict[str, Any]:
    """The spec with the options in it; other spellings of a field that an option sets are dropped."""
    result = dict(spec)
    said = {
        "name": options.name,
        "class": options.run_class,
        "max_price": options.max_price,
        "allow": list(options.allow) or None,
        "project": options.project,
    }
    for field, value in said.items():
        if value is not None:
            result = {**_without(result, field), field: value}
    for field, value in {"gpu": options.gpus, "nodes": options.nodes}.items():
        if value is not None:
            result = _without(result, field)
            result["resources"] = {**_mapping(result.get("resources")), field: value}
    if options.spot is not None:
        result = _without(result, "use")
        result["spot"] = {**_mapping(result.get("spot")), "use": "only" if options.spot else "never"}
    if options.env:
        field = "envs" if "envs" in result and "env" not in result else "env"
        result[field] = _pairs(result.get(field)) | _assignments(options.env, environment)
    if options.secrets:
        result["secrets"] = [*(result.get("secrets") or ()), *options.secrets]
    return result


def _without(spec: dict[str, Any], field: str) -> dict[str, Any]:
    spellings = _SPELLINGS[field]
    kept = {name: value for name, value in spec.items() if name not in spellings}
    if isinstance(kept.get("resources"), dict):
        kept["resources"] = {n: v for n, v in kept["resources"].items() if n not in spellings}
    return kept


def _pairs(env: Any) -> dict[str, Any]:
    """The file's env as a mapping; it may be written as a list of NAME=VALUE."""
    if isinstance(env, list):
        return {name: value for name, _, value in (str(item).partition("=") for item in env)}
    return _mapping(env)


def _assignments(pairs: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` alone to take the value of this shell."""
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not _ENV_NAME.match(name):
            raise UsageError(f"--env {pair}: expected NAME=VALUE, or NAME to take this shell's value")
        if not separator:
            if name not in environment:
                raise UsageError(f"--env {name}: is not set in this shell")
            value = environment[name]
        found[name] = value
    return found


def _name_from(file: Path | None, command: Sequence[str]) -> str:
    source = file.stem if file is not None else os.path.basename(shlex.split(command[0])[0])
    name = _NOT_IN_NAMES.sub("-", source.lower()).strip("._-")[:64].strip("._-")
    return name or "job"


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}
