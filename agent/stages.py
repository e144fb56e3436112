"""A stage of the job (setup, run, ...) as the agent sees it: a supervised process that outlives the agent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from agent import processes
from agent.durable import read_json
from agent.processes import Process


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. `environment` is all that it gets; `secrets` are the values that its output must hide."""

    argv: list[str]
    environment: dict[str, str]
    directory: Path
    secrets: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended: an exit code or a signal. Both None: nobody saw it end. `error` says why it
    could not be started. disk_full: its output did not find room.
    """

    exit_code: int | None
    signal: int | None
    error: str | None = None
    disk_full: bool = False

    @property
    def succeeded(self) -> bool:
        return self.exit_code == 0

    def __str__(self) -> str:
        if self.error:
            return self.error
        if self.signal is not None:
            return f"killed by {signal.Signals(self.signal).name}"
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        return "its supervisor was killed; how it ended is not known"


def program() -> list[str]:
    """The command line that starts this agent again, as it was started: the zipapp, or the package."""
    place = Path(__file__).resolve().parent.parent
    return [str(place)] if place.is_file() else ["-m", "agent"]


class Stage:
    """One command under its supervisor. Only `start` and `adopt` make one."""

    def __init__(self, folder: Path, supervisor: Process, job: Process | None) -> None:
        self._folder = folder
        self._supervisor = supervisor
        self._job = job
        self._child: subprocess.Popen[str] | None = None
        self._exit: Exit | None = None

    @classmethod
    def start(cls, folder: Path, command: Command, spool: Path, log_limit_bytes: int) -> Stage:
        """Start a command; returns once it runs or has failed to (see `poll`). OSError if the supervisor
        itself cannot start.
        """
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        child = subprocess.Popen(
            # -S: the supervisor needs nothing but the standard library, and site costs half its start.
            [sys.executable, "-S", *program(), "supervise", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_plain_environment(),
            start_new_session=True,
        )
        order = {
            "argv": command.argv,
            "env": command.environment,
            "cwd": str(command.directory),
            "secrets": command.secrets,
            "spool": str(spool),
            "log_limit_bytes": log_limit_bytes,
        }
        stdin, stdout = child.stdin, child.stdout
        assert stdin is not None  # noqa: S101 - it was asked for
        assert stdout is not None  # noqa: S101
        with stdin, stdout:
            try:
                stdin.write(json.dumps(order))
                stdin.close()
            except BrokenPipeError:
                pass  # it died at once; poll says so
            stdout.read()
        supervisor = processes.identify(child.pid) or Process(child.pid, 0)
        stage = cls(folder, supervisor, _recorded_job(folder))
        stage._child = child
        return stage

    @classmethod
    def adopt(cls, folder: Path) -> Stage | None:
        """The stage that an earlier agent started in this boot, alive or ended; None if there is none."""
        record = read_json(folder / "process.json")
        if not record or record["boot_id"] != processes.boot_id():
            return None
        return cls(folder, Process(*record["supervisor"]), Process(*record["job"]))

    def poll(self) -> Exit | None:
        """How the command ended; None while it runs. What it left running does not count."""
        if self._child is not None:
            self._child.poll()  # take the supervisor's body away
        if self._exit is None:
            gone = not self._supervisor.alive()
            record = read_json(self._folder / "exit.json")
            if record:
                self._exit = Exit(**record)
            elif gone:
                self._exit = Exit(None, None)
        return self._exit

    def terminate(self) -> None:
        """SIGTERM to the command's process group."""
        if self._job is not None and self.living():
            processes.signal_group(self._job.pid, signal.SIGTERM)

    def living(self) -> list[int]:
        """What is left of the command: its process group and all that descends from its supervisor."""
        if self._job is None:
            return []
        below = self._supervisor.pid if self._supervisor.alive() else None
        return processes.members(self._job.pid, below)

    def kill(self) -> None:
        """SIGKILL to all that is left of it, in whatever session it hides."""
        for _ in range(20):  # a process that forks while it is being killed needs another round
            left = self.living()
            if not left:
                return
            processes.kill(left)


def _recorded_job(folder: Path) -> Process | None:
    record = read_json(folder / "process.json")
    return Process(*record["job"]) if record else None


def _plain_environment() -> dict[str, str]:
    kept = ("PATH", "LANG", "LD_LIBRARY_PATH")
    plain = {name: os.environ[name] for name in kept if name in os.environ}
    plain["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    return plain
