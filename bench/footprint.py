"""What a service costs that does nothing: time until it is ready, memory, CPU while idle.

    .venv/bin/python -m bench.footprint [--seconds 20] [--json FILE]

Starts `corral serve` in a new folder, with no cloud configured, on a free port of 127.0.0.1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psutil

READY_LIMIT, RSS_LIMIT, CPU_LIMIT = 1.5, 100.0, 0.5  # seconds, MB, percent of a core
HEAVY = ("alembic", "cryptography", "psycopg", "httpx", "rich", "boto3", "google.cloud", "azure", "obstore")
_SERVE = """
import sys
from service.cli.daemon import run_service
def ready(address):
    loaded = [name for name in {heavy!r} if name in sys.modules]
    print(address, ",".join(loaded), flush=True)
run_service(None, {{}}, ready)
"""


def measure(folder: Path, seconds: float) -> dict[str, float | str]:
    """Start the service, wait until it answers, watch it, end it."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CORRAL_DATA_DIR": str(folder / "data"),
        "CORRAL_LISTEN__PORT": "0",
    }
    _initialise(environment)
    began = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(heavy=HEAVY)],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
    assert process.stdout is not None
    try:
        address, _, loaded = process.stdout.readline().strip().partition(" ")
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:  # noqa: S310
            answer.read()
        ready = time.perf_counter() - began
        watched = psutil.Process(process.pid)
        start_cpu = sum(watched.cpu_times()[:2])
        time.sleep(2)
        before, moment = sum(watched.cpu_times()[:2]), time.perf_counter()
        time.sleep(seconds)
        cpu = sum(watched.cpu_times()[:2]) - before
        return {
            "ready_s": round(ready, 2),
            "start_cpu_s": round(start_cpu, 2),
            "rss_mb": round(watched.memory_info().rss / 1e6, 1),
            "idle_cpu_percent": round(100 * cpu / (time.perf_counter() - moment), 2),
            "threads": watched.num_threads(),
            "heavy_imports": loaded or "none",
        }
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=15)


def _initialise(environment: dict[str, str]) -> None:
    code = (
        "import os; from service.configuration import load; from service.initialise import initialise; "
        "initialise(load(None, os.environ))"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), arguments.seconds)
    limits = {"ready_s": READY_LIMIT, "rss_mb": RSS_LIMIT, "idle_cpu_percent": CPU_LIMIT}
    print(f"{_machine()}; load {os.getloadavg()[0]:.1f}")
    for name, value in found.items():
        limit = limits.get(name)
        print(f"{name:18}{value!s:>10}" + (f"   limit {limit:g}" if limit else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": _machine(), **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
