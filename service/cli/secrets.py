"""`corral secret`: values go in and are never shown again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from service.cli.arguments import Json
from service.cli.failure import UsageError
from service.cli.globals import connect

DEFAULT_PROJECT = "default"
MAX_BYTES = 64 * 1024

Project = Annotated[
    str, typer.Option("--project", "-p", envvar="CORRAL_PROJECT", show_envvar=True, help="The project.")
]
Name = Annotated[str, typer.Argument(help="Its name, as jobs name it and see it in their environment.")]


def put(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read the value from here, not from standard input.")
    ] = None,
    project: Project = DEFAULT_PROJECT,
) -> None:
    """Set a secret from a file or standard input, never from the command line, which others could read."""
    from service.cli.show import line, waiting

    value = _value(file)
    with connect(context) as client, waiting("asking the service"):
        client.put(f"/v1/projects/{project}/secrets/{name}", {"value": value})
    line(f"{project}/{name}: set")


def _value(file: Path | None) -> str:
    """The text; the one newline that an editor or `echo` adds is taken off."""
    try:
        if file is not None:
            content = file.read_bytes()
        elif sys.stdin.isatty():
            from getpass import getpass

            return getpass("value: ")
        else:
            content = sys.stdin.buffer.read(MAX_BYTES + 2)
        text = content.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError("the value is not UTF-8 text; encode it, for example with base64") from error
    if not text:
        raise UsageError("the value is empty")
    if len(text.encode()) > MAX_BYTES:
        raise UsageError(f"the value has more than {MAX_BYTES} bytes")
    return text


def ls(context: typer.Context, project: Project = DEFAULT_PROJECT, json: Json = False) -> None:
    """List the names of a project's secrets."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages(f"/v1/projects/{project}/secrets"))
    if json:
        as_json(items)
        return
    rows = [(item["name"], clock_time(item["updated_at"])) for item in items]
    table(("NAME", "SET AT"), rows, empty="no secrets")


def rm(context: typer.Context, name: Name, project: Project = DEFAULT_PROJECT) -> None:
    """Remove a secret. Jobs that run keep what they were given."""
    from service.cli.show import line, waiting

    with connect(context) as client, waiting("asking the service"):
        client.delete(f"/v1/projects/{project}/secrets/{name}")
    line(f"{project}/{name}: removed")
