"""`corral notifications`: what people were told, what did not arrive, and whether a channel works."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from service.cli.arguments import Json
from service.cli.failure import CommandError, UsageError
from service.cli.globals import connect

TRIED_FOR = 20.0
"""Seconds that `test` waits for an answer."""
LOOK_EVERY = 0.3

Channel = Annotated[str, typer.Argument(help="The channel's name in the settings.", metavar="CHANNEL")]


def ls(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option("--state", help="Only waiting, sending, sent or dead ones.")
    ] = None,
    channel: Annotated[str | None, typer.Option("--channel", help="Only to this channel.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List notifications, the newest first; dead ones were given up."""
    from service.cli.show import as_json, clock_time, table, waiting

    with connect(context) as client, waiting("asking the service"):
        items = list(client.pages("/v1/notifications", {"state": state, "channel": channel}, limit=limit))
    if json:
        as_json(items)
        return
    rows = [
        (
            item["id"],
            item["channel"],
            item["state"],
            item["severity"],
            item["topic"] or item["form"],
            item["subject"],
            item["size"],
            clock_time(item["created_at"]),
            item["error"],
        )
        for item in items
    ]
    columns = ("ID", "CHANNEL", "STATE", "SEVERITY", "ABOUT", "SUBJECT", "EVENTS", "MADE AT", "ERROR")
    table(columns, rows, empty="no notifications")


def show(
    context: typer.Context,
    notification: Annotated[str, typer.Argument(help="The notification's id.", metavar="ID")],
    json: Json = False,
) -> None:
    """Show what one notification says."""
    from service.cli.show import as_json, line

    with connect(context) as client:
        item = client.get(f"/v1/notifications/{notification}")
    if json:
        as_json(item)
        return
    tries = f", refused {item['tries']} times" if item["tries"] else ""
    line(f"{item['id']} to {item['channel']}: {item['state']}{tries}")
    if item["error"]:
        line(f"error: {item['error']}")
    line()
    for text in (item["title"] or "its events are no longer kept", *item["lines"], *item["listed"]):
        line(text)
    if item["command"]:
        line(f"more: {item['command']}")


def resend(
    context: typer.Context,
    notifications: Annotated[
        list[str] | None, typer.Argument(help="Ids of dead notifications.", metavar="[ID]...")
    ] = None,
    channel: Annotated[
        str | None, typer.Option("--channel", help="All dead ones of this channel, the oldest first.")
    ] = None,
    json: Json = False,
) -> None:
    """Send dead notifications again, under their old ids."""
    from service.cli.show import as_json, line

    if bool(notifications) == bool(channel):
        raise UsageError("give ids, or --channel for all dead ones of a channel")
    with connect(context) as client:
        ids = list(notifications or ())
        if channel:
            dead = client.pages("/v1/notifications", {"state": "dead", "channel": channel})
            ids = [item["id"] for item in dead][::-1]
        answers = [client.post(f"/v1/notifications/{id_}:resend") for id_ in ids]
    if json:
        as_json(answers)
        return
    line(f"{len(answers)} to be sent again")


def channels(context: typer.Context, json: Json = False) -> None:
    """List the channels of the settings and how they do."""
    from service.cli.show import as_json, clock_time, table

    with connect(context) as client:
        items = list(client.get("/v1/notification-channels")["items"])
    if json:
        as_json(items)
        return
    rows = [
        (
            item["name"],
            item["type"],
            item["events_waiting"],
            item["dead"],
            clock_time(item["sent_at"]),
            item["error"],
        )
        for item in items
    ]
    table(("CHANNEL", "TYPE", "WAITING", "DEAD", "LAST SENT", "ERROR"), rows, empty="the settings have none")


def try_out(context: typer.Context, channel: Channel, json: Json = False) -> None:
    """Send one message to a channel and say whether it arrived."""
    from service.cli.show import as_json, line, waiting

    with connect(context) as client, waiting(f"waiting for {channel}"):
        before = {item["id"] for item in _tests(client, channel)}
        client.post(f"/v1/notification-channels/{channel}:test")
        item = _arrived(client, channel, before)
    if json:
        as_json(item)
    else:
        line(f"{channel}: the message has arrived ({item['id']})")


def _tests(client: Any, channel: str) -> list[Any]:
    return list(client.pages("/v1/notifications", {"subject": f"channel/{channel}"}, limit=20))


def _arrived(client: Any, channel: str, before: set[str]) -> Any:
    """The message, once it is sent; CommandError says why it is not."""
    import time

    until = time.monotonic() + TRIED_FOR
    error = "nothing was sent yet"
    while time.monotonic() < until:
        for item in _tests(client, channel):
            if item["id"] in before:
                continue
            if item["state"] == "sent":
                return item
            error = item["error"] or error
            if item["error"]:
                again = "it is given up" if item["state"] == "dead" else "it is tried again"
                raise CommandError(f"{channel}: {error}; {again}")
        time.sleep(LOOK_EVERY)
    raise CommandError(f"{channel}: {error}; corral notifications ls shows how it goes on")
