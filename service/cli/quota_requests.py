"""`corral quota request|requests|show|approve|deny|withdraw|waits`: asking a cloud for more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.failure import CommandError, ExitCode
from service.cli.globals import connect

RequestId = Annotated[str, typer.Argument(help="The request's id.", metavar="ID")]
Place = Annotated[str, typer.Argument(help="PROVIDER/REGION: aws/us-east-1.", metavar="PLACE")]


def request(
    context: typer.Context,
    place: Place,
    gpus: Annotated[
        str | None, typer.Argument(help="Room for so many more: H100:16.", metavar="GPUS")
    ] = None,
    spot: Annotated[bool, typer.Option("--spot", help="For spot, whose limits are often apart.")] = False,
    account: Annotated[
        str | None, typer.Option("--account", help="Where the cloud has several accounts.")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option("--type", help="The instance type that is counted.", metavar="TYPE")
    ] = None,
    instances: Annotated[
        int | None, typer.Option("--instances", min=1, help="Instead of GPUs: instances of --type.")
    ] = None,
    up_to: Annotated[
        int | None, typer.Option("--up-to", min=1, help="How many are wanted in the end, by asking again.")
    ] = None,
    why: Annotated[str, typer.Option("--why", help="A sentence for the justification.")] = "",
    propose: Annotated[bool, typer.Option("--propose", help="Do not file: let an admin decide.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be asked for.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it is filed.")] = False,
    json: Json = False,
) -> None:
    """Ask for more quota: shows every limit that has to grow, then files the requests."""
    from service.cli.show import as_json, waiting

    provider, region = _parts(place)
    body = {
        "provider": provider,
        "region": region,
        "account": account,
        "gpu": gpus,
        "instance_type": instance_type,
        "instances": instances,
        "capacity_type": "spot" if spot else "on_demand",
        "up_to": up_to,
        "why": why,
        "propose": propose,
    }
    with connect(context) as client:
        with waiting("asking the service"):
            plan = client.post("/v1/quota-requests:plan", body)
        if not (json and (yes or dry_run)):
            _show_plan(plan)
        if dry_run:
            if json:
                as_json(plan)
            return
        if not yes and not typer.confirm("File this?", default=False, err=True):
            raise CommandError("nothing was filed", ExitCode.FAILED)
        answer = client.post("/v1/quota-requests", body)
    if json:
        as_json(answer["items"])
    else:
        _table(answer["items"])


def requests(
    context: typer.Context,
    state: Annotated[str | None, typer.Option("--state", help="Only those in this state.")] = None,
    undecided: Annotated[bool, typer.Option("--open", help="Only those that are undecided.")] = False,
    gpus: Annotated[str | None, typer.Option("--gpus", help="Only for these: H100.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Only this cloud.")] = None,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List requests for more quota, newest first; those filed by hand in a console included."""
    from service.cli.show import as_json, waiting

    params = {
        "state": state,
        "open": "true" if undecided else None,
        "gpu": gpus,
        "provider": provider,
        "region": region,
    }
    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/quota-requests", params, limit=limit))
    if json:
        as_json(items)
    else:
        _table(items)


def show(context: typer.Context, request_id: RequestId, json: Json = False) -> None:
    """Show one request: what was asked for, what was granted, and when."""
    from service.cli.show import as_json, line

    with connect(context) as client:
        item = client.get(f"/v1/quota-requests/{request_id}")
    if json:
        as_json(item)
        return
    for name, value in item.items():
        if value not in (None, ""):
            line(f"{name:16} {_readable(name, value)}")


def approve(context: typer.Context, request_id: RequestId, json: Json = False) -> None:
    """File a proposed request."""
    _decide(context, request_id, "approve", None, json)


def deny(
    context: typer.Context,
    request_id: RequestId,
    why: Annotated[str, typer.Option("--why", help="A sentence that is kept with it.")] = "",
    json: Json = False,
) -> None:
    """Turn a proposed request down."""
    _decide(context, request_id, "deny", {"why": why}, json)


def withdraw(context: typer.Context, request_id: RequestId, json: Json = False) -> None:
    """Take a request back that was not sent yet."""
    _decide(context, request_id, "withdraw", None, json)


