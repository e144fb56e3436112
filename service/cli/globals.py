"""Options that every command understands, wherever they stand on the line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from service.cli.client import Client

_WITH_VALUE = ("--url", "--token")


@dataclass(frozen=True)
class Globals:
    """What was given on the line; None where it was not."""

    url: str | None = None
    token: str | None = None


def hoist(arguments: list[str]) -> list[str]:
    """Move --url and --token to the front, from wherever they stand before `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    front: list[str] = []
    rest: list[str] = []
    index = 0
    while index < end:
        word = arguments[index]
        if word in _WITH_VALUE:
            front += arguments[index : min(index + 2, end)]
            index += 2
            continue
        (front if word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)) else rest).append(word)
        index += 1
    return [*front, *rest, *arguments[end:]]


def connect(context: typer.Context) -> Client:
    """A client for the service that the command line, the environment or the credentials file names."""
    from service.cli.client import Client
    from service.cli.connection import find

    given: Globals = context.obj
    return Client(find(given.url, given.token, os.environ))
