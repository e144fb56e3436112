"""`corral check` for an AWS account: everything a launch needs, looked at without making anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from providers.aws.api import Api
from providers.aws.catalogue import Catalogue
from providers.aws.launch import run_instances_parameters, subject
from providers.aws.prices import pricing_region
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.quotas import QuotaListing
from providers.vocabulary import CapacityType, CheckResult, LaunchRequest, Offer, OfferListing

REMEDIES: dict[ErrorKind, str] = {
    ErrorKind.AUTH: "check the credentials that the settings name, and the permissions in docs/aws.md",
    ErrorKind.CLOCK_SKEW: "set this machine's clock (NTP)",
    ErrorKind.ACCOUNT_BLOCKED: "enable the region, finish the account's verification, or ask AWS support",
    ErrorKind.IMAGE_MISSING: "name an image that exists in this region and is shared with the account",
    ErrorKind.NOT_FOUND: "correct the id in the settings of this region",
    ErrorKind.THROTTLED: "try again; others use the account's API heavily",
    ErrorKind.TRANSIENT: "check the network, proxy and ca_bundle, then try again",
    ErrorKind.INVALID_REQUEST: "correct the settings of this region",
    ErrorKind.QUOTA: "ask AWS for more vCPUs: Service Quotas console, Amazon EC2, in this region",
}

# When a region is looked at, the credentials are known to be good.
NOT_ENABLED = "enable this region in the AWS account, or take it out of the settings"
NO_PRICES = "allow pricing:GetProducts; until then on-demand prices are built-in ones, for us-east-1 only"
NO_QUOTAS = "allow servicequotas:ListServiceQuotas; until then quotas are unknown and every offer is tried"
DRY_RUN_PASSED = "DryRunOperation"


class _Preparing(Protocol):
    def offers(self, region: str) -> OfferListing: ...

    def quotas(self, region: str) -> QuotaListing: ...

    def prepare(self, request: LaunchRequest) -> LaunchRequest: ...


def check(
    provider: _Preparing, api: Api, catalogue: Catalogue, config: AccountConfig
) -> Sequence[CheckResult]:
    """Never raises. Without valid credentials nothing else can be looked at."""
    home = next(iter(config.regions))
    results = [_line("credentials", lambda: _identity(api, list(config.regions)))]
    if results[0].ok:
        results.append(_line("prices", lambda: _prices(catalogue, home), NO_PRICES))
        for region in config.regions:
            results.extend(_region(provider, api, catalogue, region))
    return results


def _region(provider: _Preparing, api: Api, catalogue: Catalogue, region: str) -> Iterator[CheckResult]:
    network = _line(f"{region} network", lambda: _network(catalogue, region))
    yield network
    if not network.ok:
        return
    offers: list[Offer] = []

    def sold() -> str:
        offers.extend(provider.offers(region).offers)
        if not offers:
            raise ProviderError(ErrorKind.INVALID_REQUEST, "no instance type is sold in a zone with a subnet")
        return f"{len(offers)} offers of {len({offer.type.name for offer in offers})} types"

    selling = _line(f"{region} offers", sold)
    yield selling
    if selling.ok:
        yield _quota_line(provider, region, offers)
        yield _line(f"{region} launch", lambda: _dry_run(provider, api, offers))


def _line(what: str, look: Callable[[], str], remedy: str = "") -> CheckResult:
    try:
        return CheckResult(what, True, look())
    except ProviderError as error:
        if error.code == "AuthFailure" and error.kind is ErrorKind.AUTH:
            return CheckResult(what, False, str(error), NOT_ENABLED)
        return CheckResult(what, False, str(error), remedy or REMEDIES.get(error.kind, ""))


def _identity(api: Api, regions: Sequence[str]) -> str:
    """Asked of each region until one answers: one that is not enabled denies good credentials."""
    errors: list[ProviderError] = []
    for region in regions:
        try:
            caller = api.read("sts", region, "get_caller_identity")
        except ProviderError as error:
            errors.append(error)
        else:
            return f"account {caller['Account']} as {caller['Arn']}"
    raise errors[0]


def _prices(catalogue: Catalogue, region: str) -> str:
    if pricing_region(region) is None:
        return "this partition has no price list; on-demand prices are unknown"
    return f"{len(catalogue.on_demand.read(region).by_type)} on-demand prices in {region}"


def _network(catalogue: Catalogue, region: str) -> str:
    zones = catalogue.network(region).zones
    usable = [zone.id for zone in zones if zone.subnet is not None]
    if not usable:
        raise ProviderError(
            ErrorKind.INVALID_REQUEST,
            f"none of {len(zones)} zones has a subnet with free addresses; list some, or make a default VPC",
        )
    return f"{len(usable)} of {len(zones)} zones have a subnet: {', '.join(usable)}"


def _quota_line(provider: _Preparing, region: str, offers: Sequence[Offer]) -> CheckResult:
    subject = f"{region} quotas"
    try:
        listing = provider.quotas(region)
    except ProviderError as error:
        remedy = NO_QUOTAS if error.kind is ErrorKind.AUTH else REMEDIES.get(error.kind, "")
        return CheckResult(subject, False, str(error), remedy)
    return _line(subject, lambda: quotas_above_zero(listing, offers))


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


def _dry_run(provider: _Preparing, api: Api, offers: Sequence[Offer]) -> str:
    """Permission, image and network of a launch, without one. It says nothing of quota or capacity.
    [EC2 API Reference, RunInstances, DryRun]
    """
    wanted = [offer for offer in offers if offer.key.capacity_type is CapacityType.ON_DEMAND] or list(offers)
    smallest = min(wanted, key=lambda offer: (offer.type.vcpus, str(offer.key)))
    token, tags = "0" * 32, {"corral-deployment": "check"}
    request = provider.prepare(LaunchRequest(token, smallest.key, 1, "#cloud-config\n", tags, 30))
    parameters = run_instances_parameters(request)
    try:
        api.write("ec2", smallest.key.region, "run_instances", subject(request), **parameters, DryRun=True)
    except ProviderError as error:
        if error.code != DRY_RUN_PASSED:
            raise
    return f"allowed to launch {request.image} in {request.subnet}"
