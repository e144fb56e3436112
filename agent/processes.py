"""Processes as /proc shows them (proc(5)): who lives, in which group, below whom. Linux only."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

_ZOMBIE = ("Z", "X")


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told apart from a later one of the same number by `start` (clock ticks since boot)."""

    pid: int
    start: int

    def alive(self) -> bool:
        """True while this very process runs; a zombie does not."""
        seen = _stat(self.pid)
        return seen is not None and seen.start == self.start and seen.state not in _ZOMBIE


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    state: str
    parent: int
    group: int
    start: int


def identify(pid: int) -> Process | None:
    """The process of this number, or None if there is none."""
    seen = _stat(pid)
    return Process(pid, seen.start) if seen else None


def boot_id() -> str:
    """A new value at each boot of the machine (random(4))."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def members(group: int, below: int | None = None) -> list[int]:
    """Living processes of a process group, and those that descend from process `below`."""
    table = [seen for name in os.listdir("/proc") if name.isdigit() and (seen := _stat(int(name)))]
    living = [seen for seen in table if seen.state not in _ZOMBIE]
    wanted = {seen.pid for seen in living if seen.group == group}
    if below is not None:
        wanted |= _descendants(table, below) & {seen.pid for seen in living}
    return sorted(wanted - {os.getpid()})


def signal_group(group: int, number: signal.Signals) -> None:
    """Send a signal to each process of a group; none left is no error."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def kill(pids: list[int]) -> None:
    """SIGKILL to each; one that is gone is no error."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _descendants(table: list[_Stat], ancestor: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for seen in table:
        children.setdefault(seen.parent, []).append(seen.pid)
    found: set[int] = set()
    queue = [ancestor]
    while queue:
        fresh = [pid for pid in children.get(queue.pop(), []) if pid not in found]
        found.update(fresh)
        queue.extend(fresh)
    return found


def _stat(pid: int) -> _Stat | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may itself hold spaces and brackets.
    fields = line[line.rindex(b")") + 2 :].split()
    return _Stat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        start=int(fields[19]),
    )
