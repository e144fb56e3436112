"""`corral logs` and `corral events`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.arguments import JobId, Json, Project
from service.cli.failure import CommandError, ExitCode
from service.cli.globals import connect
from service.cli.naming import job_id

if TYPE_CHECKING:
    from service.cli.client import Client

LOOK_SECONDS = 1.0


def logs(
    context: typer.Context,
    job: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more comes.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, help="Only the last lines.")] = None,
    rank: Annotated[int, typer.Option("--rank", min=0, help="Which node.")] = 0,
    attempt: Annotated[
        int | None, typer.Option("--attempt", min=1, help="Which attempt; default: the last that ran.")
    ] = None,
) -> None:
    """Print what a job has written.

    With -f the exit code is the job's outcome.
    """
    with connect(context) as client:
        job = job_id(client, job)
        if not follow:
            params = {"rank": rank, "attempt": attempt, "tail": tail}
            for part in client.download(f"/v1/jobs/{job}/logs", params):
                sys.stdout.buffer.write(part)
            sys.stdout.flush()
            return
        from service.cli.follow import stream_output

        state = stream_output(client, job, rank=rank, attempt=attempt, tail=tail)
        if state in ("failed", "cancelled"):
            raise CommandError(f"{job} {state}", ExitCode.FAILED)


def events(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(help="Only of this job (id or name), oldest first; or none: all, newest first."),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Of a job: go on until it is over.")] = False,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind.")] = None,
    project: Project = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """Show what happened."""
    from service.cli.show import as_json, waiting

    if follow and job is None:
        raise typer.BadParameter("goes with a JOB", param_hint="--follow")
    with connect(context) as client:
        job = None if job is None else job_id(client, job)
        if follow and job is not None:
            _follow_events(client, job, kind, json=json)
            return
        with waiting("asking the service"):
            items = _events(client, job, kind, project, limit)
    if json:
        as_json(items)
    else:
        _show(items)


def _events(
    client: Client, job: str | None, kind: str | None, project: str | None, limit: int
) -> list[dict[str, Any]]:
    if job is None:
        return list(client.pages("/v1/events", {"project": project, "kind": kind}, limit=limit))
    found = [item for item in client.pages(f"/v1/jobs/{job}/events") if kind in (None, item["kind"])]
    return found[-limit:]


def _follow_events(client: Client, job: str, kind: str | None, *, json: bool) -> None:
    """Until the job is over: a line an event, as JSON or for people."""
    from json import dumps

    from service.cli.follow import EventTail
    from service.cli.jobs import OVER
    from service.cli.show import clock_time, line

    tail = EventTail(client, job)
    while True:
        over = client.get(f"/v1/jobs/{job}")["state"] in OVER
        for event in tail.new():
            if kind not in (None, event["kind"]):
                continue
            if json:
                print(dumps(event, ensure_ascii=False), flush=True)
            else:
                line(f"{clock_time(event['at'])}  {event['kind']:<20}  {event['message']}")
        if over:
            return
        time.sleep(LOOK_SECONDS)


def _show(items: list[dict[str, Any]]) -> None:
    from service.cli.show import clock_time, table

    rows = [(clock_time(item["at"]), item["kind"], item["subject_id"], item["message"]) for item in items]
    table(("AT", "KIND", "OF", "WHAT"), rows, empty="no events")
