"""The service as a process: it gets ready, takes new settings, stops in order. Case ids: API-03, SEC-06."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import httpx2
import pytest
from sqlmodel import select

from service.configuration import load
from service.db import Database
from service.initialise import initialise
from service.projects.model import Deployment, Project, Token
from service.upgrade import database_url

PROGRAM = """
import os, sys
from pathlib import Path
from service.configuration import Configuration
from service.serve import serve
HEAVY = ("alembic", "cryptography", "psycopg", "httpx", "rich", "boto3", "google.cloud", "azure", "obstore")
def ready(address):
    print("ready", address, *[name for name in HEAVY if name in sys.modules], flush=True)
path = os.environ.get("CORRAL_CONFIG")
try:
    serve(Configuration(Path(path) if path else None, os.environ), on_ready=ready)
except OSError as error:
    sys.exit(f"{error.filename}: {error.strerror}")
"""


class Process:
    """`corral serve` as a child of the test."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.lines: Queue[dict[str, Any]] = Queue()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **environment},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = ""
        self.loaded: tuple[str, ...] = ()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.put(json.loads(line) if line.startswith("{") else {"event": line.strip()})

    def until_ready(self) -> Process:
        assert self.process.stdout is not None
        _, self.address, *loaded = self.process.stdout.readline().split()
        self.loaded = tuple(loaded)
        return self

    def logged(self, event: str) -> dict[str, Any]:
        """The next line of that kind."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                line = self.lines.get(timeout=1)
            except Empty:
                continue
            if line["event"] == event:
                return line
        raise AssertionError(f"{event} was not logged")

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(5)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    config = tmp_path / "corral.yaml"
    config.write_text(f"data_dir: {tmp_path / 'data'}\nlisten: {{port: 0}}\n")
    return {"CORRAL_CONFIG": str(config)}


@pytest.fixture
def token(environment: dict[str, str]) -> str:
    text = initialise(load(Path(environment["CORRAL_CONFIG"]), {}), environment={})
    assert text is not None
    return text


@pytest.fixture
def running(environment: dict[str, str], token: str) -> Iterator[Process]:
    process = Process(environment)
    try:
        yield process.until_ready()
    finally:
        process.end()


def test_it_is_ready_with_nothing_loaded_that_an_idle_service_does_not_need(running: Process) -> None:
    assert running.loaded == ()
    assert running.address.startswith("http://127.0.0.1:")
    deadline = time.monotonic() + 10
    while httpx2.get(f"{running.address}/readyz").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.05)
    body = httpx2.get(f"{running.address}/readyz").json()
    assert body["problems"] == []
    assert {"scheduler", "launcher", "lifecycle", "watcher", "reaper", "market"} <= set(body["loops"])


def test_a_second_process_on_the_same_database_is_refused_and_names_the_first(
    running: Process, environment: dict[str, str]
) -> None:
    second = Process(environment)
    assert second.process.wait(timeout=30) == 1
    second._reader.join(5)
    said = " ".join(line["event"] for line in list(second.lines.queue))
    second.end()
    assert f"another corral serve (process {running.process.pid}) uses this database" in said


def test_SIGHUP_takes_over_new_limits_or_says_why_not(running: Process, environment: dict[str, str]) -> None:
    config = Path(environment["CORRAL_CONFIG"])
    before = httpx2.get(f"{running.address}/readyz").json()["config"]
    text = config.read_text()
    config.write_text(text + "limits: {max_nodes: 0}\n")
    running.process.send_signal(signal.SIGHUP)
    refused = running.logged("reload_refused")
    assert "limits.max_nodes" in refused["problems"][0]
    config.write_text(text.replace("port: 0", "port: 1"))
    running.process.send_signal(signal.SIGHUP)
    assert "listen: changed, which needs a restart" in running.logged("reload_refused")["problems"][0]
    assert httpx2.get(f"{running.address}/readyz").json()["config"] == before
    config.write_text(text + "limits: {max_nodes: 3}\n")
    running.process.send_signal(signal.SIGHUP)
    reloaded = running.logged("reloaded")
    assert reloaded["changed"] == ["limits"]
    assert httpx2.get(f"{running.address}/readyz").json()["config"] == reloaded["config"] != before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_API_03_it_stops_within_ten_seconds_though_a_stream_is_open(
    running: Process, token: str, number: signal.Signals
) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.Client(base_url=running.address, headers=headers, timeout=15) as client:
        job = client.post("/v1/jobs", json={"name": "a", "run": "x"}).json()["id"]
        with client.stream("GET", f"/v1/jobs/{job}/logs?follow=true") as stream:
            assert stream.status_code == 200
            began = time.monotonic()
            running.process.send_signal(number)
            assert running.process.wait(timeout=10) == 0
            assert time.monotonic() - began < 10
    assert running.logged("stopped")["calls_left"] == 0


def test_it_stops_within_ten_seconds_though_a_cloud_does_not_answer(environment: dict[str, str]) -> None:
    """A call that hangs in a vendor's SDK is left behind; its row says what to do at the next start."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(16)
        silent.settimeout(30)
        account = {
            "name": "main",
            "provider": "aws",
            "regions": ["us-east-1"],
            "endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "credentials": {"environment": "TEST_"},
        }
        environment |= {
            "CORRAL_ACCOUNTS": json.dumps([account]),
            "TEST_AWS_ACCESS_KEY_ID": "AKIATEST",
            "TEST_AWS_SECRET_ACCESS_KEY": "none",
            "HOME": environment["CORRAL_CONFIG"] + ".home",
        }
        process = Process(environment)
        try:
            process.until_ready()
            held = silent.accept()  # a call is out
            began = time.monotonic()
            process.process.send_signal(signal.SIGTERM)
            assert process.process.wait(timeout=10) == 0
            assert time.monotonic() - began < 10
            assert process.logged("stopped")["calls_left"] >= 1
            held[0].close()
        finally:
            process.end()


def test_init_makes_everything_once_and_prints_one_token(environment: dict[str, str]) -> None:
    settings = load(Path(environment["CORRAL_CONFIG"]), {})
    first = initialise(settings, environment={})
    assert first is not None
    assert first.startswith("corral_")
    assert initialise(settings, environment={}) is None
    database = Database(database_url(settings))

    def rows(model: Any) -> int:
        return len(database.read(lambda session: session.exec(select(model)).all()))

    assert (rows(Deployment), rows(Project), rows(Token)) == (1, 1, 1)
    database.close()
    assert Path(settings.data_dir).stat().st_mode & 0o077 == 0


def test_a_changed_deployment_id_turns_the_sweep_off_until_someone_confirms(
    environment: dict[str, str],
) -> None:
    path = Path(environment["CORRAL_CONFIG"])
    initialise(load(path, {}), environment={})
    settings = load(path, {"CORRAL_DEPLOYMENT_ID": "team-b"})
    initialise(settings, environment={})
    database = Database(database_url(settings))
    row = database.read(lambda session: session.exec(select(Deployment)).one())
    assert (row.id, row.sweep_confirmed) == ("team-b", False)
    database.close()


def test_metrics_have_a_listener_of_their_own_without_a_token(
    environment: dict[str, str], token: str
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment["CORRAL_LISTEN__METRICS_PORT"] = str(port)
    process = Process(environment)
    try:
        process.until_ready()
        found = httpx2.get(f"http://127.0.0.1:{port}/metrics")
        assert (found.status_code, "corral_jobs" in found.text) == (200, True)
        assert httpx2.get(f"http://127.0.0.1:{port}/v1/jobs").status_code == 404
        assert httpx2.get(f"{process.address}/metrics").status_code == 401
    finally:
        process.end()
