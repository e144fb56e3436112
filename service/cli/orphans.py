"""`corral instance end|adopt|confirm-sweep`: what a person decides about orphans."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.arguments import Json
from service.cli.globals import connect

InstanceId = Annotated[str, typer.Argument(help="The instance's id, as in `corral instances`.", metavar="ID")]


def end(context: typer.Context, instance: InstanceId, json: Json = False) -> None:
    """End an instance that bears our tag and belongs to no job."""
    _decide(context, instance, "end", json)


def adopt(context: typer.Context, instance: InstanceId, json: Json = False) -> None:
    """Leave such an instance alone: it is never ended by us."""
    _decide(context, instance, "adopt", json)


def confirm_sweep(context: typer.Context, json: Json = False) -> None:
    """Turn the orphan sweep on again after a restored backup or a changed deployment id.

    Look at `corral instances` and the clouds' consoles first: what bears the tag and is in no row is ended.
    """
    from service.cli.show import as_json, line

    with connect(context) as client:
        answer = client.post("/v1/deployment:confirm-sweep")
    if json:
        as_json(answer)
    else:
        line("the orphan sweep is on" + ("" if answer["changed"] else "; it was before"))


def _decide(context: typer.Context, instance: str, decision: str, json: bool) -> None:
    from service.cli.show import as_json, line

    with connect(context) as client:
        answer = client.post(f"/v1/instances/{instance}:{decision}")
    if json:
        as_json(answer)
    else:
        line(f"{answer['id']} ({answer['provider_id']}): {answer['reason'] or answer['state']}")
