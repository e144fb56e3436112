"""`corral nodes`: machines of yours that serve jobs one after another."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.globals import connect

Name = Annotated[str, typer.Argument(help="The node's name.", metavar="NAME")]


def add(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A name; rack1-1, rack1-2 … are one pool, rack1.", metavar="NAME")
    ],
    instance_type: Annotated[str, typer.Option("--instance-type", help="What you call this size: dgx-h100.")],
    cost: Annotated[float, typer.Option("--cost-per-month", help="USD a month.", min=0)],
    gpu: Annotated[str | None, typer.Option("--gpu", help="Its GPUs: H100:8.")] = None,
    region: Annotated[str, typer.Option("--region", help="Where it stands.")] = "standing",
    vcpus: Annotated[int, typer.Option("--vcpus", help="0: as the machine says.", min=0)] = 0,
    memory: Annotated[float, typer.Option("--memory", help="GiB; 0: as the machine says.", min=0)] = 0,
    fabric: Annotated[
        str | None, typer.Option("--fabric", help="The pool's interconnect: infiniband, …")
    ] = None,
    json: Json = False,
) -> None:
    """Add a machine of yours and print the command that enrols it, once, within an hour."""
    from service.cli.show import as_json, clock_time, note, waiting

    given: dict[str, Any] = {
        "name": name,
        "instance_type": instance_type,
        "cost_per_month_usd": cost,
        "gpu": gpu,
        "region": region,
        "vcpus": vcpus,
        "memory_gib": memory,
        "fabric": fabric,
    }
    with connect(context) as client, waiting("asking the service"):
        made = client.post("/v1/nodes", {key: value for key, value in given.items() if value is not None})
    if json:
        as_json(made)
        return
    print(made["command"])
    until = clock_time(made["enrol_until"])
    note(f"run this on {name}; it works once, until {until} UTC, and is shown only now")
    if not made["command"].startswith("curl"):
        note("put agent.pyz there first, images/README.md says how it is made; or set agent_zipapp")
    if made["ca"]:
        note("the service's certificate is of your own CA: append --ca FILE with its PEM")


def ls(
    context: typer.Context,
    pool: Annotated[str | None, typer.Option("--pool", help="Only this pool.")] = None,
    json: Json = False,
) -> None:
    """List the machines of yours."""
    from service.cli.show import as_json, clock_time, dollars, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/nodes", {"pool": pool}))
    if json:
        as_json(items)
        return
    rows = [
        (
            item["name"],
            item["pool"],
            f"{item['state']}, draining" if item["draining"] and item["state"] == "busy" else item["state"],
            item["instance_type"],
            f"{item['gpu']}:{item['gpu_count']}" if item["gpu"] else None,
            item["region"],
            dollars(item["price_usd_hour"], 4),
            item["job_id"],
            clock_time(item["seen_at"]),
        )
        for item in items
    ]
    columns = ("NAME", "POOL", "STATE", "TYPE", "GPUS", "REGION", "COST/H", "JOB", "SEEN")
    table(columns, rows, empty="no nodes; `corral nodes add` adds one")


def drain(context: typer.Context, name: Name) -> None:
    """Give a node nothing more; what runs on it runs on to its end."""
    _post(context, name, "drain", "is given nothing more")


def resume(context: typer.Context, name: Name) -> None:
    """Use a drained node again."""
    _post(context, name, "resume", "is used again")


def rm(
    context: typer.Context,
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Although it is in use: only when the machine is off.")
    ] = False,
) -> None:
    """Remove a node; its agent is turned away from then on. The machine is left as it is."""
    from service.cli.show import line, waiting

    with connect(context) as client, waiting("asking the service"):
        client.delete(f"/v1/nodes/{name}" + ("?force=true" if force else ""))
    line(f"{name}: removed")


def _post(context: typer.Context, name: str, verb: str, words: str) -> None:
    from service.cli.show import line, waiting

    with connect(context) as client, waiting("asking the service"):
        client.post(f"/v1/nodes/{name}:{verb}", {})
    line(f"{name} {words}")
