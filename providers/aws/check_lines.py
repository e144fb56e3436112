"""One line of `corral check` for an AWS account, and what mends each kind of failure."""

from __future__ import annotations

from collections.abc import Callable

from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CheckResult

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


def line(what: str, look: Callable[[], str], if_denied: str = "") -> CheckResult:
    """One line: what `look` saw, or why it could not. if_denied: what mends it where it is a permission or a
    setting that is at fault.
    """
    try:
        return CheckResult(what, True, look())
    except ProviderError as error:
        if error.code == "AuthFailure" and error.kind is ErrorKind.AUTH:
            return CheckResult(what, False, str(error), NOT_ENABLED)
        mended = if_denied if error.kind in (ErrorKind.AUTH, ErrorKind.INVALID_REQUEST) else ""
        return CheckResult(what, False, str(error), mended or REMEDIES.get(error.kind, ""))
