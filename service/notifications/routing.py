"""Which channels an event goes to, and when: pure decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from service.notifications.settings import NotificationRoute, Quiet
from service.notifications.topics import RANKS, Severity

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Handling:
    """One channel's share of an event. `held`: it waits for `due_at`, to go out with what else waits."""

    channel: str
    severity: Severity
    due_at: datetime
    held: bool


def handle(
    routes: Sequence[NotificationRoute],
    topic: str,
    severity: Severity,
    project: str | None,
    now: datetime,
) -> list[Handling]:
    """Every channel that a route names for the event, once: as a page if any route says so, else when the
    first of them would send it.
    """
    found: dict[str, Handling] = {}
    for route in routes:
        if not _matches(route, topic, severity, project):
            continue
        for channel in route.to:
            new = _handling(route, channel, severity, now)
            old = found.get(channel)
            if old is None or _urgency(new) < _urgency(old):
                found[channel] = new
    return list(found.values())


def _matches(route: NotificationRoute, topic: str, severity: Severity, project: str | None) -> bool:
    return (
        (not route.events or topic in route.events)
        and (route.project is None or route.project == project)
        and RANKS[severity] >= RANKS[route.severity]
    )


def _urgency(one: Handling) -> tuple[int, datetime]:
    return (0 if one.severity is Severity.PAGE else 1, one.due_at)


def _handling(route: NotificationRoute, channel: str, severity: Severity, now: datetime) -> Handling:
    if route.page or severity is Severity.PAGE:
        return Handling(channel, Severity.PAGE, now, held=False)
    due = now if route.digest is None else _digest_end(now, route.digest)
    held = route.digest is not None
    if route.quiet is not None:
        loud = quiet_until(route.quiet, due)
        held, due = held or loud > due, loud
    return Handling(channel, severity, due, held)


def _digest_end(now: datetime, seconds: float) -> datetime:
    """Digests end at whole multiples of their length, so that all events of a stretch share one."""
    return datetime.fromtimestamp((now.timestamp() // seconds + 1) * seconds, tz=now.tzinfo)


def quiet_until(quiet: Quiet, at: datetime) -> datetime:
    """The end of the quiet hours that a moment falls into; the moment itself if it falls into none.

    The hours are those of the clock on the wall: on the days on which it is set they last as long as it says.
    """
    start, end = quiet.span
    local = at.astimezone(quiet.zone)
    clock = local.time().replace(tzinfo=None)
    if start < end:
        if not start <= clock < end:
            return at
        day = local.date()
    else:
        if not (clock >= start or clock < end):
            return at
        day = local.date() if clock < end else local.date() + _DAY
    return datetime.combine(day, end, tzinfo=quiet.zone).astimezone(at.tzinfo)
