"""`corral login` and `corral token`: who may speak to the service."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from service.cli.arguments import Json, Project
from service.cli.failure import UsageError
from service.cli.globals import Globals, connect

MAX_TOKEN = 1024


def login(context: typer.Context) -> None:
    """Keep address and token for later commands.

    --url is the address; the token comes from --token, CORRAL_TOKEN or standard input. They are tried first,
    then written to ~/.config/corral/credentials, which only you can read.
    """
    from service.cli.client import Client
    from service.cli.connection import find, save
    from service.cli.show import line

    given: Globals = context.obj
    token = given.token or os.environ.get("CORRAL_TOKEN") or _read_token()
    connection = find(given.url, token, os.environ)
    with Client(connection) as client:
        who = client.get("/v1/whoami")
    line(f"{connection.url}: {who['name']}, {who['role']} of {who['project'] or 'all projects'}")
    line(f"kept in {save(connection, os.environ)}")


def _read_token() -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        text = getpass("token: ")
    else:
        text = sys.stdin.readline(MAX_TOKEN)
    if not text.strip():
        raise UsageError("no token: give --token, CORRAL_TOKEN, or a line on standard input")
    return text.strip()


def ls(
    context: typer.Context,
    revoked: Annotated[bool, typer.Option("--revoked", help="Also those that were revoked.")] = False,
    json: Json = False,
) -> None:
    """List API tokens: what each may do. Their texts are kept nowhere."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/tokens", {"revoked": revoked}))
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


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="For people to tell it by.", metavar="NAME")],
    role: Annotated[str, typer.Option("--role", help="admin, member or viewer.")] = "member",
    project: Project = None,
    expires_in: Annotated[
        str | None,
        typer.Option("--expires-in", help="How long it is good for: 12h, 90d, or seconds. Default: always."),
    ] = None,
    json: Json = False,
) -> None:
    """Make a token; it is shown once. With --project it is good for that project only."""
    from service.cli.show import as_json, note, waiting

    body = {"name": name, "role": role, "project": project, "expires_in": expires_in}
    with connect(context) as client, waiting("asking the service"):
        made = client.post("/v1/tokens", {key: value for key, value in body.items() if value is not None})
    if json:
        as_json(made)
        return
    print(made["token"])
    note(f"token {made['id']}, {made['role']}; shown only now")


def revoke(
    context: typer.Context, token: Annotated[str, typer.Argument(help="Its id.", metavar="ID")]
) -> None:
    """Revoke a token at once."""
    from service.cli.show import line, waiting

    with connect(context) as client, waiting("asking the service"):
        client.delete(f"/v1/tokens/{token}")
    line(f"{token}: revoked")
