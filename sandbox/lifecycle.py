"""How an instance moves from made to gone. Not locked: the world is."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Protocol

from sandbox.ledger import Ledger
from sandbox.market import Market, pool_of
from sandbox.scenario import Scenario
from sandbox.timeline import Timeline
from sandbox.vm import Charge, EndedBy, Vm


class Machines(Protocol):
    """What gives an instance its guest. Calls return at once and are safe to repeat."""

    def start(self, vm: Vm) -> None:
        """Boot the guest with the instance's user data."""

    def shutdown(self, vm: Vm) -> None:
        """Tell the guest to go down in good order."""

    def kill(self, vm: Vm) -> None:
        """Cut the power: nothing of the guest runs on afterwards."""

    def discard(self, vm: Vm) -> None:
        """The instance is over, its disk goes."""

    def console(self, vm: Vm) -> str:
        """What the guest has printed."""

    def powered_off(self) -> Iterable[Vm]:
        """Instances whose guest has shut itself down since the last call."""


class Lifecycle:
    """Moves instances and books what that means: charges, objects, happenings, and the guest itself."""

    def __init__(
        self,
        scenario: Scenario,
        timeline: Timeline,
        market: Market,
        ledger: Ledger,
        machines: Machines,
        chance: random.Random,
    ) -> None:
        self._scenario = scenario
        self._timeline = timeline
        self._market = market
        self._ledger = ledger
        self._machines = machines
        self._chance = chance

    def price(self, vm: Vm) -> float | None:
        """USD per hour that the instance costs now: nothing more in a block, which was paid ahead."""
        if vm.paid_ahead:
            return 0.0
        return self._market.price(pool_of(vm), self._timeline.now())

    def boot_seconds(self, vm: Vm) -> float:
        """How long this instance will take until its guest runs."""
        timings = self._scenario.timings(vm.provider)
        return timings.boot_seconds * (1 + timings.boot_jitter * self._chance.uniform(-1, 1))

    def run(self, vm: Vm, max_run_seconds: float | None) -> bool:
        """The guest is up, billing begins; False if the instance has ended meanwhile."""
        if vm.state != "pending":
            return False
        vm.state = "running"
        vm.running_at = self._timeline.now()
        price = self.price(vm)
        if price is not None:
            vm.charges.append(Charge(vm.running_at, price))
        self.note("running", vm)
        self._machines.start(vm)
        if max_run_seconds is not None:
            self._timeline.after(max_run_seconds, lambda: self._reclaim(vm, "max_age"))
        rate = getattr(self._scenario.interruptions, vm.provider)
        if vm.capacity_type == "spot" and rate > 0:
            self._timeline.after(self._chance.expovariate(rate) * 3600, lambda: self.preempt(vm))
        return True

    def preempt(self, vm: Vm, notice: bool = True, seconds: float | None = None) -> None:
        """The cloud wants it back."""
        if vm.state not in ("pending", "running") or vm.notice_deadline is not None:
            return
        if not notice:
            self._reclaim(vm, "preempted")
            return
        warning = self._scenario.timings(vm.provider).notice_seconds if seconds is None else seconds
        vm.noticed_at = self._timeline.now()
        vm.notice_deadline = vm.noticed_at + timedelta(seconds=warning)
        self.note("notice", vm, seconds=warning)
        self._timeline.after(warning, lambda: self._reclaim(vm, "preempted"))

    def yield_now(self, vm: Vm) -> None:
        """The guest has agreed to the preemption it was told of: there is nothing to wait for."""
        if vm.notice_deadline is not None:
            self._reclaim(vm, "preempted")

    def power_off(self, vm: Vm) -> None:
        """The guest has shut itself down."""
        if vm.state not in ("pending", "running"):
            return
        self._machines.kill(vm)
        if vm.poweroff == "stop":
            self._stop(vm, "instance")
        else:
            self.end(vm, "instance")

    def end(self, vm: Vm, reason: EndedBy) -> None:
        """Begin the end; what has begun goes on as it is."""
        if vm.state in ("shutting_down", "terminated"):
            return
        vm.end_reason = reason
        vm.state = "shutting_down"
        vm.ending_at = self._timeline.now()
        self._settle(vm)
        self.note("terminating", vm, reason=reason)
        self._machines.shutdown(vm)
        self._timeline.after(self._scenario.timings(vm.provider).terminate_seconds, lambda: self._gone(vm))

    def kill(self, vm: Vm, seen: bool) -> None:
        """The host dies; `seen` is whether the cloud knows."""
        if vm.state not in ("pending", "running", "shutting_down"):
            return
        self._machines.kill(vm)
        self.note("host_lost", vm, seen=seen)
        if seen:
            vm.end_reason = vm.end_reason or "host_failure"
            vm.ending_at = vm.ending_at or self._timeline.now()
            self._gone(vm)

    def reprice(self, vms: Iterable[Vm]) -> None:
        """Bill at the prices now in force; who bid less loses the instance."""
        now = self._timeline.now()
        for vm in vms:
            price = self.price(vm)
            if price is None or not vm.charges or vm.charges[-1].end is not None:
                continue
            if price != vm.charges[-1].price:
                vm.charges[-1].end = now
                vm.charges.append(Charge(now, price))
            if vm.capacity_type == "spot" and vm.max_price is not None and price > vm.max_price:
                self.preempt(vm)

    def clear(self, vm: Vm) -> None:
        """The block that the instance sits in is over."""
        self._reclaim(vm, "max_age")

    def note(self, what: str, vm: Vm, **facts: Any) -> None:
        """Book something that happened to an instance."""
        where = {"zone": vm.zone, "instance_type": vm.instance_type, "capacity_type": vm.capacity_type}
        self._ledger.note(self._timeline.now(), what, vm.provider, vm=vm.id, name=vm.name, **where, **facts)

    def _reclaim(self, vm: Vm, reason: EndedBy) -> None:
        if vm.state not in ("pending", "running"):
            return
        self._machines.kill(vm)
        if vm.eviction == "stop":
            self._stop(vm, reason)
        else:
            self.end(vm, reason)

    def _stop(self, vm: Vm, reason: EndedBy) -> None:
        """Stopped, not gone: it keeps its disk. A VM of Azure that shut itself down is billed until it is
        deallocated (Microsoft, "States and billing of Azure Virtual Machines").
        """
        vm.state = "stopped"
        vm.end_reason = reason
        vm.ending_at = self._timeline.now()
        if vm.provider != "azure" or reason != "instance":
            self._settle(vm)
        self.note("stopped", vm, reason=reason)

    def _gone(self, vm: Vm) -> None:
        if vm.state == "terminated":
            return
        self._machines.kill(vm)
        self._machines.discard(vm)
        now = self._timeline.now()
        vm.state = "terminated"
        vm.ended_at = now
        self._settle(vm)
        for kind, ids in [("instance", [vm.id]), *vm.objects.items()]:
            if kind not in vm.keep:
                for name in ids:
                    self._ledger.gone(now, vm.provider, kind, name)
        self.note("terminated", vm, reason=vm.end_reason)

    def _settle(self, vm: Vm) -> None:
        """Nothing is billed from here on."""
        if vm.charges and vm.charges[-1].end is None:
            vm.charges[-1].end = self._timeline.now()
