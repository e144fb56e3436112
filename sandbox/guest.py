"""Process 1 of a local machine. Run as a script; standard library only, and little of it: it starts in 20 ms.

It starts the agent's unit, starts it again after a failure as systemd would, and is the parent of whatever
anything on the machine leaves behind, so that the whole machine can be ended at once. Its standard input is a
line to the sandbox: when that closes, for whatever reason, the machine loses its power.

    python guest.py POWEROFF_FILE COMMAND...

Exit code 0: powered off from inside. SIGTERM: everything is told to end in good order, nothing is restarted.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time

_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER, linux/prctl.h
_RESTARTS = 5
_RESTART_SECONDS = 0.1  # real seconds, systemd's own default
_ROUNDS = 500


def main(poweroff: str, command: list[str]) -> int:
    """Serve as process 1 until the machine is off."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    going_down = False

    def go_down(number: int, frame: object) -> None:
        nonlocal going_down
        going_down = True
        signal_all(signal.SIGTERM)

    waker, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, go_down)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    try:
        unit = _start(command)
    except OSError as error:
        print(f"unit cannot be started: {error}", flush=True)  # noqa: T201
        return 1
    restarts = 0
    while True:
        readable, _, _ = select.select([0, waker], [], [])
        if 0 in readable and not os.read(0, 1024):
            end_below(os.getpid())
            return 1
        if waker in readable:
            os.read(waker, 1024)
        status = _reap().get(unit)
        if status is None:
            continue
        if os.path.exists(poweroff):
            end_below(os.getpid())
            return 0
        if status != 0 and not going_down and restarts < _RESTARTS:
            restarts += 1
            print(f"unit ended with {status}; start {restarts} of {_RESTARTS}", flush=True)  # noqa: T201
            time.sleep(_RESTART_SECONDS)
            unit = _start(command)


def _start(command: list[str]) -> int:
    quiet = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    # Python sets LC_CTYPE for itself where there is no locale (PEP 538); it was not given to us.
    environment = {key: value for key, value in os.environ.items() if key != "LC_CTYPE"}
    return os.posix_spawnp(command[0], command, environment, file_actions=quiet, setsid=True)


def _reap() -> dict[int, int]:
    """Collect whatever has ended: pid -> exit code, negative for a signal."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = os.waitstatus_to_exitcode(status)


def signal_all(number: int) -> None:
    """Signal every process below this one."""
    for pid in below(os.getpid()):
        _signal(pid, number)


def end_below(pid: int) -> None:
    """Kill every process below `pid`, again until none is left: what is killed may just have forked."""
    for _ in range(_ROUNDS):
        alive = below(pid)
        if not alive:
            return
        for child in alive:
            _signal(child, signal.SIGKILL)
        time.sleep(0.002)


def below(pid: int) -> list[int]:
    """Processes below `pid` that still run, at whatever depth."""
    children: dict[int, list[int]] = {}
    ended = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent, _ = look(int(name))
            children.setdefault(parent, []).append(int(name))
            if state in "ZX":
                ended.add(int(name))
    found: list[int] = []
    queue = list(children.get(pid, ()))
    while queue:
        child = queue.pop()
        queue += children.get(child, ())
        if child not in ended:
            found.append(child)
    return found


def look(pid: int) -> tuple[str, int, int]:
    """A process's state letter, parent and start time in ticks since boot (proc_pid_stat(5)); X if gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
        return fields[0], int(fields[1]), int(fields[19])
    except (OSError, IndexError):
        return "X", 0, 0


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
