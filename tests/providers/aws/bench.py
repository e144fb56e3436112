"""The AWS adapter against the local EC2, over HTTP and with the real SDK."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from providers.aws.adapter import AwsProvider
from providers.aws.instance_types import quota_family
from providers.vocabulary import OfferKey
from sandbox.faces.ec2 import app
from sandbox.reservations import ReservationRule
from sandbox.scenario import CapacityRule, QuotaRule, Scenario, SetFault
from sandbox.vm import Vm
from sandbox.wire import CuttableProtocol
from sandbox.world import World
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, account

ACTIONS = {"launch": "RunInstances", "describe": "DescribeInstances"}


class NoGuests:
    """Machines whose guests do nothing."""

    def start(self, vm: Vm) -> None: ...

    def shutdown(self, vm: Vm) -> None: ...

    def kill(self, vm: Vm) -> None: ...

    def discard(self, vm: Vm) -> None: ...

    def console(self, vm: Vm) -> str:
        return ""

    def powered_off(self) -> Iterable[Vm]:
        return ()


class AwsBench:
    """What the provider contract needs to know of the local EC2."""

    region = "us-east-1"
    instance_type = "g6.xlarge"
    gangs_are_atomic = True

    def __init__(self, world: World, clock: FakeClock, provider: AwsProvider) -> None:
        self.world = world
        self.clock = clock
        self.provider = provider

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.world.tick()

    def exhaust(self, key: OfferKey, leave: int = 0) -> None:
        def here(vm: Vm) -> bool:
            mine = (vm.zone, vm.instance_type, vm.capacity_type)
            return vm.live and mine == (key.zone, key.instance_type, str(key.capacity_type))

        self._capacity(key, len(self.world.vms("aws", here)) + leave)

    def restore(self, key: OfferKey) -> None:
        self._capacity(key, 1000)

    def limit_quota(self, key: OfferKey, vcpus: int) -> None:
        name = f"{quota_family(key.instance_type)}/{key.capacity_type}"
        self.world.set_quota(QuotaRule(provider="aws", region=key.region, name=name, limit=vcpus))

    def deny_everything(self) -> None:
        self.fault("*", "error", code="UnauthorizedOperation", http_status=403, times=None)

    def set_lag(self, seconds: float) -> None:
        scenario = self.world.scenario
        timings = scenario.aws.model_copy(update={"list_lag_seconds": seconds})
        self.world.scenario = scenario.model_copy(update={"aws": timings})

    def drop_next_reply(self) -> None:
        self.fault("RunInstances", "drop_reply", effect=True)

    def throttle(self, call: str, times: int) -> None:
        self.fault(ACTIONS[call], "throttle", times=times)

    def preempt(self, provider_id: str) -> None:
        self.world.preempt(self.vm(provider_id))

    def delete_behind_our_back(self, provider_id: str) -> None:
        self.world.terminate(self.vm(provider_id))

    def user_data(self, provider_id: str) -> str:
        return self.vm(provider_id).user_data

    def unknown_id(self) -> str:
        return "i-0fffffffffffffff0"

    def live(self) -> Mapping[str, int]:
        return {kind: row["live"] for kind, row in self.world.ledger()["objects"].items()}

    def reserve(self, slots: int, **terms: Any) -> str:
        reservation = f"cr-{len(self.world.reservations('aws')):017x}"
        self.put(reservation, slots, **terms)
        return reservation

    def end_reservation(self, reservation: str) -> None:
        self.put(reservation, 1, ends=0)

    # For the tests of this adapter.

    def put(self, reservation: str, slots: int, **terms: Any) -> None:
        """Make a reservation, or change its terms."""
        rule = {
            "provider": "aws",
            "name": reservation,
            "zone": "use1-az4",
            "instance_type": self.instance_type,
            "count": slots,
        }
        self.world.reserve(ReservationRule.model_validate(rule | terms))

    def vm(self, provider_id: str) -> Vm:
        vm = self.world.vm("aws", provider_id)
        assert vm is not None, provider_id
        return vm

    def fault(self, call: str, action: str, **more: Any) -> None:
        """Have the next matching call go wrong."""
        event = {"do": "fault", "at": 0, "provider": "aws", "call": call, "action": action, **more}
        self.world.add_fault(SetFault.model_validate(event).rule())

    def calls(self) -> Mapping[str, int]:
        """How often each action was called."""
        calls: dict[str, int] = self.world.ledger()["calls"].get("aws", {})
        return calls

    def _capacity(self, key: OfferKey, count: int) -> None:
        where = {
            "provider": "aws",
            "zone": key.zone,
            "instance_type": key.instance_type,
            "capacity_type": str(key.capacity_type),
        }
        self.world.set_capacity(CapacityRule.model_validate({**where, "count": count}))


@contextmanager
def opened(**settings: Any) -> Iterator[AwsBench]:
    """A local EC2 with plenty of everything, and an adapter for it."""
    clock = FakeClock(waits_advance=True)
    world = World(Scenario.parse({"default_capacity": 100}), clock, NoGuests())
    with _served(world) as url:
        config = account(url, **{"image": None, "regions": {"us-east-1": {}, "us-west-2": {}}, **settings})
        provider = AwsProvider(config, clock, environment=ENVIRONMENT, chance=random.Random(11))
        try:
            yield AwsBench(world, clock, provider)
        finally:
            provider.close()


@contextmanager
def _served(world: World) -> Iterator[str]:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app(world), http=CuttableProtocol, ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 10
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.005)
        assert server.started
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        sock.close()
