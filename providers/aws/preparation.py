"""From a request to the one that is sent: zone, subnet, image, reservation and interfaces, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clock import Clock
from providers.aws import fabric, reservations
from providers.aws.api import Api
from providers.aws.cache import Cache
from providers.aws.catalogue import Catalogue
from providers.aws.fabric import Adapter
from providers.aws.images import DEFAULT_IMAGE, Image, resolve
from providers.aws.launch import freeze, is_prepared, is_reserved, subject
from providers.aws.network import Zone
from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import LaunchRequest

IMAGE_SECONDS = 300.0


class Preparation:
    """Resolves requests; images are remembered for five minutes."""

    def __init__(self, api: Api, catalogue: Catalogue, config: AccountConfig, clock: Clock) -> None:
        self._api, self._catalogue, self._config = api, catalogue, config
        self._images: Cache[tuple[str, str], Image] = Cache(clock, IMAGE_SECONDS)

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        """The request with everything resolved; one that is prepared stays as it is. Creates nothing."""
        if is_prepared(request):
            return request
        config = self._region(request)
        zone = self._zone(request)
        adapters = self._adapters(request, config)
        reserved = self._reserved(request)
        return freeze(request, zone, self._image(request, config), config, reserved, adapters)

    def _region(self, request: LaunchRequest) -> RegionConfig:
        region = request.offer.region
        config = self._config.regions.get(region)
        if config is None:
            message = f"region {region} is not in the settings of account {self._config.name}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, message, scope=subject(request))
        return config

    def _zone(self, request: LaunchRequest) -> Zone:
        zone = self._catalogue.network(request.offer.region).by_id(request.offer.zone)
        if zone is None or (zone.subnet is None and request.subnet is None):
            message = f"no subnet with free addresses in {request.offer.zone}"
            raise ProviderError(ErrorKind.UNSUPPORTED, message, scope=subject(request))
        return zone

    def _image(self, request: LaunchRequest, config: RegionConfig) -> Image:
        region = request.offer.region
        wanted = request.image or config.image or self._config.image or DEFAULT_IMAGE
        return self._images.get((region, wanted), lambda: resolve(self._api, region, wanted))

    def _adapters(self, request: LaunchRequest, config: RegionConfig) -> tuple[Adapter, ...]:
        if not request.fabric:
            return ()
        offer = request.offer
        found = self._catalogue.adapters(offer.region, offer.instance_type)
        fabric.refuse_without(request, found, public_address=config.public_address, subject=subject(request))
        return found

    def _reserved(self, request: LaunchRequest) -> Mapping[str, Any] | None:
        if not is_reserved(request):
            return None
        found = reservations.find_target(self._api, request, subject(request))
        if request.fabric:
            reservations.refuse_scattered(found, subject(request))
        return found
