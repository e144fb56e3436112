"""The demo's job: what is sent, and what it must come to."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from service.cli.child import run_to_end
from service.cli.client import Client
from service.cli.failure import CommandError
from service.cli.submission import submit
from service.cli.uploads import send_directory

SCRIPT = Path(__file__).with_name("train.py")
STEPS = 240
CHECKPOINT_EVERY = 20
STEP_SECONDS = 0.05  # real
LAST_SECONDS = 30.0  # of the demo's clock: how much of a notice the job works on
PLACES = ("aws/us-east-1", "gcp/us-central1", "azure/eastus")


def spec(workdir: str | None, scale: float, steps: int = STEPS) -> dict[str, Any]:
    """The job as a person would write it. `scale`: how fast the stage's clock runs."""
    return {
        "name": "demo-training",
        "class": "exploration",
        "resources": {"gpu": "H100:8"},
        "run": "python3 train.py",
        "env": {
            "STEPS": str(steps),
            "CHECKPOINT_EVERY": str(CHECKPOINT_EVERY),
            "STEP_SECONDS": str(STEP_SECONDS),
            "LAST_SECONDS": str(LAST_SECONDS / scale),
        },
        "checkpoint": {"path": "/checkpoints", "to": "storage", "grace": "60s"},
        "spot": "auto",
        "max_price": 60,
        "max_duration": "2h",
        "allow": list(PLACES),
        **({"workdir": workdir} if workdir else {}),
    }


def send(client: Client, scale: float, steps: int = STEPS) -> dict[str, Any]:
    """Pack the script, upload it, submit the job."""
    with TemporaryDirectory(prefix="corral-demo-") as folder:
        shutil.copyfile(SCRIPT, Path(folder) / SCRIPT.name)
        workdir = send_directory(client, Path(folder), None)
    return submit(client, spec(workdir, scale, steps))


def uninterrupted(steps: int = STEPS) -> str:
    """Run the same script here, without pauses and without losing anything; its last line."""
    environment = {"PATH": os.environ.get("PATH", os.defpath), "STEPS": str(steps)}
    done = run_to_end([sys.executable, str(SCRIPT)], environment)
    if done.returncode:
        raise CommandError(f"the training script fails here: {done.stderr.strip()}")
    return done.stdout.splitlines()[-1]
