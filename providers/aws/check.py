"""`corral check` for an AWS account: everything a launch needs, looked at without making anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from providers.aws.api import Api
from providers.aws.catalogue import Catalogue
from providers.aws.check_lines import NOT_ENABLED, REMEDIES, line
from providers.aws.prices import pricing_region
from providers.aws.region_check import Checked, RegionCheck
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CheckResult

NO_PRICES = "allow pricing:GetProducts; until then on-demand prices are built-in ones, for us-east-1 only"
NO_REGIONS = "allow ec2:DescribeRegions"
POWERED_OFF = "an instance that shuts itself down is terminated, and nothing of it is billed any more"
DISABLED = "not-opted-in"


def check(provider: Checked, api: Api, catalogue: Catalogue, config: AccountConfig) -> Sequence[CheckResult]:
    """Never raises. Without valid credentials nothing else can be looked at."""
    regions = list(config.regions)
    results = [line("credentials", lambda: _identity(api, regions))]
    if not results[0].ok:
        return results
    results.append(line("prices", lambda: _prices(catalogue, regions[0]), NO_PRICES))
    results.append(CheckResult("an instance that powers itself off", True, POWERED_OFF))
    enabled = _regions(api, regions)
    for region in regions:
        if isinstance(enabled, ProviderError):
            results.append(_unread(region, enabled))
        elif enabled.get(region, DISABLED) == DISABLED:
            known = "not enabled" if region in enabled else "no region of this partition"
            results.append(CheckResult(f"{region} region", False, f"{region} is {known}", NOT_ENABLED))
            continue
        results.extend(RegionCheck(provider, api, catalogue, config, region).run())
    return results


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


def _regions(api: Api, regions: Sequence[str]) -> Mapping[str, str] | ProviderError:
    """Whether the account has enabled each region, by name: `opt-in-not-required`, `opted-in`,
    `not-opted-in`. Asked of each until one answers. [EC2 API Reference, Region]
    """
    error = ProviderError(ErrorKind.UNKNOWN, "no region is set")
    for region in regions:
        try:
            found = api.read("ec2", region, "describe_regions", AllRegions=True)["Regions"]
        except ProviderError as refused:
            error = refused
        else:
            return {one["RegionName"]: one.get("OptInStatus", "") for one in found}
    return error


def _unread(region: str, error: ProviderError) -> CheckResult:
    remedy = NO_REGIONS if error.kind is ErrorKind.AUTH and error.code != "AuthFailure" else NOT_ENABLED
    if error.kind is not ErrorKind.AUTH:
        remedy = REMEDIES.get(error.kind, "")
    return CheckResult(f"{region} region", False, str(error), remedy)
