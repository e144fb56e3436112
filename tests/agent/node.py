"""One standing machine of a test: its agent as a process, and the service's word on what it is to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from agent import processes
from agent.node.memory import NodePaths
from agent.paths import Paths
from agent.stages import Stage
from clock import ScaledClock
from tests.agent.machine import FACTOR
from tests.agent.service import PATIENCE, Service, problem, wait_for

CODE = "corral_enrol_code"


class NodeService(Service):
    """Gives out `use` until the node says that it is done with it; `wants_back` asks for its end."""

    def __init__(self) -> None:
        super().__init__()
        self.use: str | None = None
        self.wants_back = False
        self.removed = False
        self.enrolments: list[dict[str, Any]] = []
        self.polls: list[dict[str, Any]] = []
        self.done: list[str] = []

    def give(self, use: str, **assignment: Any) -> None:
        """A new attempt for the node."""
        self.heard.exits.clear()
        self.log.clear()
        self.wants_back = False
        self.directive = None
        self.assignment |= assignment
        self.use = use

    def wait_done(self, use: str) -> None:
        wait_for(lambda: use in self.done, f"the end of {use}; the node said {self.polls[-1:]}")

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> tuple[int, Any]:
        if target.endswith("/node/enrol"):
            said = json.loads(body)
            self.enrolments.append(said)
            good = said["code"] == CODE
            return (200, {"node": "n-1", "session": "of-the-node"}) if good else (403, problem(403, "no"))
        if target.endswith("/node/poll"):
            return self._poll(headers, json.loads(body))
        return super().answer(method, target, headers, body)

    def _poll(self, headers: Any, said: dict[str, Any]) -> tuple[int, Any]:
        if self.removed or headers.get("Authorization") != "Bearer of-the-node":
            return 401, problem(401, "no such node")
        self.polls.append(said)
        if said["done"] is not None and said["done"] == self.use:
            self.done.append(said["done"])
            self.use = None
        use = {"id": self.use, "claim_code": f"{self.use}.c0ffee"} if self.use else None
        ends = self.wants_back or (said["running"] is not None and said["running"] != self.use)
        return 200, {"use": use, "end": ends, "poll_seconds": 5.0}


class NodeMachine:
    """A folder that stands for `/` of a machine that is never ended."""

    def __init__(self, folder: Path, zipapp: Path) -> None:
        self.root = folder / "root"
        self.paths = NodePaths(self.root)
        self.attempt = Paths(self.paths.attempt)
        self.environment = {
            "CORRAL_ROOT": str(self.root),
            "CORRAL_CLOCK": str(ScaledClock(time.time(), FACTOR)),
            "PATH": os.environ["PATH"],
        }
        self.output = folder / "node.out"
        self._zipapp = zipapp
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(self._zipapp), "node", *arguments],
                env=self.environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait_end(self) -> int:
        assert self._process is not None
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the node did not end:\n{self.output.read_text()}") from None

    def kill(self) -> None:
        """The node's agent dies, and the attempt's with it."""
        self.signal(signal.SIGKILL)
        self.wait_end()
        wait_for(lambda: not self.agents(), "the end of the attempt's agent")

    def agents(self) -> list[int]:
        """Living processes of attempts' agents, their supervisors left out."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            mine = f"CORRAL_ROOT={self.paths.attempt}\0".encode() in environment
            seen = processes.identify(int(name))
            if mine and b"supervise" not in line and seen is not None and seen.alive():
                found.append(int(name))
        return found

    def job_processes(self) -> list[int]:
        stages = [Stage.adopt(folder) for folder in self.attempt.stages.glob("*")]
        return [pid for stage in stages if stage for pid in stage.living()]

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        for folder in self.attempt.stages.glob("*"):
            if stage := Stage.adopt(folder):
                stage.kill()
