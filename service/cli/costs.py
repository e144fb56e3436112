"""`corral cost`: what was spent."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.arguments import Json, Project
from service.cli.failure import UsageError
from service.cli.globals import connect

BY = ("project", "job", "class", "provider", "account", "region", "instance_type", "capacity_type")


def cost(
    context: typer.Context,
    by: Annotated[str, typer.Option("--by", help=f"Added up by: {', '.join(BY)}.")] = "project",
    days: Annotated[float, typer.Option("--days", min=0.01, max=3650, help="Of so many days.")] = 30,
    project: Project = None,
    json: Json = False,
) -> None:
    """Say what instances cost, the dearest first.

    From the prices in force while they ran; without storage, traffic and discounts.
    """
    from service.cli.show import as_json, dollars, line, table, waiting

    if by not in BY:
        raise UsageError(f"--by {by}: allowed are {', '.join(BY)}")
    with connect(context) as client, waiting("asking the service"):
        answer = client.get("/v1/costs", {"by": by, "days": days, "project": project})
    if json:
        as_json(answer)
        return
    rows = [(item["group"], dollars(item["cost_usd"]), item["instance_hours"]) for item in answer["items"]]
    table((by.upper(), "COST", "INSTANCE-HOURS"), rows, empty=f"nothing was spent in {days:g} days")
    if rows:
        line(f"in all {dollars(answer['total_usd'])} in {days:g} days")
