"""The local clouds: in this process by `corral sandbox`, or as a child of `serve --sandbox` and `demo`."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock import ENVIRONMENT, ScaledClock
from service.cli.child import Child, environment_of_child
from service.cli.failure import CommandError, UsageError

READY_SECONDS = 60.0
_DESCRIPTION = "sandbox.json"


@dataclass(frozen=True)
class Described:
    """What a running sandbox says of itself."""

    endpoints: dict[str, str]
    accounts: list[dict[str, Any]]
    clock: str


def serve_clouds(
    clock: ScaledClock, root: Path, scenario: Path | None, base_port: int, *, leashed: bool
) -> None:
    """Run the local clouds until SIGTERM or SIGINT; if `leashed` also until standard input closes."""
    from agent.build import build
    from sandbox.scenario import Scenario, ScenarioError
    from sandbox.server import Sandbox

    try:
        script = Scenario.load(scenario) if scenario else Scenario()
    except ScenarioError as error:
        raise UsageError(str(error)) from error
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    root = root.resolve()
    command = [sys.executable, str(build(root / "corral-agent.pyz"))]
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if leashed:
        threading.Thread(target=_watch_leash, args=(stop,), daemon=True).start()
    try:
        sandbox = Sandbox(script, root, command, clock, base_port=base_port)
    except OSError as error:
        raise CommandError(f"sandbox: {error}") from error
    with sandbox:
        described = Described(dict(sandbox.endpoints), sandbox.accounts(), str(clock))
        _announce(described)
        _publish(root, described)
        while not stop.wait(3600):
            pass
    (root / _DESCRIPTION).unlink(missing_ok=True)


def start_clouds(
    root: Path, clock: ScaledClock, *, scenario: Path | None = None, base_port: int = 0
) -> tuple[Child, Described]:
    """Start `corral sandbox` as a child that ends with this process; returns once every port answers."""
    file = root / _DESCRIPTION
    file.unlink(missing_ok=True)
    arguments = ["sandbox", "--leashed", "--root", str(root), "--port-base", str(base_port)]
    if scenario is not None:
        arguments += ["--scenario", str(scenario)]
    child = Child(arguments, root / "sandbox.log", environment_of_child(**{ENVIRONMENT: str(clock)}))
    try:
        child.wait_until(file.exists, READY_SECONDS)
        return child, _read(file)
    except BaseException:
        child.stop()
        raise


def accounts_yaml(described: Described) -> str:
    """The settings that point a service at these clouds."""
    import yaml

    settings: Mapping[str, Any] = {"clock": described.clock, "accounts": described.accounts}
    return str(yaml.safe_dump(settings, sort_keys=False))


def _publish(root: Path, described: Described) -> None:
    part = root / f".{_DESCRIPTION}"
    part.write_text(json.dumps(described.__dict__))
    part.replace(root / _DESCRIPTION)


def _read(file: Path) -> Described:
    return Described(**json.loads(file.read_text()))


def _announce(described: Described) -> None:
    for name, url in described.endpoints.items():
        print(f"# {name:9}{url}")
    print(accounts_yaml(described), end="", flush=True)


def _watch_leash(stop: threading.Event) -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    stop.set()
