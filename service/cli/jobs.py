"""`corral ps`, `explain` and `cancel`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from service.cli.arguments import JobId, Json, Project
from service.cli.failure import UsageError
from service.cli.globals import connect
from service.cli.naming import job_id

ACTIVE = ("queued", "starting", "running", "stopping")
OVER = ("succeeded", "failed", "cancelled")
MOST_OFFERS = 5000
"""As many as the service lists in one answer."""


def ps(
    context: typer.Context,
    project: Project = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also jobs that are over.")] = False,
    state: Annotated[list[str] | None, typer.Option("--state", help="Only this state; repeatable.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List jobs that are not over, newest first."""
    from service.cli.show import as_json, between, clock_time, dollars, table, waiting

    states = tuple(state or (() if everything else ACTIVE))
    wrong = set(states) - {*ACTIVE, *OVER}
    if wrong:
        raise UsageError(f"--state {', '.join(sorted(wrong))}: allowed are {', '.join((*ACTIVE, *OVER))}")
    with connect(context) as client, waiting("asking the service"):
        params = {"project": project, "state": ",".join(states) or None}
        items = list(client.pages("/v1/jobs", params, limit=limit))
    if json:
        as_json(items)
        return
    rows = [
        (
            item["id"],
            item["name"],
            item["state"],
            _where(item),
            item["attempts"],
            clock_time(item["submitted_at"]),
            between(item["started_at"], item["ended_at"] or item["now"]),
            dollars(item["cost_usd"]),
            item["detail"],
        )
        for item in items
    ]
    columns = ("ID", "NAME", "STATE", "WHERE", "TRIES", "SUBMITTED", "RAN", "COST", "WHY")
    table(
        columns, rows, empty="no jobs" if everything else "no jobs that are not over; --all lists every one"
    )


def _where(job: dict[str, Any]) -> str | None:
    offer = job["offer"]
    return f"{offer['provider']}/{offer['zone']}" if offer else None


def explain(
    context: typer.Context,
    job: JobId,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MOST_OFFERS, help="At most so many offers.")
    ] = 50,
    json: Json = False,
) -> None:
    """Say why a job waits: for each offer with its GPU, since and until when."""
    from service.cli.show import as_json, line, tally, waiting

    with connect(context) as client, waiting("asking the service"):
        path = f"/v1/jobs/{job_id(client, job)}:explain"
        answer = client.get(path, {"limit": limit if json else MOST_OFFERS})
    if json:
        as_json(answer)
        return
    line(f"{answer['state']}: {answer['detail'] or '-'}")
    if answer["state"] not in ("queued", "starting"):
        return
    if answer["counts"]:
        line(f"passed over: {tally(answer['counts'])}")
    for short in answer["quotas"]:
        line(_quota_hint(short))
    if answer["expected_start"]:
        line(_expected(answer["expected_start"]))
    _show_candidates(answer["candidates"], limit)


def _quota_hint(short: dict[str, Any]) -> str:
    """What is short, what was asked for, and how long that takes elsewhere."""
    from service.cli.show import span

    parts = [f"quota {short['provider']}/{short['region']} ({short['capacity_type']}): {short['detail']}"]
    if short["request"]:
        parts.append(f"request {short['request']['id']} is {short['request']['state']}")
    if short["similar"]:
        decision = short["similar"]["decision"]
        took = span(decision["p50_seconds"])
        parts.append(f"similar requests here took a median of {took}, n = {decision['n']}")
    return "; ".join(parts)


def _expected(start: dict[str, Any]) -> str:
    from service.cli.show import span

    soon, median = start["expected_in_seconds"], start["p50_seconds"]
    when = f"in about {span(soon)}" if soon else "any moment; it waits longer than most"
    where = f"{start['provider']}/{start['region']} {start['capacity_type']}"
    return f"expected: {when} (jobs waited {span(median)} for {where} in the median, n = {start['n']})"


def of_interest(candidates: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the offers of other GPUs, of which there are hundreds; all, if there are no others."""
    found = [candidate for candidate in candidates if candidate["reason"] != "wrong_gpu"]
    return found or list(candidates)


def _show_candidates(candidates: Sequence[dict[str, Any]], limit: int) -> None:
    from service.cli.show import clock_time, dollars, more, table

    found = of_interest(candidates)
    rows = [
        (
            candidate["rank"],
            f"{candidate['provider']}/{candidate['account']}",
            candidate["zone"],
            candidate["instance_type"],
            candidate["capacity_type"],
            dollars(candidate["price_usd_hour"], 4),
            candidate["reason"] or "can be tried",
            candidate["detail"],
            clock_time(candidate["since"]),
            clock_time(candidate["until"]),
        )
        for candidate in found[:limit]
    ]
    columns = ("RANK", "ACCOUNT", "ZONE", "TYPE", "CAPACITY", "PRICE/H", "REASON", "DETAIL", "SINCE", "UNTIL")
    table(columns, rows, empty="no offers are known yet")
    more(len(found) - len(rows), "--limit")


def cancel(context: typer.Context, job: JobId, json: Json = False) -> None:
    """Stop a job.

    It is told, may write a last checkpoint, and its instances are ended.
    """
    from service.cli.show import as_json, line, waiting

    with connect(context) as client, waiting("asking the service"):
        which = job_id(client, job, to_change=True)
        answer = client.post(f"/v1/jobs/{which}:cancel")
    if json:
        as_json(answer)
    else:
        line(f"{which}: {answer['state']}")
