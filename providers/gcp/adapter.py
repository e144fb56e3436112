"""`GcpProvider`: one Google Cloud project behind the Provider interface."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from clock import Clock
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import rates
from providers.gcp.built_in import built_in_offers
from providers.gcp.calls import Calls
from providers.gcp.check import Check
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.instances import Instances, could_not_be_read
from providers.gcp.launch import Launcher
from providers.gcp.leftovers import Leftovers
from providers.gcp.observation import valid_name
from providers.gcp.offers import Offers
from providers.gcp.placement import Placement
from providers.gcp.preparation import Preparation
from providers.gcp.price_feed import PriceFeed
from providers.gcp.quota_api import QuotaApi
from providers.gcp.quota_desk import QuotaDesk
from providers.gcp.quota_feed import QuotaFeed
from providers.gcp.quotas import Quotas
from providers.gcp.reservations import Reservations
from providers.gcp.sdk import load_slim
from providers.gcp.signals import Signals
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
    OfferListing,
)


class GcpProvider:
    """An account whose `provider` is `gcp`. The SDK is imported by the first call, not before.

    read_timeout, write_timeout: real seconds per HTTP exchange.
    """

    provider = "gcp"
    # Reads follow writes at once once the operation is done; until then the operation is what is asked.
    consistency_window = timedelta(minutes=2)
    # A guest that shuts down leaves a TERMINATED instance, whose disk is billed until it is deleted.
    reclaims_powered_off = False

    def __init__(
        self, config: AccountConfig, clock: Clock, *, read_timeout: float = 15.0, write_timeout: float = 45.0
    ) -> None:
        project = str(config.project)
        self._config = config
        self._project = project
        self._clients = Clients(config)
        self._limits = rates.limiter(clock, config.name)
        self._calls = Calls(clock, self._limits, read_timeout, write_timeout)
        feed = PriceFeed(self._clients, self._calls, config.name, frozenset(config.regions))
        self._instances = Instances(self._clients, self._calls, config.name, project)
        self._offers = Offers(self._clients, self._calls, feed, config)
        self._reservations = Reservations(self._clients, self._calls, self._offers, config)
        self._signals = Signals(self._clients, self._calls, self._offers, config)
        self._preparation = Preparation(self._clients, self._calls, self._reservations, config)
        quota_api = QuotaApi(self._clients, self._calls, config)
        limits = QuotaFeed(quota_api, self._calls, config)
        self._quotas = Quotas(self._clients, self._calls, self._offers, self._reservations, limits, config)
        self._desk = QuotaDesk(quota_api, limits, self._calls, config)
        self._placement = Placement(self._clients, self._calls, config.name, project)
        self._leftovers = Leftovers(
            self._clients, self._calls, self._instances, self._placement, config.name, project
        )
        self._launcher = Launcher(
            self._clients, self._calls, self._instances, self._placement, config.name, project
        )
        self._check = Check(
            self._clients, self._calls, self._instances, self._preparation, feed, self._quotas, config
        )

    @property
    def account(self) -> str:
        return self._config.name

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self._config.regions)

    def check(self) -> Sequence[CheckResult]:
        load_slim()
        return self._check.run()

    def offers(self, region: str) -> OfferListing:
        load_slim()
        return self._offers.of_region(region)

    def quotas(self, region: str) -> QuotaListing:
        load_slim()
        return self._quotas.of_region(region)

    def built_in_offers(self, region: str) -> OfferListing:
        return built_in_offers(self._config, region)

    def spot_signals(self, region: str) -> SignalListing:
        load_slim()
        return self._signals.of_region(region)

    def quota_requests(self, region: str) -> QuotaRequestListing:
        return self._desk.of_region(region)

    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        return self._desk.file(increase)

    def reservations(self, region: str) -> ReservationListing:
        load_slim()
        return self._reservations.of_region(region)

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        load_slim()
        return self._preparation.resolve(request)

    def launch(self, request: LaunchRequest) -> Launched:
        load_slim()
        return self._launcher.launch(request)

    def find(self, request: LaunchRequest) -> Listing:
        """By the names that the token gives. What failed to be made is no finding."""
        load_slim()
        offer = request.offer
        refs = [
            InstanceRef(offer.region, offer.zone, name, None, offer.capacity_type) for name in request.names()
        ]
        seen = self._instances.describe(refs)
        unread = [instance for instance in seen if could_not_be_read(instance)]
        found = [
            instance
            for instance in seen
            if instance not in unread and instance.state is not InstanceState.ABSENT
        ]
        return Listing(tuple(found), (offer.zone,) if unread else ())

    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        load_slim()
        return self._instances.describe(refs)

    def list_instances(self, region: str, deployment: str) -> Listing:
        load_slim()
        listing = self._instances.list_all(region, deployment)
        return self._leftovers.added_to(listing, region, deployment)

    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        """All are tried; the first failure is raised then."""
        load_slim()
        for ref in refs:
            if not (valid_name(ref.provider_id) and valid_name(ref.zone)):
                text = f"{ref.provider_id!r} in {ref.zone!r} names no instance; nothing was deleted"
                raise ProviderError(ErrorKind.INVALID_REQUEST, text)
        failures = [error for ref in refs if (error := self._delete(ref)) is not None]
        if failures:
            raise failures[0]

    def close(self) -> None:
        self._calls.again.close()
        self._limits.close()
        self._placement.close()
        self._clients.close()

    def _delete(self, ref: InstanceRef) -> ProviderError | None:
        """Disks and addresses go with the instance: they were made with autoDelete and are ephemeral. Of one
        that is gone already, whatever is left of it is removed.
        """
        from google.cloud.compute_v1.types import DeleteInstanceRequest

        request = DeleteInstanceRequest(project=self._project, zone=ref.zone, instance=ref.provider_id)
        where = Where(self.account, ref.region, ref.zone, capacity_type=ref.capacity_type)
        try:
            self._calls.write(self._clients.instances.delete_unary, request, where)
        except ProviderError as error:
            return self._delete_leftovers(ref) if error.kind is ErrorKind.NOT_FOUND else error
        return None

    def _delete_leftovers(self, ref: InstanceRef) -> ProviderError | None:
        try:
            self._leftovers.remove(ref)
        except ProviderError as error:
            return error
        return None
