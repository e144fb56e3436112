"""The one truth behind the three local clouds: who runs where, what is left, what it costs, what is next."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from clock import Clock
from sandbox.admission import Admission, Refusal, RefusalKind
from sandbox.faults import Fault, FaultRule
from sandbox.identity import Identity
from sandbox.ledger import Ledger
from sandbox.lifecycle import Lifecycle, Machines
from sandbox.market import Market, Pool
from sandbox.quota_reviews import QuotaRequest, QuotaReviews, ReviewRule
from sandbox.quotas import QuotaRow
from sandbox.reservations import Reservation, ReservationRule, Reservations
from sandbox.scenario import CapacityRule, Event, PriceRule, QuotaRule, Restore, Scenario, Timings
from sandbox.script import Script
from sandbox.timeline import Timeline
from sandbox.vm import CapacityType, Vm

__all__ = ["Fault", "FaultRule", "Machines", "QuotaRow", "Refusal", "RefusalKind", "Vm", "World"]


class World:
    """Market and instances of all three clouds. Thread-safe; time moves only in `tick`.

    Every change that is due by the clock happens in `tick`, stamped with the time it was due, however late
    the call. Vms that are handed out are live objects: read them, change nothing but `extra` and `tags`.
    endpoints: name -> URL of what serves this world, filled in by the server. closing: set once nobody should
    be kept waiting any more.
    """

    def __init__(self, scenario: Scenario, clock: Clock, machines: Machines, *, run: int = 0) -> None:
        self.scenario = scenario
        self.clock = clock
        self.machines = machines
        self.endpoints: dict[str, str] = {}
        self.closing = threading.Event()
        self.chance = random.Random(f"{scenario.seed}/chance")  # noqa: S311
        self._lock = threading.RLock()
        self._timeline = Timeline(clock)
        self._vms: dict[tuple[str, str], Vm] = {}
        self._by_key: dict[str, Vm] = {}
        self._rules: list[FaultRule] = []
        self._identity = Identity(scenario.seed, run)
        self._ledger = Ledger()
        self._market = Market(scenario, clock.now())
        self._reservations = Reservations(self._vms)
        self._admission = Admission(self._market, self._vms, self._reservations, self._timeline)
        self._lifecycle = Lifecycle(
            scenario, self._timeline, self._market, self._ledger, machines, self.chance
        )
        self._script = Script(self)
        self._script.add(scenario.events)
        self._reviews = QuotaReviews(scenario.quota_reviews, self.now, self.after, self._grant)
        for rule in scenario.reservations:
            self.reserve(rule)
        self._draw_prices_later()

    # Time

    def now(self) -> datetime:
        """The sandbox's time, UTC; within an action of `after`, the time that it was due."""
        with self._lock:
            return self._timeline.now()

    def timings(self, provider: str) -> Timings:
        """How fast a provider is, in seconds of the sandbox's clock."""
        return self.scenario.timings(provider)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Have `action` called by the first `tick` after so many seconds, under the world's lock."""
        with self._lock:
            self._timeline.after(seconds, action)

    def tick(self) -> None:
        """Let everything happen that is due by now."""
        with self._lock:
            for vm in self.machines.powered_off():
                self._lifecycle.power_off(vm)
            self._timeline.run_due()

    # Instances

    def allocate(
        self,
        provider: str,
        *,
        region: str,
        zone: str,
        instance_type: str,
        capacity_type: CapacityType,
        names: Sequence[str],
        token: str,
        tags: Mapping[str, str],
        user_data: str = "",
        public_ip: bool = False,
        max_price: float | None = None,
        reservation: str | None = None,
        matching: bool = False,
        max_run_seconds: float | None = None,
        poweroff: Literal["terminate", "stop"] = "terminate",
        eviction: Literal["delete", "stop"] = "delete",
        keep: Iterable[str] = (),
        objects: Mapping[str, str | Sequence[str]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> list[Vm]:
        """Make one instance per name, all or none; Refusal says why not.

        zone: the catalogue's key. max_price: USD per hour that the caller pays for spot at most. reservation:
        whose slots to take, and no others. matching: without a name, the slots of open reservations first.
        max_run_seconds: the cloud ends it so long after it began to run. poweroff, eviction, keep: see Vm.
        objects: other id patterns for what comes with an instance, by kind, one or several
        (`{"nic": "{name}-nic0"}`; fields: name, ip, hex, short). Each instance gets its own copy of `tags`
        and `extra`.
        """
        with self._lock:
            pool = Pool(provider, region, zone, instance_type, capacity_type)
            now = self.now()
            try:
                slots = self._admission.admit(pool, len(names), max_price, reservation, matching)
            except Refusal as refusal:
                facts = {key: value for key, value in refusal.facts.items() if key != "provider"}
                self._ledger.note(now, "refused", provider, kind=refusal.kind, token=token, **facts)
                raise
            visible_at = now + timedelta(seconds=self.timings(provider).list_lag_seconds)
            made = [
                Vm(
                    provider=provider,
                    id=self._identity.instance(provider),
                    name=name,
                    region=region,
                    zone=zone,
                    instance_type=instance_type,
                    capacity_type=capacity_type,
                    token=token,
                    tags=dict(tags),
                    user_data=user_data,
                    private_ip=self._identity.private_ip(provider),
                    public_ip=self._identity.public_ip() if public_ip else None,
                    created_at=now,
                    visible_at=visible_at,
                    metadata_key=secrets.token_urlsafe(24),
                    max_price=max_price,
                    poweroff=poweroff,
                    eviction=eviction,
                    keep=frozenset(keep),
                    reservation=slot,
                    paid_ahead=self._paid_ahead(provider, slot),
                    extra=dict(extra or {}),
                )
                for name, slot in zip(names, slots, strict=True)
            ]
            for vm in made:
                self._enter(vm, objects or {}, max_run_seconds)
            return made

    def vm(self, provider: str, instance_id: str) -> Vm | None:
        """The instance of that id, ended ones included."""
        with self._lock:
            return self._vms.get((provider, instance_id))

    def vms(self, provider: str, predicate: Callable[[Vm], bool] = lambda vm: True) -> list[Vm]:
        """Instances in the order they were made, ended ones included."""
        with self._lock:
            return [vm for vm in self._vms.values() if vm.provider == provider and predicate(vm)]

    def all_vms(self) -> list[Vm]:
        """Every instance of every provider, in the order they were made, ended ones included."""
        with self._lock:
            return list(self._vms.values())

    def vm_of_key(self, metadata_key: str) -> Vm | None:
        """The instance behind a path of the metadata server."""
        with self._lock:
            return self._by_key.get(metadata_key)

    def terminate(self, vm: Vm, by: Literal["user", "instance"] = "user") -> None:
        """Begin the end of an instance; nothing if it has begun. `instance`: its guest has shut down."""
        with self._lock:
            if by == "instance":
                self._lifecycle.power_off(vm)
            else:
                self._lifecycle.end(vm, "user")

    def preempt(self, vm: Vm, notice: bool = True, seconds: float | None = None) -> None:
        """Take an instance back: after the provider's notice (or `seconds`), or at once without any."""
        with self._lock:
            self._lifecycle.preempt(vm, notice, seconds)

    def acknowledge(self, vm: Vm) -> None:
        """The guest agrees to the preemption that it has notice of: it happens now."""
        with self._lock:
            self._lifecycle.yield_now(vm)

    def kill(self, vm: Vm, seen: bool = True) -> None:
        """The host dies without a word. seen: whether the cloud notices that the instance is over."""
        with self._lock:
            self._lifecycle.kill(vm, seen)

    def release(self, provider: str, kind: str, object_id: str) -> bool:
        """Delete an object that is not an instance (a kept disk, a spot request); False if there is none."""
        with self._lock:
            done = self._ledger.gone(self.now(), provider, kind, object_id)
            if done:
                self._ledger.note(self.now(), "released", provider, kind=kind, id=object_id)
            return done

    def exists(self, provider: str, kind: str, object_id: str) -> bool:
        """Whether an object was made and is not gone."""
        with self._lock:
            thing = self._ledger.things.get((provider, kind, object_id))
            return thing is not None and thing.gone_at is None

    # Market

    def price(
        self, provider: str, region: str, zone: str, instance_type: str, capacity_type: CapacityType
    ) -> float | None:
        """USD per hour now; None where it is not sold."""
        with self._lock:
            pool = Pool(provider, region, zone, instance_type, capacity_type)
            return self._market.price(pool, self.now())

    def free(
        self, provider: str, region: str, zone: str, instance_type: str, capacity_type: CapacityType
    ) -> int:
        """How many more instances the pool can hold."""
        with self._lock:
            return self._admission.free(Pool(provider, region, zone, instance_type, capacity_type))

    def quotas(self, provider: str, region: str) -> list[QuotaRow]:
        """Limits and usage of a region; of the whole project with region `global`."""
        with self._lock:
            return self._admission.quotas(provider, region)

    def reserve(self, rule: ReservationRule) -> Reservation:
        """Set capacity aside, or change the terms of a reservation by its name."""
        with self._lock:
            made = self._reservations.put(rule, self.now())
            facts = rule.model_dump(exclude_none=True)
            self._ledger.note(self.now(), "reserved", facts.pop("provider"), **facts)
            over = made.cleared_at or made.ends_at
            if over is not None:
                seconds = max(0.0, (over - self.now()).total_seconds())
                self._timeline.after(seconds, lambda: self._end_reserved(made))
            return made

    def reservations(self, provider: str) -> list[tuple[Reservation, int]]:
        """A cloud's reservations, ended ones included, each with how many instances sit in it."""
        with self._lock:
            return [(found, self._reservations.used(found)) for found in self._reservations.of(provider)]

    def set_capacity(self, rule: CapacityRule) -> None:
        """Change what pools can hold; instances that run stay."""
        with self._lock:
            self._market.set_capacity(rule)
            self._changed("capacity", rule.model_dump(exclude_none=True))

    def set_price(self, rule: PriceRule) -> None:
        """Change prices: running instances are billed so from now on, and go if it is above their bid."""
        with self._lock:
            self._market.set_price(rule)
            self._changed("price", rule.model_dump(exclude_none=True))
            self._lifecycle.reprice(self._vms.values())

    def set_quota(self, rule: QuotaRule) -> None:
        """Change a limit; instances that run stay."""
        with self._lock:
            self._market.set_quota(rule)
            self._changed("quota", rule.model_dump())

    def file_quota_request(
        self, provider: str, request_id: str, *, region: str, name: str, wanted: float
    ) -> QuotaRequest:
        """Ask for a new limit; LookupError where there is no such quota. What may be asked for, and whether
        beside another request, is for the face to say; the same id again stands in place of the first.
        """
        with self._lock:
            limit = self._market.limit(provider, region, name)
            if limit is None:
                raise LookupError(name)
            request = self._reviews.file(provider, request_id, region, name, wanted, limit)
            facts = {"request": request_id, "region": region, "name": name, "wanted": wanted, "limit": limit}
            self._ledger.note(self.now(), "quota_requested", provider, **facts)
            return request

    def quota_requests(self, provider: str) -> list[QuotaRequest]:
        """A cloud's requests for more, in the order they were filed, decided ones included."""
        with self._lock:
            return self._reviews.of(provider)

    def set_review(self, rule: ReviewRule) -> None:
        """Have requests that are filed from now on fare otherwise."""
        with self._lock:
            self._reviews.put(rule)
            self._changed("quota_review", rule.model_dump())

    def restore(self, order: Restore) -> None:
        """Undo what was set since the start, as far as the order says."""
        with self._lock:
            self._market.restore(order)
            if "fault" in order.what:
                provider = order.where.provider
                self._rules = [rule for rule in self._rules if provider not in (None, rule.provider)]
            self._changed(
                "restored", {**order.where.model_dump(exclude_none=True), "items": list(order.what)}
            )
            self._lifecycle.reprice(self._vms.values())

    # Events, faults, book-keeping

    def add_events(self, events: Iterable[Event]) -> None:
        """Have more happen; `at` counts from now."""
        with self._lock:
            self._script.add(events)

    def add_fault(self, rule: FaultRule) -> None:
        """Have calls go wrong from now on."""
        with self._lock:
            self._rules.append(rule)

    def fault(self, provider: str, call: str, params: Mapping[str, str]) -> Fault | None:
        """The fault meant for this call, used up once. Faces ask for each API call, which also counts it."""
        with self._lock:
            self._ledger.calls[provider, call] += 1
            for rule in self._rules:
                if rule.take(provider, call, params):
                    action = rule.fault.action
                    self._ledger.note(self.now(), "fault", provider, call=call, action=action)
                    return rule.fault
            return None

    def ledger(self) -> dict[str, Any]:
        """Objects made and live by kind, what happened when, calls by name, and the bill."""
        with self._lock:
            return self._ledger.summary(self._vms.values(), self.now())

    def _enter(
        self, vm: Vm, patterns: Mapping[str, str | Sequence[str]], max_run_seconds: float | None
    ) -> None:
        self._vms[vm.provider, vm.id] = vm
        self._by_key[vm.metadata_key] = vm
        spot = vm.capacity_type == "spot"
        found = self._identity.objects(
            vm.provider, vm.name, public_ip=vm.public_ip, spot=spot, names=patterns
        )
        vm.objects = found
        for kind, ids in [("instance", [vm.id]), *found.items()]:
            for name in ids:
                self._ledger.made(vm.created_at, vm, kind, name)
        self._lifecycle.note("created", vm, token=vm.token)

        def run() -> None:
            if self._lifecycle.run(vm, max_run_seconds):
                self._script.moved(vm, "running")

        self._timeline.after(self._lifecycle.boot_seconds(vm), run)
        self._script.moved(vm, "created")

    def _paid_ahead(self, provider: str, name: str | None) -> bool:
        found = self._reservations.get(provider, name) if name else None
        return found is not None and found.kind == "block"

    def _end_reserved(self, terms: Reservation) -> None:
        """A block ends with what runs in it; what sat in a plain reservation goes on without it."""
        if self._reservations.get(terms.provider, terms.name) != terms:
            return
        for vm in self._reservations.inside(terms):
            if terms.kind == "block":
                self._lifecycle.clear(vm)
            else:
                vm.reservation = None

    def _changed(self, what: str, facts: dict[str, Any]) -> None:
        self._ledger.note(self.now(), what, facts.pop("provider", "*"), **facts)

    def _grant(self, request: QuotaRequest) -> None:
        """The limit rises; one that has been raised further since stays."""
        place = {"provider": request.provider, "region": request.region, "name": request.name}
        limit = self._market.limit(**place)
        if request.granted is not None and limit is not None and limit < request.granted:
            self.set_quota(QuotaRule.model_validate({**place, "limit": request.granted}))

    def _draw_prices_later(self) -> None:
        moves = self.scenario.spot_prices
        if moves is None:
            return

        def draw() -> None:
            self._lifecycle.reprice(self._vms.values())
            self._draw_prices_later()

        self._timeline.after(moves.every_seconds, draw)
