"""Looks whether an account can be used: credentials, project, regions, images, networks, prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_exception
from providers.gcp.instances import Instances
from providers.gcp.observation import tail
from providers.gcp.preparation import Preparation
from providers.gcp.price_feed import PriceFeed
from providers.gcp.quotas import Quotas
from providers.gcp.urls import subnet_url
from providers.quotas import Quota, QuotaUnit
from providers.vocabulary import CheckResult

_REMEDIES: dict[ErrorKind, str] = {
    ErrorKind.AUTH: "check the account's credentials and that they may do this in the project",
    ErrorKind.ACCOUNT_BLOCKED: "enable the Compute Engine API and billing for the project",
    ErrorKind.IMAGE_MISSING: "set `image` on the account or the region to an image that the project may use",
    ErrorKind.NOT_FOUND: "check the name in the settings",
    ErrorKind.INVALID_REQUEST: "check the settings of the account",
    ErrorKind.QUOTA: "ask for an increase in the console (IAM & Admin, Quotas & System Limits)",
    ErrorKind.THROTTLED: "try again in a minute",
    ErrorKind.TRANSIENT: "check the network, proxy and CA settings, then try again",
}


class Check:
    """`corral check` for one account; never raises."""

    def __init__(
        self,
        clients: Clients,
        calls: Calls,
        instances: Instances,
        preparation: Preparation,
        feed: PriceFeed,
        quotas: Quotas,
        config: AccountConfig,
    ) -> None:
        self._clients = clients
        self._calls = calls
        self._instances = instances
        self._preparation = preparation
        self._feed = feed
        self._quotas = quotas
        self._config = config

    def run(self) -> list[CheckResult]:
        """One line for each thing looked at. Where the project cannot be read the rest is not tried."""
        project = self._line(f"project {self._config.project}", self._project)
        if not project.ok:
            return [project]
        return [project, *self._rest()]

    def _rest(self) -> Iterator[CheckResult]:
        for region, settings in self._config.regions.items():
            result = self._line(f"region {region}", partial(self._region, region, settings))
            yield result
            if not result.ok:
                continue
            yield self._line(f"image in {region}", partial(self._image, region, settings))
            for subnet in settings.subnets:
                yield self._line(f"subnetwork {subnet} in {region}", partial(self._subnet, region, subnet))
            yield self._line(f"instances in {region}", partial(self._listing, region))
            yield self._line(f"quotas in {region}", partial(self._limits, region))
        yield self._line("price catalogue", self._prices)

    def _line(self, subject: str, look: Callable[[], str]) -> CheckResult:
        try:
            return CheckResult(subject, True, look())
        except Exception as error:
            where = Where(self._config.name)
            known = of_exception(error, where, self._calls.clock.now())
            remedy = _REMEDIES.get(known.kind, "see the message of the cloud")
            return CheckResult(subject, False, str(known), remedy)

    def _project(self) -> str:
        from google.cloud.compute_v1.types import GetProjectRequest

        request = GetProjectRequest(project=self._config.project)
        project: Any = self._calls.read(self._clients.projects.get, request, Where(self._config.name))
        return f"credentials are accepted, project number {project.id}"

    def _region(self, region: str, settings: RegionConfig) -> str:
        from google.cloud.compute_v1.types import GetRegionRequest

        request = GetRegionRequest(project=self._config.project, region=region)
        where = Where(self._config.name, region)
        found: Any = self._calls.read(self._clients.regions.get, request, where)
        zones = sorted(tail(url) for url in found.zones)
        unknown = sorted(set(settings.zones) - set(zones))
        if unknown:
            text = f"no such zones: {', '.join(unknown)}; there are {', '.join(zones)}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, text)
        if found.status == "DOWN":
            raise ProviderError(ErrorKind.TRANSIENT, "the region is down")
        return f"zones {', '.join(settings.zones or zones)}"

    def _image(self, region: str, settings: RegionConfig) -> str:
        return str(self._preparation.image(self._preparation.image_of(settings), region).name)

    def _subnet(self, region: str, name: str) -> str:
        from google.cloud.compute_v1.types import GetSubnetworkRequest

        parts = subnet_url(str(self._config.project), region, name).split("/")
        request = GetSubnetworkRequest(project=parts[1], region=parts[3], subnetwork=parts[5])
        where = Where(self._config.name, region, subnet=name)
        found: Any = self._calls.read(self._clients.subnetworks.get, request, where)
        return f"{found.ip_cidr_range} in {tail(found.network)}"

    def _listing(self, region: str) -> str:
        listing = self._instances.list_all(region, "corral-check")
        if not listing.complete:
            raise ProviderError(ErrorKind.TRANSIENT, f"cannot be read: {', '.join(listing.incomplete)}")
        return "can be listed"

    def _limits(self, region: str) -> str:
        listing = self._quotas.of_region(region)
        text = quotas_above_zero(listing.quotas)
        keys = {quota.key for quota in listing.quotas}
        unread = [name for name in listing.incomplete if name not in keys]
        return f"{text}; could not be read: {', '.join(unread)}" if unread else text

    def _prices(self) -> str:
        reading = self._feed.read()
        if reading.failure is not None:
            raise reading.failure
        return "can be read"


def quotas_above_zero(quotas: Sequence[Quota]) -> str:
    """Which limits allow anything: those on GPUs, or where none is offered those on vCPUs. Raises
    ProviderError if all are zero.
    """
    unit = QuotaUnit.GPU if any(quota.unit is QuotaUnit.GPU for quota in quotas) else QuotaUnit.VCPU
    counted = [quota for quota in quotas if quota.unit is unit]
    for quota in counted:
        if quota.region is None and quota.limit == 0:
            raise ProviderError(ErrorKind.QUOTA, f"{quota.key} of the project is zero")
    regional = [quota for quota in counted if quota.region is not None]
    above = [f"{quota.key} {quota.limit:g}" for quota in regional if quota.limit]
    unknown = [quota.key for quota in regional if quota.limit is None]
    if regional and not above and not unknown:
        raise ProviderError(ErrorKind.QUOTA, f"all are zero: {', '.join(quota.key for quota in regional)}")
    parts = [
        f"above zero: {', '.join(above)}" if above else "",
        f"unknown: {', '.join(unknown)}" if unknown else "",
    ]
    return "; ".join(part for part in parts if part) or "nothing is offered that a quota gates"
