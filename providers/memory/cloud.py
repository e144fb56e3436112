"""`MemoryCloud`: what the cloud in memory holds, and everything that a test or a simulation turns.

Like EC2 in what matters to a caller: a token is bound to its request and to the zone, a failed attempt
binds it too, and a token whose instances are over says so. Like GCE and ARM where `verdict_seconds` is
given: a refusal for want of capacity or quota then comes later, through `describe`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from clock import Clock
from providers.errors import ErrorKind, ProviderError
from providers.memory.faults import Blindness, Fault, Script
from providers.memory.machines import Machine
from providers.memory.market import MemoryMarket
from providers.memory.reviews import Answer, Review, Reviews
from providers.quota_requests import QuotaIncrease
from providers.reservations import Reservation
from providers.signals import SpotSignal
from providers.vocabulary import EndReason, LaunchRequest, Offer, OfferKey, Scope


@dataclass(frozen=True, slots=True)
class LaunchCall:
    """One call of `launch`. `error` is what it raised; None if it was accepted."""

    at: datetime
    request: LaunchRequest
    error: ProviderError | None


@dataclass(frozen=True, slots=True)
class Promise:
    """A create that was accepted, and is refused when it falls due: nothing of it ever exists."""

    request: LaunchRequest
    error: ProviderError
    due_at: datetime
    provider_ids: tuple[str, ...]


class MemoryCloud:
    """Times in seconds: `boot_seconds` until an instance runs, `terminate_seconds` until an ending one is
    over, `lag_seconds` of read-after-write lag, `shown_seconds` for which a terminated one is still shown,
    `verdict_seconds` until a refusal is known (None: at once). They may be changed at any time.

    `created` is every instance ever made, `launches` every call of `launch`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        boot_seconds: float = 30,
        terminate_seconds: float = 20,
        lag_seconds: float = 0,
        shown_seconds: float = 3600,
        verdict_seconds: float | None = None,
        reclaims_powered_off: bool = True,
        enforces_max_age: bool = False,
    ) -> None:
        self.clock = clock
        self.boot_seconds = boot_seconds
        self.terminate_seconds = terminate_seconds
        self.lag_seconds = lag_seconds
        self.shown_seconds = shown_seconds
        self.verdict_seconds = verdict_seconds
        self.reclaims_powered_off = reclaims_powered_off
        self.enforces_max_age = enforces_max_age
        self.lock = threading.RLock()
        self.market = MemoryMarket()
        self.reviews = Reviews(self.market.limit)
        self.script = Script()
        self.created: list[Machine] = []
        self.launches: list[LaunchCall] = []
        self.promises: dict[str, Promise] = {}
        self.signals: dict[tuple[str, str, str | None, str, str], SpotSignal] = {}
        self.built_in: list[Offer] = []
        self._machines: dict[str, Machine] = {}
        self._by_token: dict[str, list[Machine]] = {}
        self._shown: dict[str, Machine] = {}
        self._bound: dict[tuple[str, str], LaunchRequest] = {}
        self._ids = 0

    def sell(self, offer: Offer, capacity: int | None = None) -> Offer:
        """Put an offer on sale; `capacity` None is as many as anyone wants."""
        with self.lock:
            self.market.put(offer, capacity)
        return offer

    def reserve(self, provider: str, account: str, reservation: Reservation) -> OfferKey:
        """Reserve instances for an account, or change what is reserved; the key of a launch into it."""
        with self.lock:
            return self.market.reservations.put(provider, account, reservation)

    def drop_reservation(self, key: OfferKey) -> None:
        """The reservation is shown no more."""
        with self.lock:
            self.market.reservations.drop(key)

    def signal(self, account: str, signal: SpotSignal) -> None:
        """What the vendor says of spot capacity from now on; a later word on the same replaces it."""
        with self.lock:
            said = (signal.region, signal.zone, signal.instance_type, signal.source)
            self.signals[account, *said] = signal

    def build_in(self, offer: Offer) -> None:
        """An offer that ships with the adapter, whether or not it is for sale."""
        with self.lock:
            self.built_in.append(offer)

    def set_capacity(self, key: OfferKey, capacity: int | None) -> None:
        """How many instances of an offer may exist at a time; those that do exist stay."""
        with self.lock:
            self.market.set_capacity(key, capacity)

    def fail(
        self,
        call: str,
        error: ProviderError,
        *,
        times: int | None = 1,
        scope: Scope | None = None,
        after_effect: bool = False,
    ) -> None:
        """Let calls of a method (`launch`, `describe` ...) raise; see Fault."""
        with self.lock:
            self.script.add(Fault(call, error, times, scope or Scope(), after_effect))

    def drop_reply(self, call: str = "launch", *, times: int | None = 1, scope: Scope | None = None) -> None:
        """Let calls have their effect and then look like a connection that broke."""
        error = ProviderError(ErrorKind.TRANSIENT, "the connection closed before an answer", ambiguous=True)
        self.fail(call, error, times=times, scope=scope, after_effect=True)

    def refuse_later(
        self, error: ProviderError, *, times: int | None = 1, scope: Scope | None = None
    ) -> None:
        """Let launches be accepted, and refused through `describe` after `verdict_seconds` (None: 0)."""
        self.fail("verdict", error, times=times, scope=scope)

    def hide(self, place: str, *, call: str = "list_instances", times: int | None = 1) -> None:
        """Let listings of a call (`list_instances`, `find`, `offers`) miss a zone or a whole region."""
        with self.lock:
            self.script.blind(Blindness(call, place, times))

    def preempt(self, provider_id: str, notice_seconds: float = 0) -> None:
        """The cloud takes the instance back once the notice has passed."""
        with self.lock:
            machine = self._machines[provider_id]
            machine.notice_deadline = self.clock.now() + timedelta(seconds=notice_seconds)
            machine.end(machine.notice_deadline, self._takes_to_end(), EndReason.PREEMPTED)

    def kill(self, provider_id: str) -> None:
        """The host dies: no notice, over at once."""
        with self.lock:
            self._machines[provider_id].end(self.clock.now(), timedelta(0), EndReason.HOST_FAILURE)

    def delete(self, provider_id: str) -> None:
        """Someone deletes the instance; one that is unknown or over is left as it is."""
        with self.lock:
            machine = self._machines.get(provider_id)
            if machine is not None:
                machine.end(self.clock.now(), self._takes_to_end(), EndReason.USER)

    def power_off(self, provider_id: str) -> None:
        """The instance shuts itself down: it is deleted where the cloud does that, else billed on."""
        with self.lock:
            machine = self._machines[provider_id]
            if self.reclaims_powered_off:
                machine.end(self.clock.now(), self._takes_to_end(), EndReason.USER)
            else:
                machine.off_at, machine.end_reason = self.clock.now(), EndReason.USER

    def answer_requests(self, answer: Answer, key: str | None = None) -> None:
        """How requests for more quota that are filed from now on are answered; see Reviews.answer."""
        with self.lock:
            self.reviews.answer(answer, key)

    def file_by_hand(self, key: str, region: str | None, limit: float) -> Review:
        """Somebody asks for more of a quota in the vendor's console."""
        with self.lock:
            return self.reviews.file(QuotaIncrease(key, region, limit, "by hand"), self.clock.now())

    def made(self, token: str) -> list[Machine]:
        """Every instance that a token ever made, in any zone."""
        return list(self._by_token.get(token, ()))

    def live(self) -> list[Machine]:
        """Every instance that is not over, powered-off ones included."""
        with self.lock:
            now = self.clock.now()
            return [machine for machine in self._shown.values() if not machine.over(now)]

    # What the adapter asks of it, under its lock.

    def machine(self, provider_id: str) -> Machine | None:
        """An instance as reads see it now: None while they lag behind and once it is no longer shown."""
        machine = self._machines.get(provider_id)
        return machine if machine is not None and self._is_shown(machine) else None

    def machines(self, wanted: Callable[[Machine], bool]) -> list[Machine]:
        """Those that reads see now, oldest first."""
        for provider_id, machine in list(self._shown.items()):
            if self._is_forgotten(machine):
                del self._shown[provider_id]
        return [machine for machine in self._shown.values() if self._is_shown(machine) and wanted(machine)]

    def launch(self, request: LaunchRequest) -> Promise | list[Machine]:
        """Make all nodes or raise ProviderError; a Promise where the refusal is to come later."""
        earlier = self._earlier(request)
        if earlier:
            return earlier
        now = self.clock.now()
        for promise in self.promises.values():
            if promise.request == request and now < promise.due_at:
                return promise
        refusal = self.market.refusal(request.offer, request.nodes, now)
        scripted = self.script.take("verdict", self.market.get(request.offer))
        if scripted is not None:
            return self._promise(request, scripted.error)
        if refusal is None:
            return self._make(request)
        if self.verdict_seconds is None:
            raise refusal
        return self._promise(request, refusal)

    def _earlier(self, request: LaunchRequest) -> list[Machine]:
        """What the token made before, if it is this request's token."""
        place = (request.offer.zone, request.token)
        bound = self._bound.setdefault(place, request)
        if bound != request:
            message = f"token {request.token} was used with another request"
            raise ProviderError(
                ErrorKind.IDEMPOTENCY, message, code="IdempotentParameterMismatch", ambiguous=True
            )
        made = [machine for machine in self.made(request.token) if machine.request == request]
        now = self.clock.now()
        if any(machine.stopping_at is not None and now >= machine.stopping_at for machine in made):
            message = f"the instances of token {request.token} are over"
            raise ProviderError(
                ErrorKind.IDEMPOTENCY, message, code="IdempotentInstanceTerminated", ended=True
            )
        return made

    def _promise(self, request: LaunchRequest, error: ProviderError) -> Promise:
        due_at = self.clock.now() + timedelta(seconds=self.verdict_seconds or 0)
        promise = Promise(request, error, due_at, tuple(self._new_id() for _ in range(request.nodes)))
        self.promises.update(dict.fromkeys(promise.provider_ids, promise))
        return promise

    def _make(self, request: LaunchRequest) -> list[Machine]:
        machines = [self._machine(request, node) for node in range(request.nodes)]
        self.market.occupy(request.offer, machines)
        self.created.extend(machines)
        self._by_token.setdefault(request.token, []).extend(machines)
        by_id = {machine.provider_id: machine for machine in machines}
        self._machines.update(by_id)
        self._shown.update(by_id)
        return machines

    def _machine(self, request: LaunchRequest, node: int) -> Machine:
        now = self.clock.now()
        provider_id = self._new_id()
        address = f"{self._ids >> 16 & 255}.{self._ids >> 8 & 255}.{self._ids & 255}"
        machine = Machine(
            provider_id=provider_id,
            node=node,
            request=request,
            created_at=now,
            visible_at=now + timedelta(seconds=self.lag_seconds),
            running_at=now + timedelta(seconds=self.boot_seconds),
            private_ip=f"10.{address}",
            public_ip=f"198.{address}",
        )
        if self.enforces_max_age and request.max_age_seconds is not None:
            end = now + timedelta(seconds=request.max_age_seconds)
            machine.end(end, self._takes_to_end(), EndReason.MAX_AGE)
        return machine

    def _new_id(self) -> str:
        self._ids += 1
        return f"m-{self._ids:08d}"

    def _takes_to_end(self) -> timedelta:
        return timedelta(seconds=self.terminate_seconds)

    def _is_forgotten(self, machine: Machine) -> bool:
        if machine.over_at is None:
            return False
        return self.clock.now() >= machine.over_at + timedelta(seconds=self.shown_seconds)

    def _is_shown(self, machine: Machine) -> bool:
        return self.clock.now() >= machine.visible_at and not self._is_forgotten(machine)
