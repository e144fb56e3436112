"""`corral plan` and `corral run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.arguments import Json, Project
from service.cli.globals import Globals, connect

if TYPE_CHECKING:
    from service.cli.client import Client

SpecFile = Annotated[
    Path | None, typer.Argument(help="The job's spec, YAML or JSON; or none, and a command after --.")
]
Gpus = Annotated[str | None, typer.Option("--gpus", help="GPUs per node: H100:8, L4.")]
Name = Annotated[str | None, typer.Option("--name", help="The job's name.")]
Class = Annotated[str | None, typer.Option("--class", help="core, exploration or preprocessing.")]
Spot = Annotated[bool | None, typer.Option("--spot/--on-demand", help="Only spot, or never spot.")]
MaxPrice = Annotated[float | None, typer.Option("--max-price", help="At most so many USD per node-hour.")]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", help="Only here: aws, gcp/us-central1; repeatable.")
]
Nodes = Annotated[int | None, typer.Option("--nodes", help="How many nodes.")]
Env = Annotated[
    list[str] | None, typer.Option("--env", "-e", help="NAME=VALUE, or NAME of this shell; repeatable.")
]
Secrets = Annotated[
    list[str] | None, typer.Option("--secret", help="A secret of the project, by name; repeatable.")
]


def plan(
    context: typer.Context,
    file: SpecFile = None,
    gpus: Gpus = None,
    name: Name = None,
    run_class: Class = None,
    spot: Spot = None,
    max_price: MaxPrice = None,
    allow: Allow = None,
    nodes: Nodes = None,
    env: Env = None,
    secret: Secrets = None,
    project: Project = None,
    json: Json = False,
) -> None:
    """Show where a job would run, and why not elsewhere.

    Nothing is created.

    corral plan FILE, or: corral plan --gpus H100:8 -- python train.py
    """
    from service.cli.show import as_json, waiting
    from service.cli.specfile import Options, build
    from service.cli.uploads import without_uploads

    options = Options(
        gpus, name, run_class, spot, max_price, _all(allow), nodes, _all(env), _all(secret), project
    )
    spec = without_uploads(build(file, _command(context), options, os.environ))
    with connect(context) as client, waiting("planning"):
        answer = client.post("/v1/jobs:plan", spec)
    if json:
        as_json(answer)
    else:
        _show_plan(answer)


def run(
    context: typer.Context,
    file: SpecFile = None,
    gpus: Gpus = None,
    name: Name = None,
    run_class: Class = None,
    spot: Spot = None,
    max_price: MaxPrice = None,
    allow: Allow = None,
    nodes: Nodes = None,
    env: Env = None,
    secret: Secrets = None,
    workdir: Annotated[
        Path | None, typer.Option("--workdir", help="Pack this directory and run in it; honours .gitignore.")
    ] = None,
    project: Project = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not follow it.")] = False,
    json: Json = False,
) -> None:
    """Submit a job and follow it to its end. Ctrl-C stops following, not the job.

    corral run FILE, or: corral run --gpus H100:8 --workdir . -- python train.py
    """
    from service.cli.show import as_json, note
    from service.cli.specfile import Options, build
    from service.cli.uploads import with_uploads

    options = Options(
        gpus, name, run_class, spot, max_price, _all(allow), nodes, _all(env), _all(secret), project
    )
    spec = build(file, _command(context), options, os.environ)
    with connect(context) as client:
        beside = file.parent if file is not None else Path()
        job = submit(client, with_uploads(client, spec, beside, workdir))
        if detach:
            as_json(job) if json else print(job["id"])
            return
        for warning in job["warnings"]:
            note(warning)
        note(f"{job['id']} ({job['name']}) is {job['state']}")
        from service.cli.follow import follow

        raise typer.Exit(follow(client, job["id"], json=json))


def submit(client: Client, spec: dict[str, Any]) -> dict[str, Any]:
    """Send a spec, once: a key of ours makes a repeated request harmless. The job."""
    import uuid

    from service.cli.failure import CommandError, ExitCode
    from service.cli.show import waiting

    headers = {"Idempotency-Key": str(uuid.uuid4())}
    with waiting("submitting"):
        try:
            answer: dict[str, Any] = client.post("/v1/jobs", spec, headers=headers)
        except CommandError as error:
            if error.code is not ExitCode.UNREACHABLE:
                raise
            answer = client.post("/v1/jobs", spec, headers=headers)
    return answer


def _command(context: typer.Context) -> tuple[str, ...]:
    given: Globals = context.obj
    return given.command


def _all(values: list[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def _show_plan(answer: dict[str, Any]) -> None:
    from service.cli.show import dollars, line, more, note, table, tally

    rows = [
        (
            offer["rank"],
            f"{offer['provider']}/{offer['account']}",
            offer["zone"],
            offer["instance_type"],
            offer["capacity_type"],
            dollars(offer["price_usd_hour"], 4),
        )
        for offer in answer["offers"]
    ]
    columns = ("RANK", "ACCOUNT", "ZONE", "TYPE", "CAPACITY", "PRICE/H")
    unknown = "no offers are known: no account is configured, or the clouds were not read yet"
    table(columns, rows, empty="no offer can be tried now" if answer["counts"] else unknown)
    more(answer["total_offers"] - len(rows))
    if answer["counts"]:
        line(f"passed over: {tally(answer['counts'])}")
    for warning in answer["warnings"]:
        note(warning)
