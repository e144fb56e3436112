"""Resolves what a launch depends on: the image, the subnetwork, and the account's settings for the region."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import fabric
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.machine_types import boot_disk_type
from providers.gcp.observation import launch_of
from providers.gcp.reservations import Reservations
from providers.gcp.urls import partial_url, subnet_url
from providers.vocabulary import CapacityType, LaunchRequest, Scope

_FAMILY = re.compile(r"^(?:projects/(?P<project>[^/]+)/)?(?:global/images/)?family/(?P<name>[^/]+)$")
_IMAGE = re.compile(r"^(?:projects/(?P<project>[^/]+)/global/images/)?(?P<name>[^/]+)$")

# The newest image of the account's own that was built from the project's recipe.
DEFAULT_IMAGE = "family/corral"

# Keys of LaunchRequest.extra; all that the body depends on besides the request's own fields.
DISK_GIB = "disk_gib"
DISK_TYPE = "disk_type"
PUBLIC_ADDRESS = "public_address"
NETWORK_TAGS = "network_tags"
SERVICE_ACCOUNT = "service_account"
RESERVATION = "reservation"
BOUND = "reservation_bound"
CPU_PLATFORM = "cpu_platform"
PLACEMENT = "placement_policy"
INTERFACES = "interfaces"


class Preparation:
    """Reads images; creates nothing."""

    def __init__(
        self, clients: Clients, calls: Calls, reservations: Reservations, config: AccountConfig
    ) -> None:
        self._reservations = reservations
        self._clients = clients
        self._calls = calls
        self._config = config
        self._project = str(config.project)

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """The request with image and subnet as partial URLs, and the settings that its body depends on."""
        region = request.offer.region
        settings = self._config.regions.get(region)
        if settings is None:
            text = f"region {region} is not among the account's regions: {', '.join(self._config.regions)}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, text, scope=self._scope(region))
        reserved = self._reserved(request)
        close = self._close_together(request, settings, reserved) if request.fabric else {}
        image = self.image(request.image or self.image_of(settings), region)
        return request.with_resolved(
            image=partial_url(image.self_link),
            subnet=self._subnet(request, settings),
            **{
                DISK_GIB: str(max(request.disk_gib, image.disk_size_gb)),
                DISK_TYPE: boot_disk_type(request.offer.instance_type),
                PUBLIC_ADDRESS: "true" if settings.public_address else "false",
                NETWORK_TAGS: ",".join(settings.security_groups),
                SERVICE_ACCOUNT: settings.instance_role or "",
                **reserved,
                **close,
            },
        )

    def _reserved(self, request: LaunchRequest) -> dict[str, str]:
        """What the reservation that the offer names asks of a launch."""
        offer = request.offer
        if (offer.capacity_type is CapacityType.RESERVED) is not (offer.reservation is not None):
            text = f"{offer}: reserved capacity is asked for by the reservation's name, and no other is"
            scope = replace(
                self._scope(offer.region),
                zone=offer.zone,
                instance_type=offer.instance_type,
                capacity_type=offer.capacity_type,
            )
            raise ProviderError(ErrorKind.INVALID_REQUEST, text, scope=scope)
        if offer.reservation is None:
            return {}
        target = self._reservations.target(offer.reservation, offer.instance_type)
        return {
            RESERVATION: target.name,
            BOUND: "true" if target.bound else "false",
            CPU_PLATFORM: target.cpu_platform,
            **({PLACEMENT: target.policy} if target.policy else {}),
        }

    def _close_together(
        self, request: LaunchRequest, settings: RegionConfig, reserved: dict[str, str]
    ) -> dict[str, str]:
        """The subnetworks of the further interfaces, and a placement policy of the launch's own; a
        reservation is placed as it was made.
        """
        offer = request.offer
        scope = replace(self._scope(offer.region), instance_type=offer.instance_type)
        subnets = fabric.subnets_of(settings, offer.instance_type)
        if subnets is None:
            text = fabric.missing(offer.instance_type, offer.region)
            raise ProviderError(ErrorKind.UNSUPPORTED, text, scope=scope)
        urls = [subnet_url(self._project, offer.region, name) for name in subnets]
        found = {INTERFACES: ",".join(urls)}
        if offer.reservation is None:
            return {**found, PLACEMENT: launch_of(request.names()[0])}
        if reserved[BOUND] != "true" and PLACEMENT not in reserved:
            text = f"reservation {offer.reservation} was made without a placement policy"
            raise ProviderError(
                ErrorKind.UNSUPPORTED, text, scope=replace(scope, reservation=offer.reservation)
            )
        return found

    def image_of(self, settings: RegionConfig) -> str:
        """The image that the settings name for a region."""
        return settings.image or self._config.image or DEFAULT_IMAGE

    def image(self, reference: str, region: str) -> Any:
        """The Image that a name or URL stands for, of a family the newest; ProviderError if it is no use."""
        where = Where(self._config.name, region, image=reference)
        scope = self._scope(region, reference)
        try:
            image = self._read_image(partial_url(reference), where)
        except ProviderError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.IMAGE_MISSING):
                raise
            text = f"there is no image {reference} for {self._project}: {error.message}"
            raise ProviderError(ErrorKind.IMAGE_MISSING, text, code=error.code, scope=scope) from error
        state = image.deprecated.state
        if image.status not in ("READY", "") or state in ("OBSOLETE", "DELETED"):
            text = f"image {reference} cannot be used: it is {state or image.status}"
            raise ProviderError(ErrorKind.IMAGE_MISSING, text, scope=scope)
        return image

    def _read_image(self, reference: str, where: Where) -> Any:
        from google.cloud.compute_v1.types import GetFromFamilyImageRequest, GetImageRequest

        images = self._clients.images
        if family := _FAMILY.match(reference):
            newest = GetFromFamilyImageRequest(
                project=family["project"] or self._project, family=family["name"]
            )
            return self._calls.read(images.get_from_family, newest, where)
        if named := _IMAGE.match(reference):
            one = GetImageRequest(project=named["project"] or self._project, image=named["name"])
            return self._calls.read(images.get, one, where)
        text = (
            "expected [projects/PROJECT/global/images/]NAME or [projects/PROJECT/global/images/]family/NAME"
        )
        raise ProviderError(ErrorKind.IMAGE_MISSING, text)

    def _subnet(self, request: LaunchRequest, settings: RegionConfig) -> str | None:
        """None is the project's default network. Of several subnetworks a launch takes one by its token, so
        that they fill evenly and a resend takes the same.
        """
        named = request.subnet
        if named is None and settings.subnets:
            named = settings.subnets[int(request.token, 16) % len(settings.subnets)]
        return subnet_url(self._project, request.offer.region, named) if named else None

    def _scope(self, region: str, image: str | None = None) -> Scope:
        return Scope(provider="gcp", account=self._config.name, region=region, image=image)
