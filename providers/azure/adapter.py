"""Azure behind the Provider interface: one account, which is one subscription and resource group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from clock import Clock
from providers.azure import leftovers
from providers.azure.arm import Arm
from providers.azure.boundary import only_provider_errors
from providers.azure.checks import Checks
from providers.azure.errors import Attempt
from providers.azure.fabric import AvailabilitySets
from providers.azure.images import Image, Images
from providers.azure.launch import Launcher
from providers.azure.market import Market
from providers.azure.networks import Networks
from providers.azure.observe import Observer
from providers.azure.prices import RetailPrices
from providers.azure.quota_desk import QuotaDesk
from providers.azure.quotas import Quotas
from providers.azure.region_checks import RegionChecks
from providers.azure.remembered import Remembered
from providers.azure.reservations import ReservedCapacity, must_be_named
from providers.azure.signals import SpotSignals
from providers.azure.skus import Size
from providers.azure.sshkeys import throwaway_key
from providers.azure.starting import Starting
from providers.azure.vm import AVAILABILITY_SET, DISK_TYPE, SSH_KEY, TOKEN_TAG, excess, frozen
from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.signals import SignalListing
from providers.vocabulary import (
    CapacityType,
    CheckResult,
    CloudInstance,
    InstanceRef,
    Launched,
    LaunchRequest,
    Listing,
    OfferListing,
    Scope,
)

# Names that a virtual machine may have, and those that only we give.
_LEGAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OUR_NAME = re.compile(r"corral-[0-9a-f]{20}-\d+")


class AzureProvider:
    """Implements providers.interface.Provider. The provider_id of an instance is its machine's name."""

    provider = "azure"
    # A read by name follows a create closely; nothing is concluded from lists, which lag longer.
    consistency_window = timedelta(minutes=2)
    # A guest that shuts itself down leaves a stopped machine, which is billed until it is deleted.
    reclaims_powered_off = False

    def __init__(self, config: AccountConfig, clock: Clock) -> None:
        self._config = config
        self._arm = Arm(config, clock)
        self._images = Images(self._arm)
        self._networks = Networks(self._arm, clock)
        self._market = Market(config, self._arm, RetailPrices(config, clock), clock)
        self._quotas = Quotas(config, self._arm, self._market, clock)
        self._quota_desk = QuotaDesk(self._arm, self._quotas, clock)
        self._reserved = ReservedCapacity(self._arm, self._market, clock)
        self._signals = SpotSignals(self._arm, self._market, clock)
        self._remembered = Remembered(clock, self.consistency_window.total_seconds())
        self._observer = Observer(self._arm, self._networks, self._remembered, Starting(clock))
        self._sets = AvailabilitySets(self._arm)
        self._launcher = Launcher(self._arm, self._observer, self._networks, self._sets, self._remembered)

    @property
    def account(self) -> str:
        return self._config.name

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self._config.regions)

    def check(self) -> Sequence[CheckResult]:
        places = RegionChecks(
            self._config, self._arm, self._images, self._networks, self._market, self._quotas
        )
        return Checks(self._config, self._arm, places).run()

    @only_provider_errors()
    def offers(self, region: str) -> OfferListing:
        if not self._networks.has_subnet(region, self._settings(region)):
            return OfferListing(())  # nothing can be launched there; `check` says what is missing
        return self._market.offers(region)

    @only_provider_errors()
    def quotas(self, region: str) -> QuotaListing:
        self._settings(region)
        return self._quotas.listing(region)

    @only_provider_errors()
    def built_in_offers(self, region: str) -> OfferListing:
        self._settings(region)
        return self._market.built_in(region)

    @only_provider_errors()
    def spot_signals(self, region: str) -> SignalListing:
        self._settings(region)
        return self._signals.listing(region)

    @only_provider_errors()
    def quota_requests(self, region: str) -> QuotaRequestListing:
        self._settings(region)
        return self._quota_desk.listing(region)

    @only_provider_errors(creates=True)
    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        return self._quota_desk.file(increase, self.regions)

    @only_provider_errors()
    def reservations(self, region: str) -> ReservationListing:
        self._settings(region)
        return self._reserved.listing(region)

    @only_provider_errors()
    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        region = request.offer.region
        settings = self._settings(region)
        if request.image and request.subnet and SSH_KEY in request.extra:
            return request
        if problem := excess(request):
            raise self._invalid(problem, request)
        if request.offer.capacity_type is CapacityType.RESERVED or request.offer.reservation is not None:
            must_be_named(request, self.account)
        wanted = request.image or settings.image or self._config.image
        if wanted is None:
            text = f"no image for {region}: set accounts.{self.account}.image, or one for the region"
            scope = Scope("azure", self.account, region)
            raise ProviderError(ErrorKind.IMAGE_MISSING, text, code="NoImage", scope=scope)
        image = self._images.resolve(wanted, region)
        sizes = self._market.sizes(region) if request.fabric else self._market.known_sizes(region) or {}
        size = sizes.get(request.offer.instance_type)
        if size is not None:
            self._must_boot(image, size, request)
        together = self._sets.resolved(request, size)
        subnet = request.subnet or self._networks.subnet(region, settings)
        disk = "Premium_LRS" if size is not None and size.premium_disks else "StandardSSD_LRS"
        facts = {SSH_KEY: throwaway_key(), DISK_TYPE: disk, **frozen(settings), **image.extra(), **together}
        return request.with_resolved(image=image.reference, subnet=subnet, **facts)

    @only_provider_errors(creates=True)
    def launch(self, request: LaunchRequest) -> Launched:
        offer = request.offer
        settings = self._settings(offer.region)
        if not request.image or not request.subnet or SSH_KEY not in request.extra:
            raise self._invalid("the request has not been prepared", request)
        attempt = Attempt(
            self.account,
            offer.region,
            offer.zone,
            offer.instance_type,
            offer.capacity_type,
            request.image,
            request.subnet,
            offer.reservation,
            request.extra.get(AVAILABILITY_SET, "").rpartition("/")[2] or None,
            self._market.restricted(offer.region, offer.zone, offer.instance_type),
            creating=True,
        )
        if offer.reservation is not None:
            self._reserved.must_have_room(request)
        try:
            return self._launcher.launch(request, settings, attempt)
        except ProviderError as error:
            if error.kind is ErrorKind.UNSUPPORTED or error.code.lower() == "skunotavailable":
                self._market.forget(offer.region)
            raise

    @only_provider_errors()
    def find(self, request: LaunchRequest) -> Listing:
        return self._observer.find(request)

    @only_provider_errors()
    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        for ref in refs:
            self._must_be_legal(ref.provider_id)
        return self._observer.describe(refs)

    @only_provider_errors()
    def list_instances(self, region: str, deployment: str) -> Listing:
        self._settings(region)
        return self._observer.listing(region, deployment)

    @only_provider_errors()
    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        for ref in refs:
            self._must_be_legal(ref.provider_id)
        failed: ProviderError | None = None
        for ref in refs:
            try:
                self._end(ref.provider_id, ref.region)
            except ProviderError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def close(self) -> None:
        self._arm.close()

    def _end(self, name: str, region: str) -> None:
        """Delete a machine; what stays behind of one that is gone already, too."""
        if not _OUR_NAME.fullmatch(name) and not self._bears_our_tag(name):
            return
        try:
            existed = self._arm.delete_vm(name, region)
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                existed = False
            elif error.kind is ErrorKind.CONFLICT:
                existed = True  # being deleted already, or busy: the next call asks again
            else:
                raise
        self._remembered.end(name, existed=existed)
        if not existed:
            leftovers.remove(self._arm, name)

    def _bears_our_tag(self, name: str) -> bool:
        """Whether a machine of a name that is not of our form is ours; False too if there is none."""
        try:
            tags = self._observer.get(name).get("tags") or {}
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return False
            raise
        if TOKEN_TAG not in tags:
            scope = Scope("azure", self.account)
            raise ProviderError(
                ErrorKind.CONFLICT, f"{name} is not ours: not deleted", code="NotOurs", scope=scope
            )
        return True

    def _settings(self, region: str) -> RegionConfig:
        settings = self._config.regions.get(region)
        if settings is None:
            raise ProviderError(
                ErrorKind.INVALID_REQUEST,
                f"region {region} is not among those of account {self.account}: {', '.join(self.regions)}",
                code="Region",
                scope=Scope("azure", self.account, region),
            )
        return settings

    def _must_be_legal(self, name: str) -> None:
        """An empty or strange name must not become a path that means something else."""
        if not _LEGAL_NAME.fullmatch(name):
            raise ProviderError(
                ErrorKind.INVALID_REQUEST,
                f"{name!r} is no name of a virtual machine",
                code="Name",
                scope=Scope("azure", self.account),
            )

    def _must_boot(self, image: Image, size: Size, request: LaunchRequest) -> None:
        """Azure refuses these only once the machine is half made."""
        if image.generation and size.generations - {""} and image.generation.upper() not in size.generations:
            can = ", ".join(sorted(size.generations))
            raise self._invalid(f"image generation {image.generation}, but the size boots {can}", request)
        if image.architecture and image.architecture != size.type.architecture:
            raise self._invalid(
                f"image for {image.architecture}, but the size is {size.type.architecture}", request
            )

    def _invalid(self, message: str, request: LaunchRequest) -> ProviderError:
        offer = request.offer
        return ProviderError(
            ErrorKind.INVALID_REQUEST,
            message,
            code="Request",
            scope=Scope("azure", self.account, offer.region, instance_type=offer.instance_type),
        )