def waits(
    context: typer.Context,
    gpus: Annotated[str | None, typer.Option("--gpus", help="Only for these: H100.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Only this cloud.")] = None,
    region: Annotated[str | None, typer.Option("--region", help="Only this region.")] = None,
    json: Json = False,
) -> None:
    """How long requests took, from filing to decision and to effect, and how much was granted; beside it
    how long jobs waited for capacity itself.
    """
    from service.cli.show import as_json, line, table, waiting

    params = {"gpu": gpus, "provider": provider, "region": region}
    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/quota-waits", params))
        capacity = list(client.pages("/v1/capacity-waits", params))
    if json:
        as_json({"quota": items, "capacity": capacity})
        return
    rows = [
        (
            item["provider"],
            item["gpu"] or "-",
            item["region"] or "all regions",
            item["size"] or "-",
            _took(item["decision"]["p50_seconds"]),
            _took(item["decision"]["p90_seconds"]),
            item["decision"]["n"],
            _took(item["effect"]["p50_seconds"]),
            _took(item["effect"]["p90_seconds"]),
            "unknown" if item["share_granted"] is None else f"{item['share_granted']:.0%}",
            item["open"],
        )
        for item in items
    ]
    columns = (
        "CLOUD",
        "GPU",
        "REGION",
        "GPUS",
        "DECIDED P50",
        "P90",
        "N",
        "IN EFFECT P50",
        "P90",
        "GRANTED",
        "OPEN",
    )
    table(columns, rows, empty="no requests are known yet")
    line()
    _show_capacity(capacity)


def _show_capacity(items: Sequence[Mapping[str, Any]]) -> None:
    """How long jobs waited for capacity, quota aside."""
    from service.cli.show import table

    rows = [
        (
            item["provider"],
            item["gpu"] or "-",
            item["region"],
            item["capacity_type"],
            _took(item["p50_seconds"]),
            _took(item["p90_seconds"]),
            item["n"],
        )
        for item in items
    ]
    columns = ("CLOUD", "GPU", "REGION", "CAPACITY", "STARTED P50", "P90", "N")
    table(columns, rows, empty="no job has waited for capacity yet")


def _parts(place: str) -> tuple[str, str]:
    provider, _, region = place.partition("/")
    if not provider or not region or "/" in region:
        raise CommandError(f"PLACE: {place}: write PROVIDER/REGION, such as aws/us-east-1", ExitCode.USAGE)
    return provider, region


def _show_plan(plan: Mapping[str, Any]) -> None:
    from service.cli.show import line, span, table

    rows = [
        (
            one["name"],
            one["region"] or "all regions",
            one["unit"],
            _number(one["limit"]),
            _number(one["usage"]),
            _number(one["requested"]) if one["verdict"] == "raise" else "-",
            _says(one),
        )
        for one in plan["limits"]
    ]
    what = f"{plan['instances']} x {plan['instance_type']} ({plan['capacity_type']})"
    line(f"{plan['provider']}/{plan['account']} {plan['region']}: room for {what}, {plan['gpus']} GPUs")
    table(("LIMIT", "REGION", "UNIT", "NOW", "USED", "ASK FOR", "WHAT"), rows, empty="no limit is known")
    like = plan["similar"]
    if like and like["decision"]["n"]:
        decision = like["decision"]
        line(f"similar requests took a median of {span(decision['p50_seconds'])} (n = {decision['n']})")


def _says(one: Mapping[str, Any]) -> str:
    if one["open_request"]:
        return f"is asked for: {one['open_request']}"
    words = {
        "raise": "to be raised",
        "enough": "is enough",
        "unknown": "is unknown",
        "fixed": "cannot be raised",
    }
    return words[one["verdict"]]


def _table(items: Sequence[Mapping[str, Any]]) -> None:
    from service.cli.show import span, table

    rows = [
        (
            item["id"],
            f"{item['provider']}/{item['region'] or item['account']}",
            item["name"],
            _number(item["limit_before"]),
            _number(item["requested"]),
            _number(item["granted"]) if item["granted"] is not None or item["decided_at"] else None,
            item["unit"] or "",
            f"{item['state']}{' (in effect)' if item['effective_at'] else ''}",
            span(item["age_seconds"]),
        )
        for item in items
    ]
    columns = ("ID", "PLACE", "LIMIT", "BEFORE", "REQUESTED", "GRANTED", "UNIT", "STATE", "AGE")
    table(columns, rows, empty="no requests")


def _decide(
    context: typer.Context, request_id: str, decision: str, body: Mapping[str, Any] | None, json: bool
) -> None:
    from service.cli.show import as_json, line

    with connect(context) as client:
        answer = client.post(f"/v1/quota-requests/{request_id}:{decision}", body)
    if json:
        as_json(answer)
    else:
        line(f"{answer['id']}: {answer['state']}")


def _readable(name: str, value: Any) -> Any:
    from service.cli.show import clock_time

    if name.endswith("_at"):
        return f"{clock_time(value)} UTC"
    return _number(value) if isinstance(value, float) else value


def _took(seconds: float | None) -> str:
    from service.cli.show import span

    return "unknown" if seconds is None else span(seconds)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
