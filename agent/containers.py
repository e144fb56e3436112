"""Running a stage in a container, with docker or podman. The agent itself stays outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.environment import script_in_container
from agent.failure import JobError, disk_full
from agent.protocol import ExitReason
from agent.stages import Command, Exit

RUNTIMES = ("docker", "podman")
_ASK_SECONDS = 60.0  # real
# What the runtime's own client reads from its environment: these go on the command line, the rest by name
# only, so that no secret is seen in a list of processes.
_CLIENT_READS = ("DOCKER_", "CONTAINER_", "CONTAINERS_", "BUILDAH_", "XDG_", "REGISTRY_")
_CLIENT_NEEDS = ("PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

Runner = Callable[[str, Command], Exit]


def find_runtime() -> str:
    """Full path of a runtime. JobError says what is missing."""
    for name in RUNTIMES:
        if place := shutil.which(name):
            return place
    raise JobError(
        ExitReason.SETUP_FAILED,
        f"the job wants a container, and the image has no runtime: none of {', '.join(RUNTIMES)} is on PATH",
    )


@dataclass(frozen=True, slots=True)
class Container:
    """How the job's stages run. checkpoint: (outside, inside)."""

    runtime: str
    image: str
    name: str
    work: Path
    checkpoint: tuple[Path, str] | None
    gpus: bool

    def pull(self, run: Runner, tail: Callable[[], bytes]) -> None:
        """Have the image. That it is there afterwards decides, not what the pull said of it. `tail`: the end
        of the log. JobError if it is not.
        """
        self._reach_engine()
        pulled = run("pull", Command([self.runtime, "pull", self.image], client_environment(), self.work))
        if self._ask("image", "inspect", self.image).returncode == 0:
            return
        if b"no space left on device" in tail():
            raise disk_full(Path("/var/lib"), f"the container image {self.image} does not fit;")
        raise JobError(
            ExitReason.SETUP_FAILED, f"the container image {self.image} is not there after a pull ({pulled})"
        )

    def command(self, stage: str, text: str, variables: dict[str, str], secrets: list[str]) -> Command:
        """Run a script of the job's in a container named after the stage."""
        argv = [self.runtime, "run", "--init", "--name", self.container_name(stage)]
        argv += ["--network", "host", "--ipc", "host", "--ulimit", "memlock=-1", "--ulimit", "stack=67108864"]
        argv += ["--volume", f"{self.work}:{self.work}", "--workdir", str(self.work)]
        if self.checkpoint:
            argv += ["--volume", f"{self.checkpoint[0]}:{self.checkpoint[1]}"]
        if self.gpus:
            podman = os.path.basename(self.runtime) == "podman"
            argv += ["--device", "nvidia.com/gpu=all"] if podman else ["--gpus", "all"]
        argv += ["--env", "TINI_KILL_PROCESS_GROUP=1"]  # the init passes SIGTERM on to all of the job
        environment = client_environment()
        for name, value in sorted(variables.items()):
            if name.startswith(_CLIENT_READS) or name.upper() in _CLIENT_NEEDS:
                argv += ["--env", f"{name}={value}"]
            else:
                argv += ["--env", name]
                environment[name] = value
        argv += ["--entrypoint", "/bin/sh", self._image_for(stage), "-e", "-c", script_in_container(text)]
        return Command(argv, environment, self.work, secrets)

    def keep(self) -> None:
        """What the setup has changed is what the run starts from."""
        done = self._ask("commit", self.container_name("setup"), self._prepared_image(), seconds=600.0)
        if done.returncode != 0:
            raise JobError(
                ExitReason.SETUP_FAILED, f"the container could not be kept after its setup: {_said(done)}"
            )

    def remove(self, stage: str) -> None:
        """End and remove a stage's container; none is no error."""
        self._ask("rm", "--force", self.container_name(stage))

    def container_name(self, stage: str) -> str:
        return f"corral-{self.name}-{stage}"

    def _prepared_image(self) -> str:
        return f"localhost/corral/{self.name.lower()}:prepared"

    def _image_for(self, stage: str) -> str:
        prepared = stage == "run" and self._ask("image", "inspect", self._prepared_image()).returncode == 0
        return self._prepared_image() if prepared else self.image

    def _reach_engine(self) -> None:
        info = self._ask("info")
        if info.returncode != 0:
            raise JobError(
                ExitReason.SETUP_FAILED,
                f"the job wants a container, and {os.path.basename(self.runtime)} is not up: {_said(info)}",
            )

    def _ask(self, *words: str, seconds: float = _ASK_SECONDS) -> subprocess.CompletedProcess[str]:
        command = [self.runtime, *words]
        try:
            return subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
                env=client_environment(),
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no answer within {seconds:.0f} s")


def client_environment() -> dict[str, str]:
    """What the runtime's client needs, from the agent's own environment."""
    names = [*_CLIENT_NEEDS, *(name.lower() for name in _CLIENT_NEEDS)]
    return {name: os.environ[name] for name in names if name in os.environ}


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit code {done.returncode}"
