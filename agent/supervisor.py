"""The process between the agent and the job: a restart of the agent takes nothing from either.

It starts one command in a session of its own, pumps its output through redaction into the spool, and
writes down how it ended. Standard library only, and little of it: it starts with every stage of a job.
`agent.stages` is the other side.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

from agent.durable import write_json
from agent.processes import boot_id, identify
from agent.redaction import Redactor
from agent.spool import Spool

_READ = 65536
_DRAIN = 1 << 20  # bytes read at most between the command's end and its report; a pipe holds no more
_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


def main(folder: str) -> int:
    """Run the command described on standard input (see `agent.stages.Command`) to its end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the agent blocks some, and masks are inherited
    order = json.load(sys.stdin)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _carry_on)  # a handler, not SIG_IGN: the command must not inherit it
    _adopt_orphans()
    output, inlet = os.pipe()
    try:
        child = _spawn(order, inlet)
    except (OSError, ValueError) as error:
        failed = {"error": str(error), "exit_code": 127, "signal": None, "disk_full": False}
        write_json(os.path.join(folder, "exit.json"), failed)
        return 1
    os.close(inlet)
    me = identify(os.getpid())
    job = identify(child.pid)
    write_json(
        os.path.join(folder, "process.json"),
        {
            "boot_id": boot_id(),
            "supervisor": [os.getpid(), me.start if me else 0],
            "job": [child.pid, job.start if job else 0],
        },
    )
    os.close(sys.stdout.fileno())  # the agent waits for this
    spool = Spool(order["spool"], order["log_limit_bytes"])
    _Pump(child, output, spool, Redactor(order["secrets"]), folder).run()
    return 0


def _carry_on(number: int, frame: FrameType | None) -> None:
    return None


def _adopt_orphans() -> None:
    """Processes that the job leaves behind become ours, so that none escapes the agent's last kill."""
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _spawn(order: dict[str, Any], inlet: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        order["argv"],
        env=order["env"],
        cwd=order["cwd"],
        stdin=subprocess.DEVNULL,
        stdout=inlet,
        stderr=inlet,
        start_new_session=True,
        preexec_fn=_ordinary_victim,
    )


def _ordinary_victim() -> None:
    """Undo the agent's own shelter from the kernel's out-of-memory killer."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:
        return


class _Pump:
    """Moves output until the pipe ends, and reports the command's end when it comes, once."""

    def __init__(
        self, child: subprocess.Popen[bytes], output: int, spool: Spool, redactor: Redactor, folder: str
    ) -> None:
        self._child = child
        self._output = output
        self._spool = spool
        self._redactor = redactor
        self._folder = folder
        self._open = True
        os.set_blocking(output, False)
        self._wake, wake_inlet = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_inlet, False)
        signal.set_wakeup_fd(wake_inlet, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _carry_on)

    def run(self) -> None:
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        poller.register(self._output, select.POLLIN)
        reported = False
        while self._open or not reported:
            if not reported and (status := self._reap()) is not None:
                self._drain()
                self._report(status)
                reported = True
                continue
            for descriptor, _ in poller.poll():
                if descriptor == self._wake:
                    _empty(self._wake)
                    if reported:
                        self._reap()
                elif not self._pump():
                    poller.unregister(self._output)

    def _pump(self) -> int:
        """Move what one read gives; 0 at the pipe's end."""
        try:
            data = os.read(self._output, _READ)
        except BlockingIOError:
            return 1
        self._spool.write(self._redactor.feed(data))
        if not data:
            self._open = False
        return len(data)

    def _drain(self) -> None:
        """What the command printed before it ended is in the spool before its end is known."""
        left = _DRAIN
        while self._open and left > 0 and select.select([self._output], [], [], 0)[0]:
            left -= self._pump()
        self._spool.write(self._redactor.finish())

    def _reap(self) -> int | None:
        """Collect the dead, orphans included; the command's wait status if it is among them."""
        found = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return found
            if pid == 0:
                return found
            if pid == self._child.pid:
                found = status

    def _report(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._child.returncode = code
        if self._spool.dropped:
            self._spool.note(f"{self._spool.dropped} bytes of output were dropped")
        write_json(
            os.path.join(self._folder, "exit.json"),
            {
                "error": None,
                "exit_code": None if code < 0 else code,
                "signal": -code if code < 0 else None,
                "disk_full": self._spool.disk_full,
            },
        )


def _empty(pipe: int) -> None:
    try:
        while os.read(pipe, 512):
            pass
    except BlockingIOError:
        return
