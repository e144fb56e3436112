"""What the command line costs before it does anything: CPU of `corral --help` and of a read that is refused.

    .venv/bin/python -m bench.cli_start [--json FILE]

Best of several runs, each a new process. The last has no service to speak to: it is the start of a read.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

RUNS = 9
CASES: dict[str, Sequence[str]] = {
    "bare python": ["-c", ""],
    "corral --help": ["-m", "service.cli", "--help"],
    "corral ps (no service)": ["-m", "service.cli", "ps", "--url", "http://127.0.0.1:9", "--token", "x"],
}


def measure(arguments: Sequence[str]) -> dict[str, float]:
    """CPU and elapsed milliseconds of the cheapest of RUNS processes."""
    cpu, elapsed = [], []
    for _ in range(RUNS):
        before, started = _children(), time.perf_counter()
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
        elapsed.append(time.perf_counter() - started)
        cpu.append(_children() - before)
    return {"cpu_ms": round(min(cpu) * 1000), "elapsed_ms": round(min(elapsed) * 1000)}


def _children() -> float:
    """CPU seconds of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description="CPU of the command line's start.")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    options = parser.parse_args()
    results = {name: measure(arguments) for name, arguments in CASES.items()}
    for name, figures in results.items():
        print(f"{name:<24}{figures['cpu_ms']:>6} ms CPU{figures['elapsed_ms']:>8} ms elapsed")
    if options.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
        options.json.write_text(json.dumps({"machine": machine, "results": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
