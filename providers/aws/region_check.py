"""What `corral check` looks at in one region: network, way out, offers, quotas, image, permissions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from providers.aws import leftovers
from providers.aws.api import Api
from providers.aws.catalogue import Catalogue
from providers.aws.check_lines import line
from providers.aws.fabric import EFA
from providers.aws.launch import run_instances_parameters, subject
from providers.aws.routes import read_ways_out, without_way_out
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import QuotaRequestListing
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.vocabulary import CapacityType, CheckResult, LaunchRequest, Offer, OfferListing

NO_QUOTAS = "allow servicequotas:ListServiceQuotas; until then quotas are unknown and every offer is tried"
NO_REQUESTS = "allow servicequotas:ListRequestedServiceQuotaChangeHistory, to follow requests for more"
NO_RESERVATIONS = (
    "allow ec2:DescribeCapacityReservations; until then reserved capacity and the usage of quotas are unknown"
)
NO_SUBNET = "list subnets with free addresses in the settings of this region, or make a default VPC"
NO_LEFTOVERS = (
    "allow ec2:DescribeVolumes, ec2:DescribeSpotInstanceRequests and ec2:DescribePlacementGroups; until then "
    "what outlives its instance is not found"
)
NO_WAY_OUT = (
    "give the subnet a default route: through a NAT gateway, or through an internet gateway with "
    "public_address true; or list other subnets. Looking needs ec2:DescribeRouteTables"
)
NO_GROUPS = "allow ec2:CreatePlacementGroup; until then jobs with `fabric` are refused"
DRY_RUN_PASSED = "DryRunOperation"


class Checked(Protocol):
    """What is asked of the adapter."""

    def offers(self, region: str) -> OfferListing: ...

    def quotas(self, region: str) -> QuotaListing: ...

    def quota_requests(self, region: str) -> QuotaRequestListing: ...

    def reservations(self, region: str) -> ReservationListing: ...

    def prepare(self, request: LaunchRequest) -> LaunchRequest: ...


class RegionCheck:
    """Looks at one region; makes nothing."""

    def __init__(
        self, provider: Checked, api: Api, catalogue: Catalogue, config: AccountConfig, region: str
    ) -> None:
        self._provider, self._api, self._catalogue = provider, api, catalogue
        self._config, self._region = config.regions[region], region
        self._offers: list[Offer] = []

    def run(self) -> Iterator[CheckResult]:
        """The lines. Without a network or offers there is nothing more to look at."""
        network = self._line("network", self._network, NO_SUBNET)
        yield network
        if not network.ok:
            return
        yield self._line("way out", self._way_out, NO_WAY_OUT)
        selling = self._line("offers", self._sold)
        yield selling
        if not selling.ok:
            return
        yield self._line("quotas", self._quotas, NO_QUOTAS)
        yield self._line("quota requests", self._requests, NO_REQUESTS)
        yield self._line("reservations", self._reservations, NO_RESERVATIONS)
        yield self._line("leftovers", self._leftovers, NO_LEFTOVERS)
        yield from self._launches()
        if not self._config.public_address and any(one.type.fabric == EFA for one in self._offers):
            yield self._line("fabric", self._group, NO_GROUPS)

    def _line(self, what: str, look: Callable[[], str], if_denied: str = "") -> CheckResult:
        return line(f"{self._region} {what}", look, if_denied)

    def _network(self) -> str:
        zones = self._catalogue.network(self._region).zones
        usable = [zone.id for zone in zones if zone.subnet is not None]
        if not usable:
            raise ProviderError(
                ErrorKind.INVALID_REQUEST,
                f"none of {len(zones)} zones has a subnet with free addresses",
            )
        return f"{len(usable)} of {len(zones)} zones have a subnet: {', '.join(usable)}"

    def _way_out(self) -> str:
        zones = self._catalogue.network(self._region).zones
        subnets = sorted({zone.subnet for zone in zones if zone.subnet is not None})
        ways = read_ways_out(self._api, self._region, subnets)
        problems = without_way_out(ways, public_address=self._config.public_address)
        if problems:
            told = "; ".join(f"{subnet}: {why}" for subnet, why in problems.items())
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"instances could reach nobody from {told}")
        return f"through {', '.join(sorted({way for way in ways.values() if way}))}"

    def _sold(self) -> str:
        self._offers.extend(self._provider.offers(self._region).offers)
        if not self._offers:
            raise ProviderError(ErrorKind.INVALID_REQUEST, "no instance type is sold in a zone with a subnet")
        return f"{len(self._offers)} offers of {len({one.type.name for one in self._offers})} types"

    def _quotas(self) -> str:
        return quotas_above_zero(self._provider.quotas(self._region), self._offers)

    def _requests(self) -> str:
        return f"{len(self._provider.quota_requests(self._region).requests)} open or decided lately"

    def _reservations(self) -> str:
        return f"{len(self._provider.reservations(self._region).reservations)} reservations and blocks"

    def _leftovers(self) -> str:
        leftovers.see(self._api, self._region)
        return "disks, spot requests and placement groups that are left behind would be found"

    def _launches(self) -> Iterator[CheckResult]:
        """The image, then a dry run for each way of buying: spot needs a role of its own in the account."""
        image = self._line("image", self._image)
        yield image
        for capacity_type in (CapacityType.ON_DEMAND, CapacityType.SPOT) if image.ok else ():
            offers = [one for one in self._offers if one.key.capacity_type is capacity_type]
            if offers:
                what = f"{capacity_type.replace('_', '-')} launch"
                yield self._line(what, partial(self._dry_run, smallest(offers)))

    def _image(self) -> str:
        request = self._provider.prepare(smallest(self._offers))
        return f"{request.image}, at least {request.disk_gib} GiB"

    def _dry_run(self, request: LaunchRequest) -> str:
        """Permission, image and network of a launch, without one. It says nothing of quota or capacity.
        [EC2 API Reference, RunInstances, DryRun]
        """
        prepared = self._provider.prepare(request)
        self._dry("run_instances", subject(prepared), **run_instances_parameters(prepared))
        return f"allowed to launch {prepared.image} in {prepared.subnet}"

    def _group(self) -> str:
        self._dry("create_placement_group", None, GroupName="corral-check", Strategy="cluster")
        return "allowed to make placement groups"

    def _dry(self, action: str, about: Any, **parameters: Any) -> None:
        try:
            self._api.write("ec2", self._region, action, about, **parameters, DryRun=True)
        except ProviderError as error:
            if error.code != DRY_RUN_PASSED:
                raise


def smallest(offers: Sequence[Offer]) -> LaunchRequest:
    """A launch of the smallest of some offers that nobody will send."""
    one = min(offers, key=lambda offer: (offer.type.vcpus, str(offer.key)))
    return LaunchRequest("0" * 32, one.key, 1, "#cloud-config\n", {"corral-deployment": "check"}, 30)


def quotas_above_zero(listing: QuotaListing, offers: Sequence[Offer]) -> str:
    """What can be launched at all, of the offers with GPUs, or of all if there are none. Raises ProviderError
    (quota) if every limit is known and zero.
    """
    wanted = [offer for offer in offers if offer.type.accelerator is not None] or list(offers)
    gating = [quota for quota in listing.quotas if any(quota.covers(offer) for offer in wanted)]
    parts = {
        "above zero": [f"{q.name} {q.limit:g}" for q in gating if q.limit],
        "zero": [f"{q.name} ({q.key})" for q in gating if q.limit == 0],
        "unknown": [q.name for q in gating if q.limit is None],
        "not read": list(listing.incomplete),
    }
    told = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts.items() if names)
    if parts["zero"] and not parts["above zero"] and not parts["unknown"]:
        raise ProviderError(ErrorKind.QUOTA, told)
    return told or "AWS names no quota of what is offered"
