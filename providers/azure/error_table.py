"""What Azure's error codes mean: data, read top to bottom, the first row that fits counts.

Sources: Azure documentation (error-codes-spot, troubleshooting articles on allocation failures and on
quotas, request limits and throttling, states-billing) and error bodies published in the issue trackers of
karpenter-provider-azure, dstack, SkyPilot and terraform-provider-azurerm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase

from providers.errors import ErrorKind
from providers.vocabulary import CapacityType


class Reach(StrEnum):
    """The part of the attempted offer that an error speaks of. The account is always part of it: zone
    numbers, quotas and restrictions are each subscription's own.
    """

    ACCOUNT = "account"
    ACCOUNT_SPOT = "account_spot"
    ACCOUNT_IMAGE = "account_image"
    REGION = "region"
    REGION_SIZE = "region_size"
    REGION_SIZE_SPOT = "region_size_spot"
    REGION_SUBNET = "region_subnet"
    REGION_IMAGE = "region_image"
    SIZE_IMAGE = "size_image"
    PLACEMENT = "placement"
    OFFER = "offer"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `codes`, separated by blanks, may end in `*`; `text` must be found in the message, whatever
    its case; `capacity_type` is that of the attempt; `ambiguous`: a create that failed like this may have
    been carried out.
    """

    codes: str
    kind: ErrorKind
    reach: Reach
    avoid: timedelta | None = None
    text: str | None = None
    capacity_type: CapacityType | None = None
    ambiguous: bool = False

    def fits(self, code: str, text: str, capacity_type: CapacityType | None) -> bool:
        """Whether this row speaks of that code, message and kind of capacity."""
        return (
            any(fnmatchcase(code.lower(), known) for known in self.codes.lower().split())
            and (self.capacity_type is None or self.capacity_type == capacity_type)
            and (self.text is None or re.search(self.text, text, re.IGNORECASE) is not None)
        )


def _s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _m(minutes: float) -> timedelta:
    return timedelta(minutes=minutes)


def _h(hours: float) -> timedelta:
    return timedelta(hours=hours)


K = ErrorKind
R = Reach
SPOT = CapacityType.SPOT

# Outer codes that only wrap another one; a known code further in counts before them.
WRAPPERS = frozenset(
    {
        "conflict",
        "badrequest",
        "quotaexceeded",
        "deploymentfailed",
        "invalidtemplatedeployment",
        "resourceoperationfailure",
        "resourcedeploymentfailure",
    }
)

# The compute provider throttles with the outer code OperationNotAllowed, so these are looked for first.
THROTTLES = re.compile(r"^(toomanyrequests|.*throttled)$", re.IGNORECASE)
THROTTLE_TEXT = re.compile(r"too many requests", re.IGNORECASE)

