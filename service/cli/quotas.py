"""`corral quota ls|history`: what limits each account, how much of it is free, and how that went."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.arguments import Json
from service.cli.globals import connect


def ls(
    context: typer.Context,
    gpus: Annotated[str | None, typer.Option("--gpus", help="Only what gates these: H100.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Only this cloud.")] = None,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 200,
    json: Json = False,
) -> None:
    """List limits, usage and what is free, in the cloud's unit and in GPUs."""
    from service.cli.show import as_json, span, table, waiting

    params = {"gpu": gpus, "provider": provider, "region": region}
    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/quotas", params, limit=limit))
    items.sort(key=lambda item: [item[key] or "" for key in ("provider", "account", "region", "name")])
    if json:
        as_json(items)
        return
    rows = [
        (
            f"{item['provider']}/{item['account']}",
            item["region"] or "all regions",
            item["name"],
            item["unit"],
            _number(item["limit"]),
            _number(item["usage"]),
            _number(item["in_flight"]),
            _number(item["free"]),
            _number(item["free_gpus"]),
            item["state"],
            span(item["age_seconds"]),
        )
        for item in items
    ]
    columns = (
        "ACCOUNT",
        "REGION",
        "QUOTA",
        "UNIT",
        "LIMIT",
        "USAGE",
        "UNDER WAY",
        "FREE",
        "GPUS FREE",
        "STATE",
        "READ AGO",
    )
    table(columns, rows, empty="no quotas are known yet")


def history(
    context: typer.Context,
    quota_id: Annotated[
        str, typer.Argument(help="The quota's id, as in `corral quota ls --json`.", metavar="ID")
    ],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """How a limit and its usage changed, newest first."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/quota-history", {"quota_id": quota_id}, limit=limit))
    if json:
        as_json(items)
        return
    rows = [(clock_time(item["read_at"]), _number(item["limit"]), _number(item["usage"])) for item in items]
    table(
        ("READ AT", "LIMIT", "USAGE"),
        rows,
        empty="nothing is known of this quota; `corral quota ls --json` has the ids",
    )


def _number(value: float | None) -> str:
    """What is unknown is said to be."""
    return "unknown" if value is None else f"{value:g}"
