"""Memory of a service that watches three clouds: EC2 in 20 regions (moto), the other two in 3 each.

    .venv/bin/python -m bench.footprint_clouds [--seconds 60] [--json FILE]

Everything runs on 127.0.0.1. The figure is taken once every place has been read, and again after --seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

RSS_LIMIT = 350.0  # MB
READ_WITHIN = 300.0  # seconds
EC2_REGIONS = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1", "eu-west-1", "eu-west-2",
    "eu-west-3", "eu-central-1", "eu-north-1", "eu-south-1", "ap-south-1", "ap-east-1", "ap-northeast-1",
    "ap-northeast-2", "ap-northeast-3", "ap-southeast-1", "ap-southeast-2", "me-south-1",
)  # fmt: skip
_MOTO = """
import os, time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
time.sleep(3600)
"""


def measure(folder: Path, seconds: float) -> dict[str, Any]:
    """Start the clouds and the service, wait until all is read, watch."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_PROXY": "127.0.0.1"}
    corral = [sys.executable, "-m", "service.cli"]
    with (folder / "log").open("wb") as log:
        moto = subprocess.Popen([sys.executable, "-c", _MOTO], stdout=subprocess.PIPE, stderr=log, text=True)
        sandbox = subprocess.Popen(
            [*corral, "sandbox", "--root", str(folder / "sandbox")], stdout=log, stderr=log, env=environment
        )
        service: subprocess.Popen[bytes] | None = None
        try:
            config = _settings(folder, moto)
            init = subprocess.run(
                [*corral, "init", "--json", "--config", str(config)],
                env=environment,
                capture_output=True,
                check=True,
            )
            token = json.loads(init.stdout)["token"]
            service = subprocess.Popen(
                [*corral, "serve", "--config", str(config)], stdout=log, stderr=log, env=environment
            )
            return _watch(folder, json.loads(config.read_text())["listen"]["port"], token, service, seconds)
        finally:
            for process in (service, sandbox, moto):
                if process is not None:
                    process.send_signal(signal.SIGTERM)
                    process.wait(timeout=30)


def _settings(folder: Path, moto: subprocess.Popen[str]) -> Path:
    assert moto.stdout is not None
    endpoint = moto.stdout.readline().strip()
    described = folder / "sandbox" / "sandbox.json"
    while not described.exists():
        time.sleep(0.1)
    accounts = [a for a in json.loads(described.read_text())["accounts"] if a["provider"] != "aws"]
    credentials = folder / "credentials"
    credentials.write_text("[default]\naws_access_key_id = local\naws_secret_access_key = local\n")
    aws = {
        "name": "local",
        "provider": "aws",
        "endpoint": endpoint,
        "credentials": {"file": str(credentials)},
        "regions": {region: {} for region in EC2_REGIONS},
    }
    config = folder / "corral.json"
    settings = {
        "data_dir": str(folder / "data"),
        "listen": {"port": _free_port()},
        "accounts": [aws, *accounts],
    }
    config.write_text(json.dumps(settings))
    return config


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def _watch(
    folder: Path, port: int, token: str, service: subprocess.Popen[bytes], seconds: float
) -> dict[str, Any]:
    watched = psutil.Process(service.pid)
    places, offers = _wait_until_read(folder, service)
    read = watched.memory_info().rss / 1e6
    before, moment = sum(watched.cpu_times()[:2]), time.perf_counter()
    time.sleep(seconds)
    cpu = sum(watched.cpu_times()[:2]) - before
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.get(f"http://127.0.0.1:{port}/v1/offers?limit=1", headers=headers)
    answer.raise_for_status()
    return {
        "places_read": places,
        "offers": offers,
        "rss_read_mb": round(read, 1),
        "rss_mb": round(watched.memory_info().rss / 1e6, 1),
        "cpu_percent": round(100 * cpu / (time.perf_counter() - moment), 2),
        "threads": watched.num_threads(),
    }


def _wait_until_read(folder: Path, service: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Until every place has been read twice over: its offers and its instances."""
    until = time.monotonic() + READ_WITHIN
    while time.monotonic() < until and service.poll() is None:
        time.sleep(1)
        try:
            with sqlite3.connect(f"file:{folder / 'data' / 'corral.db'}?mode=ro", uri=True) as database:
                wanted, done = database.execute("SELECT count(*), count(succeeded_at) FROM poll").fetchone()
                (offers,) = database.execute("SELECT count(*) FROM offer").fetchone()
        except sqlite3.OperationalError:
            continue
        if wanted and wanted == done:
            return done, offers
    log = (folder / "log").read_text(errors="replace")[-2000:]
    raise SystemExit(f"not every place was read within {READ_WITHIN:g} s:\n{log}")


def _machine() -> str:
    return f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), arguments.seconds)
    print(f"{_machine()}; load {os.getloadavg()[0]:.1f}")
    for name, value in found.items():
        print(f"{name:18}{value!s:>10}" + (f"   limit {RSS_LIMIT:g}" if name == "rss_mb" else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": _machine(), **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
