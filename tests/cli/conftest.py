"""A real service, as a process, without a cloud; and the command line in this process."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.cli.child import Child, environment_of_child
from service.cli.client import Client
from service.cli.connection import Connection
from service.cli.failure import CommandError
from service.cli.main import main


@dataclass(frozen=True)
class Running:
    """A service and its first admin token."""

    url: str
    token: str
    folder: Path


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Corral = Callable[..., Done]


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("service")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "corral.yaml").write_text(
        json.dumps({"data_dir": str(folder / "data"), "listen": {"port": port}})
    )
    environment = environment_of_child(
        CORRAL_CONFIG=str(folder / "corral.yaml"), XDG_CONFIG_HOME=str(folder / "config")
    )
    command = [sys.executable, "-m", "service.cli", "init", "--json"]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            with Client(Connection(url)) as client:
                client.get("/readyz")
        except CommandError:
            return False
        return True

    with Child(["serve"], folder / "service.log", environment) as child:
        child.wait_until(ready, 60)
        yield Running(url, json.loads(made.stdout)["token"], folder)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Corral:
    """Runs `corral ARGUMENTS` here with a clean environment; `stdin` is what it may read."""
    for name in ("CORRAL_URL", "CORRAL_TOKEN", "CORRAL_PROJECT", "CORRAL_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def run(*arguments: str, stdin: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return run


@pytest.fixture
def corral(bare: Corral, service: Running, monkeypatch: pytest.MonkeyPatch) -> Corral:
    """The same, with the service's address and admin token in the environment."""
    monkeypatch.setenv("CORRAL_URL", service.url)
    monkeypatch.setenv("CORRAL_TOKEN", service.token)
    return bare
