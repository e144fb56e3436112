"""Where the agent keeps things. Everything lies below one root, `/` on a real instance."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT_ENVIRONMENT = "CORRAL_ROOT"


@dataclass(frozen=True, slots=True)
class Paths:
    """Places below `root`. `/etc` is given, `/var` outlives a reboot, `/run` does not."""

    root: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Paths:
        """The root named by CORRAL_ROOT, `/` where it is not set."""
        return cls(Path(os.path.abspath(environment.get(ROOT_ENVIRONMENT) or "/")))

    @property
    def configuration(self) -> Path:
        return self.root / "etc/corral/agent.json"

    @property
    def update_key(self) -> Path:
        return self.root / "etc/corral/update.pub"

    @property
    def state(self) -> Path:
        return self.root / "var/lib/corral"

    @property
    def identity(self) -> Path:
        return self.state / "identity.json"

    @property
    def result(self) -> Path:
        """How the job ended, until the service has acknowledged it."""
        return self.state / "result.json"

    @property
    def spool(self) -> Path:
        """The job's output, already redacted."""
        return self.state / "log"

    @property
    def job(self) -> Path:
        return self.state / "job"

    @property
    def work(self) -> Path:
        """The job's working directory."""
        return self.job / "work"

    @property
    def run(self) -> Path:
        return self.root / "run/corral"

    @property
    def stages(self) -> Path:
        """A folder per supervised process: what runs, and how it ended. In memory: a full disk must not hide
        how a job ended.
        """
        return self.run / "stages"

    @property
    def assignment(self) -> Path:
        """What an agent that is restarted needs to look after a running job; root only, in memory."""
        return self.run / "assignment.json"

    @property
    def uploads(self) -> Path:
        """Which checkpoint directories were dealt with."""
        return self.run / "uploads.json"

    @property
    def poweroff(self) -> Path:
        """Creating this file ends the instance: the image's path unit watches it."""
        return self.run / "poweroff"

    def checkpoint(self, path: str) -> Path:
        """The job's checkpoint directory: `path` (absolute in the job's eyes) below the root.

        ValueError if it points outside.
        """
        parts = Path(path.lstrip("/")).parts
        if not parts or ".." in parts:
            raise ValueError(f"checkpoint path {path!r}: expected an absolute path without '..'")
        return self.root.joinpath(*parts)
