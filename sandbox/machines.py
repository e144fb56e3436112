"""Instances as processes of this machine, each with a folder of its own that stands for `/`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from clock import ENVIRONMENT, Clock, ScaledClock
from sandbox import guest
from sandbox.cloudconfig import UserDataError, parse, write
from sandbox.vm import Vm

#: The image's path unit starts the agent once this is there.
_TRIGGER = "etc/corral/agent.json"
#: The agent leaves this and exits when it ends the instance.
_POWEROFF = "run/corral/poweroff"
_FOLDERS = ("etc", "run/corral", "tmp", "var/lib/corral", "var/log")
_REAP_SECONDS = 5.0


class ProcessMachines:
    """Gives each instance a folder `root/machines/PROVIDER-ID` with its disk `root/` and its `console.log`.

    agent_command: absolute, with arguments; started in the machine's folder with CORRAL_ROOT,
    CORRAL_METADATA_URL, CORRAL_CLOCK, PATH and HOME, and nothing else of this process's environment.
    Processes that an earlier run left below `root` are ended first. Not thread-safe: the world's lock guards.
    """

    def __init__(self, root: Path, agent_command: Sequence[str], metadata_url: str, clock: Clock) -> None:
        self._folder = root.resolve() / "machines"
        self._command = list(agent_command)
        self._metadata_url = metadata_url
        self._clock = str(clock) if isinstance(clock, ScaledClock) else "0:1"
        self._guests: dict[str, tuple[Vm, subprocess.Popen[bytes]]] = {}
        self._folder.mkdir(parents=True, exist_ok=True)
        self._end_leftovers()

    def folder(self, vm: Vm) -> Path:
        """Where the instance's disk and console are."""
        return self._folder / f"{vm.provider}-{vm.id}"

    def console(self, vm: Vm) -> str:
        """What the instance has printed, and why it refused its user data."""
        path = self.folder(vm) / "console.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def start(self, vm: Vm) -> None:
        """Write what the user data asks for, then start the agent's unit if its file is there. An instance
        without user data has nothing to run and gets no folder.
        """
        if not vm.user_data or vm.id in self._guests:
            return
        # A seed gives the same ids again: what an earlier run left under this one is another's.
        shutil.rmtree(self.folder(vm), ignore_errors=True)
        disk = self.folder(vm) / "root"
        for name in _FOLDERS:
            (disk / name).mkdir(parents=True, exist_ok=True)
        with (self.folder(vm) / "console.log").open("ab") as console:
            try:
                for file in parse(vm.user_data):
                    write(disk, file)
            except (UserDataError, OSError) as error:  # OSError: a name that is too long, for example
                console.write(f"user data refused: {error}\n".encode("utf-8", "replace"))
                return
            if not (disk / _TRIGGER).exists():
                console.write(f"no /{_TRIGGER}: the agent is not started\n".encode())
                return
            self._boot(vm, disk, console)

    def shutdown(self, vm: Vm) -> None:
        """SIGTERM to all of the machine's processes."""
        if vm.id in self._guests:
            self._guests[vm.id][1].send_signal(signal.SIGTERM)

    def kill(self, vm: Vm) -> None:
        """End all of the machine's processes, whatever they are doing, and see that they have."""
        _, process = self._guests.pop(vm.id, (vm, None))
        if process is not None:
            _end(process.pid)
            _close(process)

    def discard(self, vm: Vm) -> None:
        """Delete the disk; the console is kept."""
        shutil.rmtree(self.folder(vm) / "root", ignore_errors=True)

    def powered_off(self) -> list[Vm]:
        """Machines that ended from inside since the last call."""
        ended = [(vm, process) for vm, process in self._guests.values() if process.poll() is not None]
        for vm, process in ended:
            del self._guests[vm.id]
            _close(process)
        return [vm for vm, process in ended if process.returncode == 0]

    def close(self) -> None:
        """End every machine."""
        for vm, _ in list(self._guests.values()):
            self.kill(vm)

    def _boot(self, vm: Vm, disk: Path, console: IO[bytes]) -> None:
        poweroff = disk / _POWEROFF
        poweroff.unlink(missing_ok=True)
        environment = {
            "CORRAL_ROOT": str(disk),
            "CORRAL_METADATA_URL": f"{self._metadata_url}/i/{vm.metadata_key}",
            ENVIRONMENT: self._clock,
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(disk),
        }
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", guest.__file__, str(poweroff), *self._command],
            stdin=subprocess.PIPE,
            stdout=console,
            stderr=console,
            env=environment,
            cwd=disk,
            start_new_session=True,
        )
        self._guests[vm.id] = vm, process
        record = {"pid": process.pid, "started": guest.look(process.pid)[2]}
        (self.folder(vm) / "machine.json").write_text(json.dumps(record))

    def _end_leftovers(self) -> None:
        """A number of a process alone proves nothing: it may be another's by now. Its start time tells."""
        for path in self._folder.glob("*/machine.json"):
            try:
                record = json.loads(path.read_text())
                pid, started = int(record["pid"]), int(record["started"])
            except (ValueError, KeyError, TypeError):
                continue
            if guest.look(pid)[2] == started:
                _end(pid)
            path.unlink()
            shutil.rmtree(path.parent / "root", ignore_errors=True)


def _end(pid: int) -> None:
    """The guest is held still first, so that it restarts nothing; its offspring goes, then it goes itself."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        if number == signal.SIGKILL:
            guest.end_below(pid)
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.wait(_REAP_SECONDS)
