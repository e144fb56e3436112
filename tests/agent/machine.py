"""One instance of a test: a folder that stands for `/`, and the real agent as a process in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent import processes
from agent.paths import Paths
from agent.stages import Stage
from clock import ScaledClock
from tests.agent.clouds import Metadata
from tests.agent.service import PATIENCE, Service, wait_for

FACTOR = 100.0


class Machine:
    """`start` runs the agent's zipapp as the image would. Its clock runs `FACTOR` times as fast."""

    def __init__(
        self, folder: Path, zipapp: Path, service: Service, metadata: Metadata, provider: str = "aws"
    ) -> None:
        self.root = folder / "root"
        self.paths = Paths(self.root)
        self.clock = ScaledClock(time.time(), FACTOR)
        self.environment = {
            "CORRAL_ROOT": str(self.root),
            "CORRAL_METADATA_URL": metadata.url,
            "CORRAL_CLOCK": str(self.clock),
            "PATH": os.environ["PATH"],
        }
        self.output = folder / "agent.out"
        self.zipapp = folder / "agent.pyz"
        shutil.copy(zipapp, self.zipapp)
        self._service = service
        self._provider = provider
        self._process: subprocess.Popen[bytes] | None = None

    def speed(self, factor: float) -> None:
        """Another clock: for what takes an hour, or where real work has to fit into seconds."""
        self.clock = ScaledClock(time.time(), factor)
        self.environment["CORRAL_CLOCK"] = str(self.clock)

    def configure(self, **changes: Any) -> None:
        """What cloud-init would write."""
        handed = {
            "protocol": 1,
            "service_url": self._service.url,
            "claim_code": "attempt-1.c0ffee",
            "provider": self._provider,
            "ca": None,
            **changes,
        }
        self.paths.configuration.parent.mkdir(parents=True, exist_ok=True)
        self.paths.configuration.write_text(json.dumps(handed))

    def start(self, *, limit: Callable[[], None] | None = None) -> None:
        """Start the agent, with its configuration in place. `limit`: set limits in the child."""
        if not self.paths.configuration.exists():
            self.configure()
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(self.zipapp)],
                env=self.environment,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                preexec_fn=limit,
            )

    def wait_end(self, seconds: float = PATIENCE) -> int:
        """Until the agent has exited; its exit code."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the agent did not end:\n{self.output.read_text()}") from None

    def cpu_seconds(self) -> float:
        """CPU time that the agent's own process has used."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def powered_off(self) -> bool:
        return self.paths.poweroff.exists()

    def sleep(self, seconds: float) -> None:
        """Let the machine's time pass; its clock is fast."""
        self.clock.wait(threading.Event(), seconds)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill_agent(self) -> None:
        """The agent alone dies; the job lives on."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait()

    def lose_power(self) -> None:
        """Everything dies."""
        self.kill_agent()
        self.end_job()

    def reboot_id(self, boot_id: str) -> None:
        """Make what is on the disk look as if it had been written by an earlier boot, and empty /run."""
        value = json.loads(self.paths.identity.read_text())
        self.paths.identity.write_text(json.dumps({**value, "boot_id": boot_id}))
        shutil.rmtree(self.paths.run, ignore_errors=True)

    def terminate_job(self) -> None:
        """SIGTERM to the job, from somebody else than the agent."""
        for folder in self.paths.stages.glob("*"):
            if stage := Stage.adopt(folder):
                stage.terminate()

    def end_job(self) -> None:
        """Kill what is left of the job."""
        for folder in self.paths.stages.glob("*"):
            if stage := Stage.adopt(folder):
                stage.kill()
                wait_for(stage.poll, "the supervisor's end")

    def job_processes(self) -> list[int]:
        """Living processes of the job."""
        found = [Stage.adopt(folder) for folder in self.paths.stages.glob("*")]
        return [pid for stage in found if stage for pid in stage.living()]

    def supervisors(self) -> list[int]:
        """The processes that stand between the agent and the job."""
        return [
            json.loads(path.read_text())["supervisor"][0] for path in self.paths.stages.glob("*/process.json")
        ]

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait()
        self.end_job()


def alive(pid: int) -> bool:
    found = processes.identify(pid)
    return found is not None and found.alive()
