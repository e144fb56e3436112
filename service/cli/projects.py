"""`corral project`."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.arguments import Json
from service.cli.globals import connect


def ls(context: typer.Context, json: Json = False) -> None:
    """List the projects that your token may see."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/projects"))
    if json:
        as_json(items)
        return
    rows = [(item["name"], item["id"], clock_time(item["created_at"])) for item in items]
    table(("NAME", "ID", "CREATED"), rows, empty="no projects")


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name.", metavar="NAME")],
    json: Json = False,
) -> None:
    """Make a project."""
    from service.cli.show import as_json, line, waiting

    with connect(context) as client, waiting("asking the service"):
        made = client.post("/v1/projects", {"name": name})
    if json:
        as_json(made)
    else:
        line(f"project {made['name']} ({made['id']})")
