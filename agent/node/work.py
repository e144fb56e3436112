"""One use of the node: the ordinary agent as a child, in a root of its own, and nothing left afterwards."""

from __future__ import annotations

import ctypes
import logging
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from agent.durable import write_json
from agent.paths import ROOT_ENVIRONMENT, Paths
from agent.stages import Stage, program

_PR_SET_PDEATHSIG = 1  # prctl(2)
MOST_RESTARTS = 5

log = logging.getLogger(__name__)


class Work:
    """The attempt's agent. It dies with us; its job does not, and the next agent takes the job up again."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self._root = root
        self._environment = {**environment, ROOT_ENVIRONMENT: str(root)}
        self._child: subprocess.Popen[bytes] | None = None
        self._crashes = 0

    def hand(self, *, service_url: str, ca: str | None, claim_code: str, use: str) -> None:
        """Write what cloud-init would write on an instance of a cloud."""
        handed = {
            "protocol": 1,
            "service_url": service_url,
            "claim_code": claim_code,
            "provider": "standing",
            "instance_id": use,
            "ca": ca,
        }
        write_json(Paths(self._root).configuration, handed)

    def forget_boot(self) -> None:
        """The machine was rebooted: what an instance keeps in memory is gone."""
        shutil.rmtree(Paths(self._root).run, ignore_errors=True)

    def start(self) -> None:
        """Start the agent, for the first time or again. Raises OSError."""
        self._child = subprocess.Popen(
            [sys.executable, *program()],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            preexec_fn=_die_with_parent,
        )

    def is_over(self) -> bool:
        """True once the agent is through. One that crashed is started again, a few times."""
        if self._child is None:
            return True
        code = self._child.poll()
        if code is None:
            return False
        if code == 0 or self._crashes >= MOST_RESTARTS:
            return True
        self._crashes += 1
        log.warning("the attempt's agent ended with %s; it is started again", code)
        self.start()
        return False

    def drain(self) -> None:
        """Tell the agent that the machine goes down: the job is told, and checkpoints."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Agent and job, at once."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        stages = Paths(self._root).stages
        for folder in stages.iterdir() if stages.is_dir() else ():
            if stage := Stage.adopt(folder):
                stage.kill()

    def clean(self) -> bool:
        """Remove all that the attempt has left below its root; False if something cannot be removed yet."""
        self.kill()
        shutil.rmtree(self._root, ignore_errors=True)
        if self._root.exists():
            log.warning("%s cannot be removed whole; nothing is taken on before it is", self._root)
            return False
        self._crashes = 0
        return True


def _die_with_parent() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
