"""What Azure's refusals mean for placement: kind, what they speak of, how long it is worth avoiding."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError

from providers.azure.errors import Attempt, codes, family_key, from_body, from_exception
from providers.errors import ErrorKind
from providers.vocabulary import CapacityType, Scope

SPOT, DEMAND = CapacityType.SPOT, CapacityType.ON_DEMAND
SIZE, IMAGE, SUBNET = "Standard_NC24ads_A100_v4", "/…/images/corral", "/…/subnets/default"
K = ErrorKind


def attempt(capacity_type: CapacityType = SPOT, zone: str = "eastus-2", **more: Any) -> Attempt:
    return Attempt("lab", "eastus", zone, SIZE, capacity_type, IMAGE, SUBNET, **more)


def error(code: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


def scope(region: str | None = "eastus", **more: Any) -> Scope:
    return Scope("azure", "lab", region, **more)


OFFER = scope(zone="eastus-2", instance_type=SIZE, capacity_type=SPOT)
DEMAND_OFFER = scope(zone="eastus-2", instance_type=SIZE, capacity_type=DEMAND)
PLACEMENT = scope(zone="eastus-2", instance_type=SIZE)


def quota(name: str, limit: int = 350) -> str:
    return (
        f"Operation could not be completed as it results in exceeding approved {name} quota. Additional "
        f"details - Deployment Model: Resource Manager, Location: eastus, Current Limit: {limit}, Current "
        f"Usage: {limit}, Additional Required: 24, (Minimum) New Limit Required: {limit + 24}. Submit a "
        "request for Quota increase at https://aka.ms/ProdportalCRP/#blade/Microsoft_Azure_Capacity/"
        "UsageAndQuota.ReactView/Parameters/"
    )


MACHINES_LINK = "%7B%22resourceName%22:%22virtualMachines%22%7D"
CAPACITY_TEXT = (
    "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: "
    f"{SIZE}' is currently not available in location 'eastus'. Please try another size or deploy to a "
    "different location or different zone."
)
SUBSCRIPTION_TEXT = (
    f"The requested VM size for resource '{SIZE}' is currently not available in location 'eastus' zones '2' "
    "for subscription 'x'. Please try another size."
)
ZONAL_TEXT = (
    "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone. Read more "
    "about improving likelihood of allocation success at http://aka.ms/allocation-guidance"
)
CONSTRAINED_TEXT = (
    "Allocation failed. VM(s) with the following constraints cannot be allocated, because the condition is "
    "too restrictive. Please remove some constraints and try again. Constraints applied are:\n  - "
    "Differencing (Ephemeral) Disks\n  - VM Size"
)


@pytest.mark.parametrize(
    ("status", "body", "tried", "kind", "where", "avoid"),
    [
        (409, error("SkuNotAvailable", CAPACITY_TEXT), attempt(), K.CAPACITY, OFFER, 30),
        (409, error("SKUNotAvailable", CAPACITY_TEXT), attempt(DEMAND), K.CAPACITY, DEMAND_OFFER, 30),
        (409, error("SkuNotAvailable", SUBSCRIPTION_TEXT), attempt(DEMAND), K.CAPACITY, DEMAND_OFFER, 30),
        (
            409,
            error("SkuNotAvailable", SUBSCRIPTION_TEXT),
            attempt(DEMAND, restricted=True),
            K.UNSUPPORTED,
            DEMAND_OFFER,
            24 * 60,
        ),
        (200, error("ZonalAllocationFailed", ZONAL_TEXT), attempt(), K.CAPACITY, PLACEMENT, 60),
        (
            200,
            error("AllocationFailed", "Allocation failed."),
            attempt(DEMAND, zone="eastus"),
            K.CAPACITY,
            scope(zone="eastus", instance_type=SIZE),
            60,
        ),
        (200, error("OverconstrainedZonalAllocationRequest"), attempt(), K.CAPACITY, OFFER, 60),
        (200, error("OverConstrainedAllocationRequest", CONSTRAINED_TEXT), attempt(), K.CAPACITY, OFFER, 60),
        (
            409,
            error("OperationNotAllowed", quota("LowPriorityCores")),
            attempt(),
            K.QUOTA,
            scope(capacity_type=SPOT),
            10,
        ),
        (
            409,
            error("OperationNotAllowed", quota("LowPriorityCores", 0)),
            attempt(),
            K.QUOTA,
            scope(capacity_type=SPOT),
            60,
        ),
        (
            409,
            error("OperationNotAllowed", quota("Standard NCASv3_T4 Family Cores")),
            attempt(DEMAND),
            K.QUOTA,
            scope(family="standardncasv3t4family", capacity_type=DEMAND),
            10,
        ),
        (
            409,
            error("OperationNotAllowed", quota("VirtualMachines") + MACHINES_LINK),
            attempt(),
            K.QUOTA,
            scope(),
            10,
        ),
        (
            409,
            error("OperationNotAllowed", quota("Total Regional Cores")),
            attempt(DEMAND),
            K.QUOTA,
            scope(capacity_type=DEMAND),
            10,
        ),
        (
            409,
            error(
                "QuotaExceeded",
                "see details",
                details=[error("OperationNotAllowed", quota("standardDASv5Family Cores"))["error"]],
            ),
            attempt(DEMAND),
            K.QUOTA,
            scope(family="standarddasv5family", capacity_type=DEMAND),
            10,
        ),
        (
            409,
            error(
                "OperationNotAllowed",
                "Operation results in exceeding quota limits of Core. Maximum allowed: 20, Current in use: "
                "20, Additional requested: 2.",
            ),
            attempt(DEMAND),
            K.QUOTA,
            scope(capacity_type=DEMAND),
            10,
        ),
        (400, error("PublicIPCountLimitReached"), attempt(), K.QUOTA, scope(), 10),
        (400, error("SubnetIsFull"), attempt(), K.CAPACITY, scope(subnet=SUBNET), 10),
        (
            409,
            error(
                "OperationNotAllowed",
                "VM 'x' is marked for deletion. You can only retry the Delete operation",
            ),
            attempt(),
            K.CONFLICT,
            OFFER,
            0.25,
        ),
        (409, error("OperationNotAllowed", "Something else."), attempt(), K.INVALID_REQUEST, OFFER, None),
        (
            409,
            error("SpotPriceGreaterThanProvidedMaxPrice", "max price '0.01 USD' is lower than '1.4 USD'"),
            attempt(),
            K.PRICE_TOO_LOW,
            scope(instance_type=SIZE, capacity_type=SPOT),
            30,
        ),
        (409, error("MaxPriceValueInvalid"), attempt(), K.INVALID_REQUEST, OFFER, None),
        (
            409,
            error("AzureSpotIsNotSupportedForThisVMSize"),
            attempt(),
            K.UNSUPPORTED,
            scope(instance_type=SIZE, capacity_type=SPOT),
            24 * 60,
        ),
        (
            409,
            error("AzureSpotFeatureNotEnabledForSubscription"),
            attempt(),
            K.ACCOUNT_BLOCKED,
            scope(None, capacity_type=SPOT),
            24 * 60,
        ),
        (
            400,
            error(
                "InvalidParameter", f"The requested VM size {SIZE} is not available in the current region."
            ),
            attempt(),
            K.UNSUPPORTED,
            scope(instance_type=SIZE),
            24 * 60,
        ),
        (
            400,
            error("BadRequest", "The selected VM size cannot boot Hypervisor Generation '1'."),
            attempt(),
            K.INVALID_REQUEST,
            scope(instance_type=SIZE, image=IMAGE),
            None,
        ),
        (409, error("PropertyChangeNotAllowed", target="zones"), attempt(), K.CONFLICT, OFFER, 0.5),
        (409, error("InvalidResourceLocation"), attempt(), K.CONFLICT, OFFER, 0.5),
        (412, error("PreconditionFailed"), attempt(), K.CONFLICT, OFFER, 0.5),
        (409, error("ResourceGroupBeingDeleted"), attempt(), K.CONFLICT, scope(None), 1),
        (None, error("OperationPreempted"), attempt(), K.CAPACITY, OFFER, 15),
        (None, error("OperationPreempted"), attempt(DEMAND), K.CONFLICT, DEMAND_OFFER, 0.5),
        (404, error("ResourceGroupNotFound"), attempt(), K.NOT_FOUND, scope(), 10),
        (404, error("ResourceNotFound", "The Resource was not found."), attempt(), K.NOT_FOUND, scope(), 10),
        (
            404,
            error("NotFound", "The Image '/x/images/y' cannot be found in 'eastus' region."),
            attempt(),
            K.IMAGE_MISSING,
            scope(image=IMAGE),
            60,
        ),
        (404, error("GalleryImageNotFound"), attempt(), K.IMAGE_MISSING, scope(image=IMAGE), 60),
        (
            400,
            error("ResourcePurchaseValidationFailed", "User failed validation to purchase resources."),
            attempt(),
            K.IMAGE_MISSING,
            scope(None, image=IMAGE),
            24 * 60,
        ),
        (
            400,
            error(
                "MarketplacePurchaseEligibilityFailed", "The spending limit of the subscription is reached."
            ),
            attempt(),
            K.ACCOUNT_BLOCKED,
            scope(None, image=IMAGE),
            24 * 60,
        ),
        (
            403,
            error(
                "RequestDisallowedByPolicy",
                "Resource 'vm' was disallowed by policy.",
                additionalInfo=[
                    {"type": "PolicyViolation", "info": {"policyDefinitionDisplayName": "Allowed locations"}}
                ],
            ),
            attempt(),
            K.INVALID_REQUEST,
            scope(),
            24 * 60,
        ),
        (
            403,
            error(
                "RequestDisallowedByPolicy",
                "Resource 'vm' was disallowed by policy: Allowed virtual machine size SKUs.",
            ),
            attempt(),
            K.INVALID_REQUEST,
            scope(instance_type=SIZE),
            24 * 60,
        ),
        (403, error("RequestDisallowedByAzure"), attempt(), K.ACCOUNT_BLOCKED, scope(), 24 * 60),
        (409, error("MissingSubscriptionRegistration"), attempt(), K.ACCOUNT_BLOCKED, scope(None), 5),
        (409, error("ReadOnlyDisabledSubscription"), attempt(), K.ACCOUNT_BLOCKED, scope(None), 6 * 60),
        (
            403,
            error("AuthorizationFailed", "does not have authorization"),
            attempt(),
            K.AUTH,
            scope(None),
            10,
        ),
        (
            403,
            error("LinkedAuthorizationFailed", "permission on /subscriptions/x/…/galleries/g/images/i"),
            attempt(),
            K.AUTH,
            scope(None, image=IMAGE),
            60,
        ),
        (401, error("ExpiredAuthenticationToken"), attempt(), K.AUTH, scope(None), 5),
        (
            200,
            error("OSProvisioningTimedOut"),
            attempt(),
            K.TRANSIENT,
            scope(instance_type=SIZE, image=IMAGE),
            10,
        ),
        (200, error("VMExtensionProvisioningError"), attempt(), K.INVALID_REQUEST, scope(image=IMAGE), None),
        (400, error("InvalidRequestContent"), attempt(), K.INVALID_REQUEST, OFFER, None),
        (500, error("InternalServerError"), attempt(), K.TRANSIENT, OFFER, 0.5),
        # Codes that nobody has listed.
        (503, error("SomethingNew"), attempt(), K.TRANSIENT, OFFER, None),
        (409, error("SomethingNew", "no idea"), attempt(), K.UNKNOWN, OFFER, None),
        (400, "<html>bad gateway</html>", attempt(), K.UNKNOWN, OFFER, None),
        (403, {}, attempt(), K.AUTH, scope(None), None),
    ],
)
def test_a_refusal_means_what_the_documentation_says(
    status: int | None,
    body: Any,
    tried: Attempt,
    kind: ErrorKind,
    where: Scope,
    avoid: float | None,
) -> None:
    found = from_body(status, body, tried)
    assert (found.kind, found.scope) == (kind, where)
    assert found.avoid_for == (None if avoid is None else timedelta(minutes=avoid))
    assert found.message
    assert not found.ambiguous


def test_a_throttle_in_the_clothes_of_a_refusal_is_a_throttle() -> None:
    body = {
        "code": "OperationNotAllowed",
        "message": "The server rejected the request because too many requests have been received for this "
        "subscription.",
        "details": [
            {
                "code": "TooManyRequests",
                "target": "HighCostGet30Min",
                "message": '{"operationGroup":"HighCostGet30Min","startTime":"2017-06-30T18:29:46Z",'
                '"allowedRequestCount":800,"measuredRequestCount":1238}',
            }
        ],
    }
    for status in (429, 409):
        found = from_body(status, body, attempt(), retry_after=1200)
        assert (found.kind, found.code) == (K.THROTTLED, "TooManyRequests")
        assert found.retry_after == 1200
        assert found.scope == scope()
    assert from_body(429, {}, attempt()).kind is K.THROTTLED
    assert from_body(429, error("SubscriptionRequestsThrottled"), attempt()).kind is K.THROTTLED


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (error("A", "outer"), ["A"]),
        ({"code": "A", "message": "no wrapper"}, ["A"]),
        (error("A", "", details=[{"code": "B", "details": [{"code": "C"}]}]), ["A", "B", "C"]),
        (error("A", json.dumps(error("B", "inside"))), ["A", "B"]),
        (
            error("A", 'it failed. Code="ZonalAllocationFailed" Message="no room"'),
            ["A", "ZonalAllocationFailed"],
        ),
        (error("A", "{not json"), ["A"]),
        ("text", []),
        (None, []),
    ],
)
def test_codes_are_found_however_deep_they_are_wrapped(body: Any, found: list[str]) -> None:
    assert [code for code, _ in codes(body)] == found


def test_the_innermost_known_code_counts_and_a_wrapper_only_alone() -> None:
    inner = {"code": "SkuNotAvailable", "message": "none left"}
    wrapped = error("DeploymentFailed", "failed", details=[{"code": "Conflict", "details": [inner]}])
    assert from_body(409, wrapped, attempt()).kind is K.CAPACITY
    assert from_body(409, error("Conflict", "busy"), attempt()).kind is K.CONFLICT
    unknown = error("SkuNotAvailable", "none left", details=[{"code": "NeverHeardOf"}])
    assert from_body(409, unknown, attempt()).code == "SkuNotAvailable"


def test_an_endless_nesting_ends() -> None:
    body: dict[str, Any] = {"code": "SkuNotAvailable", "message": "deep"}
    for _ in range(200):
        body = {"code": "Wrap", "message": "", "details": [body]}
    assert from_body(409, body, attempt()).kind is K.UNKNOWN


@pytest.mark.parametrize(
    ("status", "body", "ambiguous"),
    [
        (500, error("InternalServerError"), True),
        (503, error("SomethingNew"), True),
        (504, error("GatewayTimeout"), True),
        (408, {}, True),
        (200, "not json", True),
        (409, error("SkuNotAvailable"), False),
        (409, error("OperationNotAllowed", quota("LowPriorityCores")), False),
        (429, error("TooManyRequests"), False),
        (403, error("AuthorizationFailed"), False),
        (409, error("SomethingNew"), False),
    ],
)
def test_only_a_create_without_a_clear_answer_is_in_doubt(status: int, body: Any, ambiguous: bool) -> None:
    assert from_body(status, body, attempt(creating=True)).ambiguous is ambiguous
    assert not from_body(status, body, attempt()).ambiguous


def test_the_portal_link_names_the_quota_when_the_text_is_vague() -> None:
    text = (
        quota("Family Cores") + "%7B%22resourceName%22:%22Standard%20NCASv3_T4%20Family%22,%22quota%22:1%7D"
    )
    found = from_body(409, error("OperationNotAllowed", text), attempt(DEMAND))
    assert found.scope.family == family_key("Standard NCASv3_T4 Family")


def test_families_are_one_however_azure_spells_them() -> None:
    spellings = {"Standard NCASv3_T4 Family", "standardNCASv3_T4Family", "Standard_NCASv3-T4 family"}
    assert len({family_key(name) for name in spellings}) == 1


# Every code that the documentation or a published refusal names for what is done here.
KNOWN = [
    "SkuNotAvailable",
    "ZonalAllocationFailed",
    "AllocationFailed",
    "OverconstrainedZonalAllocationRequest",
    "OverconstrainedAllocationRequest",
    "OperationNotAllowed",
    "QuotaExceeded",
    "ResourceQuotaExceeded",
    "PublicIPCountLimitReached",
    "SubnetIsFull",
    "InsufficientSubnetSize",
    "DeploymentQuotaExceeded",
    "TooManyRequests",
    "SubscriptionRequestsThrottled",
    "ResourceRequestsThrottled",
    "SpotPriceGreaterThanProvidedMaxPrice",
    "MaxPriceValueInvalid",
    "MaxPriceChangeNotAllowed",
    "MaxPriceChangeNotAllowedForAllocatedVMs",
    "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines",
    "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines",
    "AzureSpotVMNotSupportedInAvailabilitySet",
    "VMPriorityCannotBeApplied",
    "AzureSpotIsNotSupportedForThisAPIVersion",
    "AzureSpotIsNotSupportedForThisVMSize",
    "AzureSpotFeatureNotEnabledForSubscription",
    "InvalidParameter",
    "BadRequest",
    "PropertyChangeNotAllowed",
    "InvalidResourceLocation",
    "PreconditionFailed",
    "Conflict",
    "ConflictingUserInput",
    "AnotherOperationInProgress",
    "NicReservedForAnotherVm",
    "NicInUse",
    "InUseSubnetCannotBeDeleted",
    "PublicIPAddressCannotBeDeleted",
    "AttachDiskWhileBeingDetached",
    "ResourceGroupBeingDeleted",
    "OperationPreempted",
    "ResourceNotFound",
    "NotFound",
    "VMNotFound",
    "ResourceGroupNotFound",
    "ParentResourceNotFound",
    "InvalidResourceReference",
    "LinkedInvalidPropertyId",
    "ImageNotFound",
    "PlatformImageNotFound",
    "GalleryImageNotFound",
    "ImageBlobNotFound",
    "DiskImageNotReady",
    "SubscriptionNotAuthorizedForImage",
    "LinkedAuthorizationFailed",
    "MarketplacePurchaseEligibilityFailed",
    "ResourcePurchaseValidationFailed",
    "ResourcePurchaseCanceled",
    "VMMarketplaceInvalidInput",
    "RequestDisallowedByPolicy",
    "RequestDisallowedByAzure",
    "RegionDoesNotAllowProvisioning",
    "MissingRegistrationForLocation",
    "MissingSubscriptionRegistration",
    "SubscriptionNotRegistered",
    "NoRegisteredProviderFound",
    "InvalidSubscriptionRegistrationState",
    "ReadOnlyDisabledSubscription",
    "SubscriptionNotFound",
    "DisallowedOperation",
    "AuthorizationFailed",
    "AuthenticationFailed",
    "InvalidAuthenticationToken",
    "ExpiredAuthenticationToken",
    "InvalidAuthenticationTokenTenant",
    "InvalidRequestContent",
    "InvalidRequestFormat",
    "LocationRequired",
    "ReservedResourceName",
    "OSProvisioningTimedOut",
    "VMStartTimedOut",
    "VMAgentStatusCommunicationError",
    "OSProvisioningClientError",
    "OSProvisioningInternalError",
    "VMExtensionProvisioningError",
    "InternalServerError",
    "InternalOperationError",
    "InternalExecutionError",
    "NetworkingInternalOperationError",
    "DiskProcessingError",
    "ResourceUpdateBlockedOnPlatformUpdate",
    "ServiceUnavailable",
    "GatewayTimeout",
    "OperationTimedOut",
    "RetryableError",
    "LocationNotAvailableForResourceType",
    "QuotaNotAvailableForResource",
    "ContactSupport",
]


@pytest.mark.parametrize("code", KNOWN)
@pytest.mark.parametrize("kind", [SPOT, DEMAND])
def test_no_known_code_is_left_to_its_status(code: str, kind: CapacityType) -> None:
    assert from_body(418, error(code, "no idea"), attempt(kind)).kind is not K.UNKNOWN


@pytest.mark.parametrize("code", ["OperationNotAllowed", "BadRequest"])
def test_a_size_that_is_not_sold_as_spot_is_told_by_the_text(code: str) -> None:
    body = error(code, "The VM size 'Standard_NC24ads_A100_v4' does not support Azure Spot.")
    found = from_body(409, body, attempt())
    assert (found.kind, found.scope) == (K.UNSUPPORTED, scope(instance_type=SIZE, capacity_type=SPOT))
    assert from_body(409, body, attempt(DEMAND)).kind is K.INVALID_REQUEST


def test_FAI_16_a_policy_closes_what_it_speaks_of_for_long_and_is_no_shortage() -> None:
    policy = {"additionalInfo": [{"info": {"policyDefinitionDisplayName": "Allowed locations"}}]}
    found = from_body(403, error("RequestDisallowedByPolicy", "Not allowed.", **policy), attempt())
    assert (found.kind, found.scope) == (K.INVALID_REQUEST, scope())
    assert found.avoid_for == timedelta(hours=24)
    unregistered = from_body(409, error("MissingSubscriptionRegistration"), attempt())
    assert (unregistered.kind, unregistered.scope) == (K.ACCOUNT_BLOCKED, scope(None))


def test_LIF_22_a_group_that_is_being_deleted_is_neither_a_shortage_nor_a_quota() -> None:
    found = from_body(409, error("ResourceGroupBeingDeleted", "It is being deleted."), attempt())
    assert (found.kind, found.scope, found.avoid_for) == (K.CONFLICT, scope(None), timedelta(minutes=1))


def test_AUT_01_a_credential_that_has_run_out_is_an_error_of_the_account() -> None:
    text = "AADSTS700082: The refresh token has expired due to inactivity."
    found = from_exception(ClientAuthenticationError(text), attempt(creating=True))
    assert (found.kind, found.scope, found.ambiguous) == (K.AUTH, scope(None), False)
    assert "AADSTS700082" in found.message
