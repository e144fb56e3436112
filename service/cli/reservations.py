"""`corral reservations ls`: what was paid for ahead, and how much of it is free."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.globals import connect


def ls(
    context: typer.Context,
    provider: Annotated[
        str | None, typer.Option("--provider", help="Only this: aws, gcp, azure, standing.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 200,
    json: Json = False,
) -> None:
    """List reservations, capacity blocks and pools of standing nodes, with what is free of each."""
    from service.cli.show import as_json, clock_time, dollars, table, waiting

    params = {"provider": provider, "region": region}
    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/reservations", params, limit=limit))
    if json:
        as_json(items)
        return
    rows = [
        (
            f"{item['provider']}/{item['account']}",
            item["zone"],
            item["name"] or item["id"],
            item["kind"],
            item["instance_type"],
            item["state"],
            _number(item["total"]),
            _number(item["used"]),
            _number(item["free"]),
            clock_time(item["starts_at"]),
            clock_time(item["ends_at"]),
            _price(item, dollars),
        )
        for item in items
    ]
    columns = (
        "ACCOUNT",
        "ZONE",
        "RESERVATION",
        "KIND",
        "TYPE",
        "STATE",
        "TOTAL",
        "USED",
        "FREE",
        "STARTS",
        "ENDS",
        "PRICE/H",
    )
    table(columns, rows, empty="nothing is reserved, or the clouds were not read yet")


def _number(value: int | None) -> str:
    """What is unknown is said to be."""
    return "unknown" if value is None else str(value)


def _price(item: dict[str, Any], dollars: Any) -> str:
    price = item["price_usd_hour"]
    return "paid ahead" if price is None else str(dollars(price, 4))