# Zoneless and zonal placements are told apart (Reach.PLACEMENT): either may work where the other fails.
RULES: tuple[Rule, ...] = (
    # capacity
    Rule("SkuNotAvailable", K.CAPACITY, R.OFFER, _m(30)),
    Rule("ZonalAllocationFailed AllocationFailed", K.CAPACITY, R.PLACEMENT, _h(1)),
    Rule("OverconstrainedZonalAllocationRequest", K.CAPACITY, R.OFFER, _h(1)),
    Rule("OverconstrainedAllocationRequest", K.CAPACITY, R.OFFER, _h(1)),
    Rule("OperationPreempted", K.CAPACITY, R.OFFER, _m(15), capacity_type=SPOT),
    Rule("OperationPreempted", K.CONFLICT, R.OFFER, _s(30)),
    Rule("SubnetIsFull InsufficientSubnetSize", K.CAPACITY, R.REGION_SUBNET, _m(10)),
    # one code, four meanings; its quota form is recognised before this table by its text
    Rule(
        "OperationNotAllowed",
        K.CONFLICT,
        R.OFFER,
        _s(15),
        text=r"marked for deletion|is attached to|another operation is in progress|changing power state|"
        r"does not contain any VM",
    ),
    Rule(
        "OperationNotAllowed BadRequest InvalidParameter",
        K.UNSUPPORTED,
        R.REGION_SIZE_SPOT,
        _h(24),
        text=r"does not support Azure Spot",
        capacity_type=SPOT,
    ),
    Rule("OperationNotAllowed", K.INVALID_REQUEST, R.OFFER),
    # quota
    Rule(
        "QuotaExceeded ResourceQuotaExceeded PublicIPCountLimitReached DeploymentQuotaExceeded",
        K.QUOTA,
        R.REGION,
        _m(10),
    ),
    # requests for more that only a person can decide on
    Rule("QuotaNotAvailableForResource ContactSupport", K.UNSUPPORTED, R.REGION, _s(0)),
    # spot
    Rule("SpotPriceGreaterThanProvidedMaxPrice", K.PRICE_TOO_LOW, R.REGION_SIZE_SPOT, _m(30)),
    Rule(
        "MaxPriceValueInvalid MaxPriceChangeNotAllowed* "
        "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines VMPriorityCannotBeApplied "
        "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines AzureSpotVMNotSupportedInAvailabilitySet "
        "AzureSpotIsNotSupportedForThisAPIVersion",
        K.INVALID_REQUEST,
        R.OFFER,
    ),
    Rule("AzureSpotIsNotSupportedForThisVMSize", K.UNSUPPORTED, R.REGION_SIZE_SPOT, _h(24)),
    Rule("AzureSpotFeatureNotEnabledForSubscription", K.ACCOUNT_BLOCKED, R.ACCOUNT_SPOT, _h(24)),
    # size × place, size × image
    Rule("LocationNotAvailableForResourceType", K.UNSUPPORTED, R.REGION, _h(24)),
    Rule(
        "InvalidParameter",
        K.UNSUPPORTED,
        R.REGION_SIZE,
        _h(24),
        text=r"VM size .* is not available in the current region",
    ),
    Rule(
        "InvalidParameter BadRequest InvalidAvailabilityZone LocationNotSupportAvailabilityZones",
        K.UNSUPPORTED,
        R.PLACEMENT,
        _h(24),
        text=r"\bzone.* not supported|not supported in .*\bzone|does not support .*\bzone",
    ),
    Rule(
        "BadRequest InvalidParameter",
        K.INVALID_REQUEST,
        R.SIZE_IMAGE,
        text=r"Hypervisor Generation|CPU architecture|smaller than .*image|'<NULL>' security type",
    ),
    # images and their terms, told apart from other things that are missing by the text
    Rule(
        "ImageNotFound PlatformImageNotFound GalleryImageNotFound ImageBlobNotFound DiskImageNotReady",
        K.IMAGE_MISSING,
        R.REGION_IMAGE,
        _h(1),
    ),
    Rule(
        "NotFound ResourceNotFound InvalidResourceReference",
        K.IMAGE_MISSING,
        R.REGION_IMAGE,
        _h(1),
        text=r"The Image '?\S+'? cannot be found|/(images|galleries)/|platform image",
    ),
    Rule("SubscriptionNotAuthorizedForImage", K.AUTH, R.ACCOUNT_IMAGE, _h(1)),
    Rule("LinkedAuthorizationFailed", K.AUTH, R.ACCOUNT_IMAGE, _h(1), text=r"/(images|galleries)/"),
    Rule(
        "MarketplacePurchaseEligibilityFailed ResourcePurchaseValidationFailed ResourcePurchaseCanceled",
        K.ACCOUNT_BLOCKED,
        R.ACCOUNT_IMAGE,
        _h(24),
        text=r"spending limit|\bCSP\b|private (market|store)|credit",
    ),
    Rule(
        "MarketplacePurchaseEligibilityFailed ResourcePurchaseValidationFailed ResourcePurchaseCanceled "
        "VMMarketplaceInvalidInput",
        K.IMAGE_MISSING,
        R.ACCOUNT_IMAGE,
        _h(24),
    ),
    # state of the thing itself
    Rule("ResourceGroupBeingDeleted", K.CONFLICT, R.ACCOUNT, _s(60)),
    Rule(
        "PropertyChangeNotAllowed InvalidResourceLocation PreconditionFailed Conflict ConflictingUserInput "
        "AnotherOperationInProgress NicReservedForAnotherVm NicInUse InUseSubnetCannotBeDeleted "
        "PublicIPAddressCannotBeDeleted AttachDiskWhileBeingDetached",
        K.CONFLICT,
        R.OFFER,
        _s(30),
    ),
    # things that are not there
    Rule(
        "ResourceGroupNotFound ParentResourceNotFound InvalidResourceReference LinkedInvalidPropertyId "
        "ResourceNotFound NotFound VMNotFound",
        K.NOT_FOUND,
        R.REGION,
        _m(10),
    ),
    # policy, subscription, credentials
    Rule(
        "RequestDisallowedByPolicy",
        K.INVALID_REQUEST,
        R.REGION_SIZE,
        _h(24),
        text=r"\bsizes?\b|\bskus?\b|vmsize",
    ),
    Rule(
        "RequestDisallowedByPolicy",
        K.INVALID_REQUEST,
        R.REGION,
        _h(24),
        text=r"locations?\b|regions?\b",
    ),
    Rule("RequestDisallowedByPolicy", K.INVALID_REQUEST, R.ACCOUNT, _h(24)),
    Rule(
        "RequestDisallowedByAzure RegionDoesNotAllowProvisioning MissingRegistrationForLocation",
        K.ACCOUNT_BLOCKED,
        R.REGION,
        _h(24),
    ),
    Rule(
        "MissingSubscriptionRegistration SubscriptionNotRegistered NoRegisteredProviderFound "
        "InvalidSubscriptionRegistrationState",
        K.ACCOUNT_BLOCKED,
        R.ACCOUNT,
        _m(5),
    ),
    Rule(
        "ReadOnlyDisabledSubscription SubscriptionNotFound DisallowedOperation",
        K.ACCOUNT_BLOCKED,
        R.ACCOUNT,
        _h(6),
    ),
    Rule("AuthorizationFailed LinkedAuthorizationFailed", K.AUTH, R.ACCOUNT, _m(10)),
    Rule(
        "AuthenticationFailed InvalidAuthenticationToken ExpiredAuthenticationToken "
        "InvalidAuthenticationTokenTenant",
        K.AUTH,
        R.ACCOUNT,
        _m(5),
    ),
    # the guest
    Rule(
        "OSProvisioningTimedOut VMStartTimedOut VMAgentStatusCommunicationError",
        K.TRANSIENT,
        R.SIZE_IMAGE,
        _m(10),
    ),
    Rule(
        "OSProvisioningClientError OSProvisioningInternalError VMExtension*",
        K.INVALID_REQUEST,
        R.REGION_IMAGE,
    ),
    # our own request
    Rule(
        "InvalidParameter InvalidRequestContent InvalidRequestFormat LocationRequired ReservedResourceName "
        "BadRequest TooManyTags InvalidTagNameCharacters InvalidResourceName",
        K.INVALID_REQUEST,
        R.OFFER,
    ),
    # Azure itself; a create may have gone through
    Rule(
        "InternalServerError InternalOperationError InternalExecutionError NetworkingInternalOperationError "
        "DiskProcessingError ResourceUpdateBlockedOnPlatformUpdate ServiceUnavailable GatewayTimeout "
        "OperationTimedOut RetryableError",
        K.TRANSIENT,
        R.OFFER,
        _s(30),
        ambiguous=True,
    ),
)
