"""How results look: JSON for programs, plain tables for people."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

SLOW_SECONDS = 1.0
_CLEAR_LINE = "\r\033[K"


def as_json(value: Any) -> None:
    """Print as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print rows under bold headings; `empty` says in words that there are none. Numbers go to the right."""
    if not rows:
        print(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 500)
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int | float) or str(row[index])[:1] == "$" for row in rows)
        grid.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    console.print(grid)


def more(left: int, option: str | None = None) -> None:
    """Say how many rows were left out, and which option shows them; nothing if none was."""
    if left > 0:
        line(f"and {left} more" + (f"; {option} shows them" if option else ""))


def plain(value: object) -> str:
    """Text that cannot steer a terminal; nothing is shown as `-`."""
    return "-" if value is None or value == "" else _printable(str(value))


def line(text: str = "") -> None:
    """Print one line to people who watch, at once."""
    print(_printable(text), flush=True)


def note(text: str) -> None:
    """Something to know beside the result: on stderr."""
    print(_printable(text), file=sys.stderr, flush=True)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Say on stderr what is being done if it takes over a second; on a terminal the line goes away after."""
    terminal = sys.stderr.isatty()
    shown = threading.Event()

    def show() -> None:
        shown.set()
        print(f"{text} ...", end="" if terminal else "\n", file=sys.stderr, flush=True)

    timer = threading.Timer(SLOW_SECONDS, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set() and terminal:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


def moment(text: str | None) -> datetime | None:
    """A time of the wire, RFC 3339."""
    return None if text is None else datetime.fromisoformat(text)


def span(seconds: float) -> str:
    """A duration in its two largest units: `2 d 4 h`, `3 min 5 s`, `12 s`."""
    whole = round(max(0.0, seconds))
    for size, unit, below, below_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {unit}" + (f" {rest} {below_unit}" if rest else "")
    return f"{whole} s"


def between(start: str | None, end: str | None) -> str | None:
    """How long from one time of the wire to another."""
    first, last = moment(start), moment(end)
    return None if first is None or last is None else span((last - first) / timedelta(seconds=1))


def clock_time(text: str | None) -> str | None:
    """A time of the wire as people read it: date and time to the second, UTC."""
    at = moment(text)
    return None if at is None else at.strftime("%Y-%m-%d %H:%M:%S")


def dollars(amount: float | None, places: int = 2) -> str:
    """Money in USD; what is unknown is said to be unknown."""
    return "unknown" if amount is None else f"${amount:,.{places}f}"


def tally(counts: Mapping[str, int]) -> str:
    """`12 too_small, 3 blocked`, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in ordered)
