"""The demo's set: local clouds and a service as processes, on one scaled clock, in one folder."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from clock import ScaledClock
from service.cli.child import Child, environment_of_child, run_to_end
from service.cli.client import Client
from service.cli.connection import Connection
from service.cli.failure import CommandError, ExitCode
from service.cli.local_clouds import Described, start_clouds

READY_SECONDS = 60.0
PROVIDERS = ("aws", "gcp", "azure")


class Stage:
    """Use as a context manager: whatever happens, both processes and every instance are ended.

    folder: empty, ours alone. settings: beside those that the set needs. regions: of each cloud that the
    service is given, all of them where None. The service can be killed and started again; the clouds go on
    meanwhile.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Path,
        scale: float,
        settings: Mapping[str, Any],
        regions: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder = folder
        self.clock = ScaledClock(time.time(), scale)
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.starts = 0
        self._scenario = scenario
        self._settings = settings
        self._regions = regions
        self._clouds: Child | None = None
        self._service: Child | None = None
        self._described: Described | None = None
        self._token = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in (self._service, self._clouds):
            if child is not None:
                child.stop()

    def start_clouds(self) -> None:
        """Start the three clouds and write the service's settings file."""
        self._clouds, self._described = start_clouds(
            self.folder / "sandbox", self.clock, scenario=self._scenario
        )
        settings = {
            "data_dir": str(self.folder / "data"),
            "listen": {"port": self.port},
            "clock": str(self.clock),
            "accounts": [account for account in map(self._trimmed, self._described.accounts) if account],
            **self._settings,
        }
        self._config.write_text(json.dumps(settings, indent=2))

    def initialise(self) -> None:
        """`corral init`, which makes the first admin token."""
        command = [sys.executable, "-m", "service.cli", "init", "--json", "--config", str(self._config)]
        done = run_to_end(command, self._environment())
        if done.returncode:
            raise CommandError(f"corral init: {done.stderr.strip()}")
        self._token = json.loads(done.stdout)["token"]

    def start_service(self) -> None:
        """`corral serve`, until it is ready."""
        self.starts += 1
        self._service = Child(
            ["serve", "--config", str(self._config)], self.folder / "service.log", self._environment()
        )
        self._service.wait_until(self._ready, READY_SECONDS)

    def kill_service(self) -> None:
        """SIGKILL: whatever it was doing stays half done."""
        if self._service is not None:
            self._service.kill()

    def client(self) -> Client:
        """A client with the admin token."""
        return Client(Connection(self.url, self._token))

    def ledger(self) -> dict[str, Any]:
        """What the clouds themselves say was made, is live and was billed."""
        ledger: dict[str, Any] = self._ask_clouds("/control/ledger")
        return ledger

    def machines(self) -> list[dict[str, Any]]:
        """Every instance that the clouds ever made."""
        machines: list[dict[str, Any]] = self._ask_clouds("/control/instances")
        return machines

    def _trimmed(self, account: dict[str, Any]) -> dict[str, Any] | None:
        if self._regions is None:
            return account
        wanted = self._regions.get(account["provider"], ())
        return {**account, "regions": {name: {} for name in wanted}} if wanted else None

    def _ask_clouds(self, path: str) -> Any:
        if self._described is None:
            raise CommandError("the local clouds are not running")
        with Client(Connection(self._described.endpoints["control"])) as control:
            return control.get(path)

    @property
    def _config(self) -> Path:
        return self.folder / "corral.yaml"

    def _environment(self) -> dict[str, str]:
        """Without settings of the person who runs it, and away from their credentials."""
        ours = {name: None for name in os.environ if name.startswith("CORRAL_")}
        return environment_of_child(**ours, XDG_CONFIG_HOME=str(self.folder / "config"))

    def _ready(self) -> bool:
        try:
            with Client(Connection(self.url)) as client:
                client.get("/readyz")
        except CommandError as error:
            if error.code is not ExitCode.UNREACHABLE:
                raise
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
