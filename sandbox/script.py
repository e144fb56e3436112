"""The scenario's events: fires them when their time or their instance has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sandbox.market import covers, pool_of
from sandbox.scenario import (
    CapacityRule,
    Event,
    Kill,
    Preempt,
    PriceRule,
    QuotaRule,
    Restore,
    SetCapacity,
    SetFault,
    SetPrice,
    SetReservation,
    When,
    Where,
)
from sandbox.vm import Vm

if TYPE_CHECKING:
    from sandbox.world import World

_ALIVE = {"running": ("running",), "created": ("pending", "running")}


class _Watch:
    """An event that waits for its `nth` instance."""

    def __init__(self, event: Event, when: When) -> None:
        self.event = event
        self.when = when
        self.seen = 0

    def reached(self) -> bool:
        """Counts one more instance; True if this is the one."""
        self.seen += 1
        return self.when.nth == "each" or self.seen == self.when.nth


class Script:
    """Events by time are planned at once, those by instance when one is made or comes up."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._watches: list[_Watch] = []

    def add(self, events: Iterable[Event]) -> None:
        """From now on; `at` counts from here."""
        for event in events:
            if event.when is not None:
                self._watches.append(_Watch(event, event.when))
            else:
                self._plan(event, event.at or 0.0)

    def moved(self, vm: Vm, state: str) -> None:
        """An instance was `created` or is now `running`."""
        for watch in self._watches:
            if watch.when.state == state and covers(watch.when, pool_of(vm)):
                self._look_again(watch, vm)

    def _plan(self, event: Event, seconds: float) -> None:
        self._world.after(seconds, lambda: self._fire(event, None))

    def _look_again(self, watch: _Watch, vm: Vm) -> None:
        def look() -> None:
            if vm.state in _ALIVE[watch.when.state] and watch.reached():
                self._fire(watch.event, vm)

        self._world.after(watch.when.seconds, look)

    def _fire(self, event: Event, vm: Vm | None) -> None:
        world = self._world
        if isinstance(event, Preempt | Kill):
            target = self._victim(event, vm)
            if target is None:
                return
            if isinstance(event, Preempt):
                world.preempt(target, event.notice, event.notice_seconds)
            else:
                world.kill(target, event.seen)
        elif isinstance(event, SetCapacity):
            world.set_capacity(CapacityRule(count=event.count, **event.where.model_dump()))
        elif isinstance(event, SetPrice):
            world.set_price(PriceRule(price=event.price, **event.where.model_dump()))
        elif isinstance(event, SetReservation):
            world.reserve(event.reservation)
        elif isinstance(event, SetFault):
            world.add_fault(event.rule())
        elif isinstance(event, Restore):
            world.restore(event)
        else:
            rule = QuotaRule(provider=event.provider, region=event.region, name=event.name, limit=event.limit)
            world.set_quota(rule)

    def _victim(self, event: Preempt | Kill, vm: Vm | None) -> Vm | None:
        """The instance that the event waited for, unless it names others; then one of those, by chance."""
        if vm is not None and event.where == Where():
            return vm
        running = [
            vm
            for vm in self._world.all_vms()
            if vm.state in ("pending", "running")
            and vm.notice_deadline is None
            and covers(event.where, pool_of(vm))
        ]
        return self._world.chance.choice(running) if running else None
