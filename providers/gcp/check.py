"""Looks whether an account can be used: credentials, project, regions, images, networks, prices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from providers.config import AccountConfig, RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp import fabric, permissions
from providers.gcp.calls import Calls
from providers.gcp.check_network import Networks
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_exception
from providers.gcp.instances import Instances
from providers.gcp.observation import tail
from providers.gcp.permissions import Permissions
from providers.gcp.preparation import Preparation
from providers.gcp.price_feed import PriceFeed
from providers.gcp.quotas import Quotas
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


_NETWORK = (
    "check `subnets` of the region: an existing subnetwork with free addresses, and either "
    "`public_address: true` or a Cloud NAT for its network"
)
_OUR_FINDING = (ErrorKind.CAPACITY, ErrorKind.INVALID_REQUEST, ErrorKind.NOT_FOUND)
_SHUT_DOWN = "stay with their disk, which is billed; the service deletes them as soon as it sees them"


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
        self._networks = Networks(clients, calls, config)
        self._permissions = Permissions(clients, calls, config)

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
            for subnet in (*self._networks.names(region), *_further(settings)):
                look = partial(self._networks.subnet, region, subnet)
                yield self._line(f"subnetwork {subnet} in {region}", look, _NETWORK)
            yield self._line(f"way out of {region}", partial(self._networks.way_out, region), _NETWORK)
            if settings.fabric_subnets:
                yield self._line(f"fast interconnect in {region}", partial(_fabric, settings))
            yield self._line(f"instances in {region}", partial(self._listing, region))
            yield self._line(f"quotas in {region}", partial(self._limits, region))
        yield self._line("permissions", self._needed)
        yield self._line("further permissions", self._useful)
        yield self._line("price catalogue", self._prices)
        yield CheckResult("instances that shut themselves down", True, _SHUT_DOWN)

    def _line(self, subject: str, look: Callable[[], str], remedy: str = "") -> CheckResult:
        try:
            return CheckResult(subject, True, look())
        except Exception as error:
            where = Where(self._config.name)
            known = of_exception(error, where, self._calls.clock.now())
            remedy = remedy if known.kind in _OUR_FINDING else ""
            remedy = remedy or _REMEDIES.get(known.kind, "see the message of the cloud")
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

    def _needed(self) -> str:
        wanted = permissions.needed(self._config)
        try:
            missing = self._permissions.missing(wanted)
        except ProviderError as error:
            return f"not tested: {error}"
        if missing:
            raise ProviderError(ErrorKind.AUTH, f"missing in the project: {', '.join(missing)}")
        return f"all {len(wanted)} that launches need"

    def _useful(self) -> str:
        try:
            missing = self._permissions.missing(permissions.OPTIONAL)
        except ProviderError as error:
            return f"not tested: {error}"
        lacking = [f"{permissions.OPTIONAL[name]} ({name})" for name in missing]
        return f"not to be had without: {', '.join(lacking)}" if lacking else "all are there"

    def _prices(self) -> str:
        reading = self._feed.read()
        if reading.failure is not None:
            raise reading.failure
        return "can be read"


def _further(settings: RegionConfig) -> tuple[str, ...]:
    """The subnetworks of a fast interconnect that are not looked at anyway."""
    named = dict.fromkeys(name for names in settings.fabric_subnets.values() for name in names)
    return tuple(name for name in named if name not in settings.subnets)


def _fabric(settings: RegionConfig) -> str:
    fault = fabric.fault_in(settings)
    if fault:
        raise ProviderError(ErrorKind.INVALID_REQUEST, f"fabric_subnets: {fault}")
    return f"for {', '.join(settings.fabric_subnets)}"


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
