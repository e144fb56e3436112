"""`corral ps`, `explain` and `cancel`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.arguments import JobId, Json, Project
from service.cli.failure import UsageError
from service.cli.globals import connect
from service.cli.naming import job_id

ACTIVE = ("queued", "starting", "running", "stopping")
OVER = ("succeeded", "failed", "cancelled")


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


def explain(context: typer.Context, job: JobId, json: Json = False) -> None:
    """Say why a job waits: for each offer, since and until when."""
    from service.cli.show import as_json, clock_time, line, table, tally, waiting

    with connect(context) as client, waiting("asking the service"):
        answer = client.get(f"/v1/jobs/{job_id(client, job)}:explain")
    if json:
        as_json(answer)
        return
    line(f"{answer['state']}: {answer['detail'] or '-'}")
    if answer["counts"]:
        line(f"passed over: {tally(answer['counts'])}")
    rows = [
        (
            candidate["rank"],
            f"{candidate['provider']}/{candidate['account']}",
            candidate["zone"],
            candidate["instance_type"],
            candidate["capacity_type"],
            candidate["reason"] or "can be tried",
            candidate["detail"],
            clock_time(candidate["since"]),
            clock_time(candidate["until"]),
        )
        for candidate in answer["candidates"]
    ]
    columns = ("RANK", "ACCOUNT", "ZONE", "TYPE", "CAPACITY", "REASON", "DETAIL", "SINCE", "UNTIL")
    table(columns, rows, empty="no offers are known yet")


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
