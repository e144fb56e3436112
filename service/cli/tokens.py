"""`corral login` and `corral token`: who may speak to the service."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from service.cli.arguments import Json, Project
from service.cli.failure import ExitCode, UsageError
from service.cli.globals import Globals, connect

MAX_TOKEN = 1024


def login(context: typer.Context) -> None:
    """Keep the address (--url) and the token (--token, or standard input) for later commands.

    They are tried first, then written to ~/.config/corral/credentials, which only you can read.
    """
    from service.cli.client import Client
    from service.cli.connection import find, save
    from service.cli.show import line

    given: Globals = context.obj
    token = given.token or os.environ.get("CORRAL_TOKEN") or _read_token()
    connection = find(given.url, token, os.environ)
    with Client(connection) as client:
        client.get("/v1/projects", {"limit": 1})
    line(f"{connection.url}: kept in {save(connection, os.environ)}")


def _read_token() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        text = getpass("token: ")
    else:
        text = sys.stdin.readline(MAX_TOKEN)
    if not text.strip():
        raise UsageError("no token: give --token, CORRAL_TOKEN, or a line on standard input")
    return text.strip()


def ls(context: typer.Context, project: Project = None, json: Json = False) -> None:
    """List API tokens. What a token says is never shown again, only what it may do."""
    from service.cli.show import as_json, clock_time, table

    with connect(context) as client:
        items = list(client.pages("/v1/tokens", {"project": project}))
    if json:
        as_json(items)
        return
    rows = [
        (
            item["id"],
            item["name"],
            item["role"],
            item.get("project") or "all",
            clock_time(item.get("last_used_at")),
            clock_time(item.get("expires_at")),
        )
        for item in items
    ]
    table(("ID", "NAME", "ROLE", "PROJECT", "LAST USED", "EXPIRES"), rows, empty="no tokens")
