"""`corral demo` as a newcomer runs it: nothing set up, no home directory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

LONGEST = 110  # real seconds, on a machine that does other things too


def _processes_below(folder: Path) -> list[str]:
    """Command lines of live processes that were started in or for the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


def _environment(tmp_path: Path) -> dict[str, str]:
    """A newcomer's, with settings of another deployment that must not get in."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "no-such-home"),
        "TMPDIR": str(tmp_path / "tmp"),
        "CORRAL_DATA_DIR": "/nonexistent",
        "CORRAL_URL": "http://127.0.0.1:9",
    }


def test_the_demo_comes_true_from_stock_out_to_the_last_instance_gone(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "demo"],
        env=_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    told = done.stdout
    assert done.returncode == 0, f"{done.stderr}\n{told}"
    assert re.search(r"ended +attempt 1: capacity: InsufficientInstanceCapacity", told)
    assert re.search(r"notice +rank 0 on aws/use1-az6: preemption notice", told)
    assert re.search(r"chosen +attempt 3: gcp/us-central1-a", told)
    assert re.search(r"started +attempt 3: rank 0: the job starts from checkpoint step-\d+", told)
    sums = re.search(r"checksum +([0-9a-f]{16}); uninterrupted: ([0-9a-f]{16})", told)
    assert sums is not None
    assert sums[1] == sums[2]
    assert "left over: aws 0, gcp 0, azure 0" in told
    assert _processes_below(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []


def test_interrupted_the_demo_leaves_no_process_and_no_file(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "demo"],
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("clouds:"):
                break
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=LONGEST)
    assert process.returncode == 130
    assert complaints == "corral: interrupted\n"
    assert _processes_below(tmp_path) == []
    assert list((tmp_path / "tmp").iterdir()) == []
