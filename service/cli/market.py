"""`corral offers` and `corral instances`: what could be had, and what is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.globals import connect

Provider = Annotated[str | None, typer.Option("--provider", help="Only this cloud: aws, gcp, azure.")]
Region = Annotated[str | None, typer.Option("--region", help="Only this region.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")]


def offers(
    context: typer.Context,
    gpus: Annotated[str | None, typer.Option("--gpus", help="Only with these: H100, H100:8.")] = None,
    provider: Provider = None,
    region: Region = None,
    capacity_type: Annotated[
        str | None, typer.Option("--capacity-type", help="Only this: spot, on_demand, reserved.")
    ] = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List what the clouds sell to us, cheapest first."""
    from service.cli.show import as_json, clock_time, dollars, table, waiting

    params = {"gpu": gpus, "provider": provider, "region": region, "capacity_type": capacity_type}
    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/offers", params, limit=limit))
    if json:
        as_json(items)
        return
    rows = [
        (
            f"{item['provider']}/{item['account']}",
            item["zone"],
            item["instance_type"],
            f"{item['gpu']}:{item['gpu_count']}" if item["gpu"] else None,
            item["capacity_type"],
            _price(item, dollars),
            clock_time(item["priced_at"]),
            _avoided(item["block"]),
        )
        for item in items
    ]
    columns = ("ACCOUNT", "ZONE", "TYPE", "GPUS", "CAPACITY", "PRICE/H", "PRICED AT", "AVOIDED")
    table(columns, rows, empty="no offers; no account is configured, or the clouds were not read yet")


def _price(item: dict[str, Any], dollars: Any) -> str:
    """The price, with a mark where it is the list price that ships with Corral."""
    price = item["price_usd_hour"]
    if price is None and item["capacity_type"] == "reserved":
        return "paid ahead"
    return f"{dollars(price, 4)}" + (" (list)" if item["price_source"] == "snapshot" else "")


def _avoided(block: dict[str, Any] | None) -> str | None:
    from service.cli.show import clock_time

    if block is None:
        return None
    until = clock_time(block["until"])
    return f"{block['code'] or block['kind']}" + (f", until {until}" if until else "")


def instances(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also those that are gone.")] = False,
    provider: Provider = None,
    limit: Limit = 50,
    json: Json = False,
) -> None:
    """List live instances, newest first."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        params = {"provider": provider, "all": everything or None}
        items = list(client.pages("/v1/instances", params, limit=limit))
    if json:
        as_json(items)
        return
    rows = [
        (
            item["id"],
            item["provider_id"],
            f"{item['provider']}/{item['zone']}",
            item["instance_type"],
            item["capacity_type"],
            item["state"],
            item["job_id"],
            _utilization(item["gpus_now"]),
            clock_time(item["agent_seen_at"]),
            clock_time(item["notice_deadline"]),
        )
        for item in items
    ]
    columns = (
        "ID",
        "CLOUD'S ID",
        "WHERE",
        "TYPE",
        "CAPACITY",
        "STATE",
        "JOB",
        "GPU USE",
        "AGENT SEEN",
        "NOTICE UNTIL",
    )
    table(columns, rows, empty="no instances" if everything else "no live instances; --all lists every one")


def _utilization(gpus: Sequence[Mapping[str, Any]]) -> str | None:
    """How busy the GPUs of an instance are on average; None where they do not say."""
    known = [gpu["utilization"] for gpu in gpus if gpu["utilization"] is not None]
    return f"{100 * sum(known) / len(known):.0f} %" if known else None
