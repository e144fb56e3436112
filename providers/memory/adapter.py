"""`MemoryProvider`: the Provider face of a MemoryCloud."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

from clock import Clock
from providers.errors import ErrorKind, ProviderError
from providers.memory.cloud import LaunchCall, MemoryCloud, Promise
from providers.memory.machines import Machine
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.signals import SignalListing
from providers.vocabulary import (
    CheckResult,
    CloudInstance,
    InstanceRef,
    InstanceState,
    Launched,
    LaunchRequest,
    Listing,
    Offer,
    OfferListing,
)

DEPLOYMENT_TAG = "corral-deployment"


class MemoryProvider:
    """One account. Several on one `cloud` (None: one of its own) are several processes that see the same."""

    def __init__(
        self,
        account: str,
        regions: Sequence[str],
        clock: Clock,
        cloud: MemoryCloud | None = None,
        *,
        provider: str = "memory",
        consistency_window: timedelta = timedelta(minutes=10),
    ) -> None:
        self.cloud = cloud or MemoryCloud(clock)
        self._clock = clock
        self._provider = provider
        self._account = account
        self._regions = tuple(regions)
        self._window = consistency_window

    @property
    def provider(self) -> str:
        return self._provider

    @property
    def account(self) -> str:
        return self._account

    @property
    def regions(self) -> tuple[str, ...]:
        return self._regions

    @property
    def consistency_window(self) -> timedelta:
        return self._window

    @property
    def reclaims_powered_off(self) -> bool:
        return self.cloud.reclaims_powered_off

    def check(self) -> Sequence[CheckResult]:
        with self.cloud.lock:
            fault = self.cloud.script.take("check")
        if fault is not None:
            return [CheckResult(self._account, False, str(fault.error), "end the scripted failure")]
        return [CheckResult(region, True, "in memory") for region in self._regions]

    def offers(self, region: str) -> OfferListing:
        with self._call("offers"):
            hidden = self._hidden("offers", region)
            sold = self.cloud.market.sold_in(region, self._clock.now())
            mine = (offer for offer in sold if offer.key.account == self._account)
            return OfferListing(tuple(o for o in mine if not _is_hidden(o.key.zone, region, hidden)), hidden)

    def quotas(self, region: str) -> QuotaListing:
        with self._call("quotas"):
            quotas = self.cloud.market.quotas(self._provider, self._account, region, self._clock.now())
            return QuotaListing(tuple(quotas), self._hidden("quotas", region))

    def built_in_offers(self, region: str) -> OfferListing:
        with self.cloud.lock:
            mine = [
                o for o in self.cloud.built_in if (o.key.account, o.key.region) == (self._account, region)
            ]
        return OfferListing(tuple(replace(offer, price_source="snapshot") for offer in mine))

    def spot_signals(self, region: str) -> SignalListing:
        with self._call("spot_signals"):
            now = self._clock.now()
            said = [
                replace(signal, read_at=now)
                for (account, where, *_), signal in self.cloud.signals.items()
                if (account, where) == (self._account, region)
            ]
            return SignalListing(tuple(said), self._hidden("spot_signals", region))

    def quota_requests(self, region: str) -> QuotaRequestListing:
        with self._call("quota_requests"):
            listed = self.cloud.reviews.listed(region, self._clock.now())
            return QuotaRequestListing(tuple(listed), self._hidden("quota_requests", region))

    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        with self._call("request_quota"):
            now = self._clock.now()
            return self.cloud.reviews.file(increase, now).shown(now)

    def reservations(self, region: str) -> ReservationListing:
        with self._call("reservations"):
            hidden = self._hidden("reservations", region)
            shown = self.cloud.market.reservations.shown(self._account, region, self._clock.now())
            return ReservationListing(
                tuple(one for one in shown if not _is_hidden(one.zone, region, hidden)), hidden
            )

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        with self._call("prepare", self._offer(request)):
            offer = self._offer(request)
            subnet = request.subnet or (offer.subnet if offer else None)
            return request.with_resolved(image=request.image or "image-1", subnet=subnet)

    def launch(self, request: LaunchRequest) -> Launched:
        cloud = self.cloud
        error: ProviderError | None = None
        try:
            with self._call("launch", self._offer(request)):
                return self._launch(request)
        except ProviderError as raised:
            error = raised
            raise
        finally:
            cloud.launches.append(LaunchCall(self._clock.now(), request, error))

    def find(self, request: LaunchRequest) -> Listing:
        def wanted(machine: Machine) -> bool:
            return machine.token == request.token and machine.request.offer.zone == request.offer.zone

        with self._call("find", self._offer(request)):
            return self._listing("find", request.offer.region, wanted)

    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        with self._call("describe"):
            return [self._describe(ref) for ref in refs]

    def list_instances(self, region: str, deployment: str) -> Listing:
        def wanted(machine: Machine) -> bool:
            return machine.request.tags.get(DEPLOYMENT_TAG) == deployment

        with self._call("list_instances"):
            return self._listing("list_instances", region, wanted)

    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        with self._call("terminate"):
            for ref in refs:
                self.cloud.delete(ref.provider_id)

    def close(self) -> None:
        """Nothing is held."""

    @contextmanager
    def _call(self, call: str, offer: Offer | None = None) -> Iterator[None]:
        """The cloud's lock, and the failure that was scripted for this call."""
        with self.cloud.lock:
            self.cloud.reviews.apply(self._clock.now())
            fault = self.cloud.script.take(call, offer)
            if fault is not None and not fault.after_effect:
                raise fault.error.with_traceback(None)
            yield
            if fault is not None:
                raise fault.error.with_traceback(None)

    def _offer(self, request: LaunchRequest) -> Offer | None:
        return self.cloud.market.get(request.offer)

    def _launch(self, request: LaunchRequest) -> Launched:
        if request.image is None:
            raise ProviderError(ErrorKind.INVALID_REQUEST, "the request was not prepared: no image")
        made = self.cloud.launch(request)
        if isinstance(made, Promise):
            return Launched(tuple(self._promised(made, node) for node in range(request.nodes)))
        now = self._clock.now()
        return Launched(tuple(machine.shown(now) for machine in made))

    def _describe(self, ref: InstanceRef) -> CloudInstance:
        promise = self.cloud.promises.get(ref.provider_id)
        if promise is not None:
            return self._promised(promise, promise.provider_ids.index(ref.provider_id))
        machine = self.cloud.machine(ref.provider_id)
        if machine is None:
            return CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.ABSENT)
        return machine.shown(self._clock.now())

    def _promised(self, promise: Promise, node: int) -> CloudInstance:
        due = self._clock.now() >= promise.due_at
        offer = promise.request.offer
        return CloudInstance(
            promise.provider_ids[node],
            offer.region,
            offer.zone,
            InstanceState.ABSENT if due else InstanceState.PENDING,
            name=promise.request.names()[node],
            node=node,
            error=promise.error if due else None,
        )

    def _hidden(self, call: str, region: str) -> tuple[str, ...]:
        return self.cloud.script.hidden(call, self.cloud.market.zones(region) | {region})

    def _listing(self, call: str, region: str, wanted: Callable[[Machine], bool]) -> Listing:
        hidden = self._hidden(call, region)
        now = self._clock.now()

        def seen(machine: Machine) -> bool:
            offer = machine.request.offer
            mine = offer.region == region and offer.account == self._account
            return mine and not _is_hidden(offer.zone, region, hidden) and wanted(machine)

        return Listing(tuple(machine.shown(now) for machine in self.cloud.machines(seen)), hidden)


def _is_hidden(zone: str, region: str, hidden: Sequence[str]) -> bool:
    return zone in hidden or region in hidden
