"""Options that every command understands, wherever they stand on the line."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from service.cli.client import Client

_WITH_VALUE = ("--url", "--token")
_TAKE_COMMANDS = ("run", "plan")


@dataclass(frozen=True)
class Globals:
    """What was given on the line; None where it was not. `command`: what stood after `--`."""

    url: str | None = None
    token: str | None = None
    command: tuple[str, ...] = ()


def split_command(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """For `run` and `plan`: what stands before `--`, and the job's own command after it."""
    if "--" not in arguments:
        return arguments, ()
    end = arguments.index("--")
    words, after = arguments[:end], tuple(arguments[end + 1 :])
    return (words, after) if _verb(words) in _TAKE_COMMANDS else (arguments, ())


def _verb(words: list[str]) -> str | None:
    before: str | None = None
    for word in words:
        if not word.startswith("-") and before not in _WITH_VALUE:
            return word
        before = word
    return None


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
