"""A process of ours beside this one: started with its output in a file, and ended in every case."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from service.cli.failure import CommandError

LOOK_SECONDS = 0.02
STOP_SECONDS = 15.0
_LAST_LINES = 3


class Child:
    """`corral ARGUMENTS` as a child. Its standard input is a pipe of ours: when this process goes, however it
    goes, the pipe closes, and a child that was started `--leashed` ends.
    """

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.name = arguments[0]
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as output, _interruption_held():
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "service.cli", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=dict(environment),
                    start_new_session=True,  # Ctrl-C is for the parent, which ends its children in order
                )
        except KeyboardInterrupt:
            self.kill()  # nobody will have this object to end it by
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Look until `ready`; CommandError with its last words if it ends first or time runs out."""
        until = time.monotonic() + seconds
        while not ready():
            if not self.running:
                raise CommandError(f"corral {self.name} ended at once: {self._last_words()}")
            if time.monotonic() > until:
                raise CommandError(f"corral {self.name} was not ready after {seconds:g} s; see {self.log}")
            time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """SIGKILL, as a power cut would have it, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._close()

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """SIGTERM, then SIGKILL if it has not ended in time; its exit code."""
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
        code = self._process.wait()
        self._close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", "replace").strip().splitlines()
        return " | ".join(lines[-_LAST_LINES:]) or f"no output, exit code {self._process.returncode}"


@contextmanager
def _interruption_held() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done, then raise KeyboardInterrupt. A process that is being started
    when it comes would be nobody's: there, and without a handle to end it by.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        raise KeyboardInterrupt


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command and wait for it. Interrupted, it is killed and waited for before the interruption goes
    on, which `subprocess.run` does not do.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _interruption_held():
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=dict(environment),
                start_new_session=True,
            )
        output, complaints = process.communicate()
    except BaseException:
        if process is not None:
            process.kill()
            process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, output, complaints)


def environment_of_child(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None removes a variable."""
    merged: dict[str, str | None] = {**os.environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}
