"""Worlds and local clouds whose time tests move by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from sandbox.machines import ProcessMachines
from sandbox.scenario import Scenario
from sandbox.server import Sandbox
from sandbox.vm import CapacityType
from sandbox.world import Vm, World
from tests.clocks import FakeClock

NOWHERE = "http://127.0.0.1:9"
ZONE = "use1-az4"


def make_world(tmp_path: Path, clock: FakeClock, **scenario: Any) -> World:
    """A world over machines that start nothing unless they are given user data."""
    machines = ProcessMachines(tmp_path / "clouds", ["/bin/true"], NOWHERE, clock)
    return World(Scenario.parse(scenario), clock, machines)


def pass_time(world: World, clock: FakeClock, seconds: float) -> None:
    """Let time pass and everything happen that was due in it."""
    clock.advance(seconds)
    world.tick()


def launch(
    world: World,
    count: int = 1,
    *,
    provider: str = "aws",
    region: str = "us-east-1",
    zone: str = ZONE,
    instance_type: str = "g5.xlarge",
    capacity_type: CapacityType = "spot",
    **more: Any,
) -> list[Vm]:
    """Instances as a face would ask for them."""
    return world.allocate(
        provider,
        region=region,
        zone=zone,
        instance_type=instance_type,
        capacity_type=capacity_type,
        names=[f"node-{number}" for number in range(count)],
        token="token",
        tags={},
        **more,
    )


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    """Wait for real processes to get there."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.005)


class Clouds:
    """A running sandbox on a clock that stands still, and real clients of its EC2 face."""

    def __init__(self, root: Path, agent_command: Sequence[str] = ("/bin/true",), **scenario: Any) -> None:
        self.clock = FakeClock()
        self.sandbox = Sandbox(
            Scenario.parse(scenario), root, agent_command, self.clock, ticking=False, clouds=["aws"]
        )
        self.sandbox.start()
        self._clients: list[Any] = []

    @property
    def world(self) -> World:
        return self.sandbox.world

    def client(self, service: str = "ec2", region: str = "us-east-1", **config: Any) -> Any:
        """A boto3 client that sends once, unless told otherwise."""
        settings = Config(retries={"total_max_attempts": 1, "mode": "standard"}, read_timeout=20)
        client = boto3.client(
            service,
            region_name=region,
            endpoint_url=self.sandbox.endpoints["aws"],
            aws_access_key_id="AKIASANDBOX000000000",
            aws_secret_access_key="not-a-secret",
            config=settings.merge(Config(**config)),
        )
        self._clients.append(client)
        return client

    def pass_time(self, seconds: float) -> None:
        """Let time pass and everything happen that was due in it."""
        pass_time(self.world, self.clock, seconds)

    def close(self) -> None:
        """End everything."""
        for client in self._clients:
            client.close()
        self.sandbox.stop()


MakeClouds = Callable[..., Clouds]
MakeWorld = Callable[..., World]
