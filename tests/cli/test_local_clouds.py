"""`corral sandbox`, `corral check` against it, and `corral serve --sandbox`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clock import ScaledClock
from service.cli.child import Child, environment_of_child
from service.cli.client import Client
from service.cli.connection import Connection
from service.cli.failure import CommandError
from service.cli.local_clouds import Described, start_clouds
from tests.cli.conftest import Corral

DEADLINE = 60.0


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[tuple[Child, Described]]:
    child, described = start_clouds(tmp_path / "sandbox", ScaledClock(time.time(), 10))
    with child:
        yield child, described


def test_the_settings_that_the_sandbox_prints_can_be_used_and_pass_every_check(
    clouds: tuple[Child, Described], bare: Corral, tmp_path: Path
) -> None:
    child, described = clouds
    printed = tmp_path / "corral.yaml"
    printed.write_text(child.log.read_text())
    assert bare("config", "check", str(printed)).out == f"{printed}: fine\n"
    command = [sys.executable, "-m", "service.cli", "check", "--json", "--config", str(printed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = json.loads(done.stdout)
    assert [line for line in lines if not line["ok"]] == []
    assert done.returncode == 0
    assert {line["account"].split("/")[0] for line in lines} == {"aws", "gcp", "azure"}
    assert child.stop() == 0
    with (
        pytest.raises(CommandError, match="not reachable"),
        Client(Connection(described.endpoints["control"])) as control,
    ):
        control.get("/control/ledger")


def test_a_leashed_sandbox_ends_with_whoever_started_it(tmp_path: Path) -> None:
    script = (
        "import os, sys, time\nfrom pathlib import Path\nfrom clock import ScaledClock\n"
        "from service.cli.local_clouds import start_clouds\n"
        f"child, _ = start_clouds(Path({str(tmp_path)!r}), ScaledClock(time.time(), 10))\n"
        "print(child.pid, flush=True)\nos._exit(9)"
    )
    started = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pid = int(started.stdout)
    until = time.monotonic() + DEADLINE
    while Path(f"/proc/{pid}/stat").exists() and _state(pid) != "Z":
        assert time.monotonic() < until, "the sandbox outlived its parent"
        time.sleep(0.02)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_a_scenario_that_cannot_be_used_is_one_line_and_code_2(bare: Corral, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("boot: 3\n")
    done = bare("sandbox", "--root", str(tmp_path / "root"), "--scenario", str(scenario))
    assert done.code == 2
    assert done.err == f"corral: {scenario}: boot: unknown key\n"


def test_serve_with_local_clouds_offers_what_they_sell_and_keeps_its_clock(
    bare: Corral, tmp_path: Path
) -> None:
    config = tmp_path / "corral.yaml"
    config.write_text(json.dumps({"data_dir": str(tmp_path / "data"), "listen": {"port": 0}}))
    token = bare("init", "--json", "--config", str(config)).json["token"]
    environment = environment_of_child(CORRAL_CONFIG=str(config))
    log = tmp_path / "serve.log"

    def address() -> str | None:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        return next((line["address"] for line in lines if line["event"] == "ready"), None)

    with Child(["serve", "--sandbox", "--scale", "10"], log, environment) as child:
        child.wait_until(lambda: address() is not None, DEADLINE)
        with Client(Connection(str(address()), token)) as client:
            seen: set[str] = set()
            until = time.monotonic() + DEADLINE
            while seen != {"aws", "gcp", "azure"} and time.monotonic() < until:
                plan = client.post("/v1/jobs:plan", {"name": "x", "run": "true", "gpu": "H100:8"})
                seen = {offer["provider"] for offer in plan["offers"]}
                time.sleep(0.1)
        assert seen == {"aws", "gcp", "azure"}
        assert child.stop() == 0
    kept = (tmp_path / "data" / "sandbox" / "clock").read_text()
    done = bare("serve", "--sandbox", "--scale", "20", "--config", str(config))
    assert done.code == 2
    assert "was begun with 10" in done.err
    assert (tmp_path / "data" / "sandbox" / "clock").read_text() == kept
    assert not [pid for pid in os.listdir("/proc") if pid.isdigit() and _started_in(pid, tmp_path)]


def _started_in(pid: str, folder: Path) -> bool:
    try:
        return str(folder).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
