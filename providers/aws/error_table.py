"""What EC2's error codes mean, as data. Order matters: of the rows with a code, the first whose hint is found
in the message holds, so a row with a hint stands above the same code without one.

Codes: Amazon EC2 API Reference "Error codes for the Amazon EC2 API", the retry lists in botocore, and the
common errors of STS, SSM, Pricing and Service Quotas. Messages may change: a hint only refines what the
code already says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from providers.errors import ErrorKind as K


class About(Enum):
    """Which fields of the request an error speaks about, besides provider and account."""

    OFFER = ("region", "zone", "instance_type", "capacity_type")
    ZONE_TYPE = ("region", "zone", "instance_type")
    ZONE = ("region", "zone")
    SUBNET = ("region", "subnet")
    REGION_TYPE = ("region", "instance_type")
    FAMILY = ("region", "family", "capacity_type")
    REGION = ("region",)
    SPOT = ("capacity_type",)
    IMAGE = ("region", "image")
    IMAGE_TYPE = ("region", "image", "instance_type")
    PLACEMENT_GROUP = ("region", "zone", "placement_group")
    RESERVATION = ("region", "reservation")
    ACCOUNT = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One row. `avoid` None takes the kind's own time. `ambiguous`: a launch may still have happened."""

    codes: tuple[str, ...]
    kind: K
    about: About
    avoid: timedelta | None = None
    hint: str = ""
    ambiguous: bool = False
    ended: bool = False


def _minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def _hours(count: float) -> timedelta:
    return timedelta(hours=count)


CAPACITY = (
    Rule(
        ("InsufficientInstanceCapacity",),
        K.CAPACITY,
        About.PLACEMENT_GROUP,
        _minutes(30),
        hint="spread placement group",
    ),
    Rule(("InsufficientInstanceCapacity", "UnfulfillableCapacity"), K.CAPACITY, About.OFFER, _minutes(3)),
    Rule(
        (
            "InsufficientCapacity",
            "InsufficientHostCapacity",
            "InsufficientCapacityOnHost",
            "InsufficientReservedInstanceCapacity",
        ),
        K.CAPACITY,
        About.ZONE_TYPE,
        _minutes(10),
    ),
    Rule(("InsufficientVolumeCapacity",), K.CAPACITY, About.ZONE, _minutes(15)),
    Rule(
        ("InsufficientFreeAddressesInSubnet", "InsufficientAddressCapacity"),
        K.CAPACITY,
        About.SUBNET,
        _minutes(3),
    ),
    Rule(
        (
            "ReservationCapacityExceeded",
            "InvalidCapacityReservationState",
            "InvalidCapacityReservationState.PendingActivation",
            "InvalidCapacityReservationState.Unavailable",
        ),
        K.CAPACITY,
        About.RESERVATION,
        _minutes(1),
    ),
    Rule(("SpotMaxPriceTooLow",), K.PRICE_TOO_LOW, About.OFFER, _minutes(5)),
)

QUOTA = (
    Rule(("VcpuLimitExceeded",), K.QUOTA, About.FAMILY, _minutes(15)),
    Rule(("InstanceLimitExceeded",), K.QUOTA, About.REGION_TYPE, _minutes(15)),
    # It may be the requests of instances that have just ended, which EC2 closes late.
    Rule(("MaxSpotInstanceCountExceeded",), K.QUOTA, About.FAMILY, _minutes(5)),
    Rule(("MaxFleetCountExceeded", "MaxSpotFleetRequestCountExceeded"), K.QUOTA, About.REGION, _minutes(15)),
    Rule(
        (
            "VolumeLimitExceeded",
            "MaxIOPSLimitExceeded",
            "VolumeIOPSLimit",
            "SnapshotLimitExceeded",
            "NetworkInterfaceLimitExceeded",
            "AddressLimitExceeded",
            "SecurityGroupLimitExceeded",
            "RulesPerSecurityGroupLimitExceeded",
            "SecurityGroupsPerInterfaceLimitExceeded",
            "PlacementGroupLimitExceeded",
            "KeyPairLimitExceeded",
            "MaxTemplateLimitExceeded",
            "MaxTemplateVersionLimitExceeded",
            "TagLimitExceeded",
            "ResourceLimitExceeded",
            "AttachmentLimitExceeded",
        ),
        K.QUOTA,
        About.REGION,
        _minutes(30),
    ),
)

THROTTLED = (
    Rule(
        (
            "RequestLimitExceeded",
            "EC2ThrottledException",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "TooManyRequestsException",
            "SlowDown",
            "BandwidthLimitExceeded",
        ),
        K.THROTTLED,
        About.REGION,
    ),
    # Advice only: nothing is launched by these, and asking again at once would not help.
    Rule(("MaxConfigLimitExceededException", "MaxConfigLimitExceeded"), K.QUOTA, About.REGION, _hours(24)),
    Rule(
        (
            "TargetCapacityLimitExceededException",
            "TargetCapacityLimitExceeded",
            "CapacityBlockDescribeLimitExceeded",
        ),
        K.QUOTA,
        About.REGION,
        _hours(1),
    ),
    # Service Quotas: too many requests for more are open; one has to be decided first.
    Rule(("QuotaExceededException",), K.THROTTLED, About.REGION, _hours(1)),
)

AUTH = (
    Rule(
        ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"),
        K.AUTH,
        About.REGION_TYPE,
        _hours(6),
        hint="service control policy",
    ),
    Rule(
        (
            "UnauthorizedOperation",
            "AccessDenied",
            "AccessDeniedException",
            "DependencyAccessDeniedException",
        ),
        K.AUTH,
        About.REGION,
        _minutes(30),
    ),
    Rule(("AuthFailure",), K.IMAGE_MISSING, About.IMAGE, hint="not authorized for images"),
    Rule(("AuthFailure.ServiceLinkedRoleCreationNotPermitted",), K.AUTH, About.SPOT, _minutes(30)),
    # A wrong key, or a region that is not enabled: other regions tell the two apart by themselves.
    Rule(("AuthFailure",), K.AUTH, About.REGION, _minutes(30)),
    Rule(
        (
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            "IncompleteSignature",
            "MissingAuthenticationToken",
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidAccessKeyId",
        ),
        K.AUTH,
        About.ACCOUNT,
    ),
    Rule(
        (
            "RequestExpired",
            "InvalidSecurity.RequestHasExpired",
            "RequestTimeTooSkewed",
            "RequestInTheFuture",
        ),
        K.CLOCK_SKEW,
        About.ACCOUNT,
    ),
)

ACCOUNT = (
    Rule(("OptInRequired",), K.IMAGE_MISSING, About.IMAGE, _hours(1), hint="accept terms"),
    Rule(("OptInRequired",), K.ACCOUNT_BLOCKED, About.REGION, _hours(1)),
    Rule(("PendingVerification",), K.ACCOUNT_BLOCKED, About.REGION, _minutes(30)),
    Rule(("Blocked", "AccountDisabled"), K.ACCOUNT_BLOCKED, About.ACCOUNT, _hours(6)),
    Rule(
        ("InvalidParameterCombination",),
        K.ACCOUNT_BLOCKED,
        About.ACCOUNT,
        _hours(6),
        hint="not eligible for free tier",
    ),
)

UNSUPPORTED = (
    Rule(
        ("Unsupported", "InvalidParameterCombination"),
        K.UNSUPPORTED,
        About.ZONE_TYPE,
        _hours(24),
        hint="not supported in your requested availability zone",
    ),
    Rule(("Unsupported",), K.UNSUPPORTED, About.OFFER, _hours(6)),
    Rule(("InvalidAvailabilityZone", "InvalidZone.NotFound"), K.UNSUPPORTED, About.ZONE, _hours(24)),
    Rule(("VolumeTypeNotAvailableInZone",), K.UNSUPPORTED, About.ZONE, _hours(24)),
    Rule(
        ("InvalidInstanceType", "InvalidInstanceType.NotFound"),
        K.UNSUPPORTED,
        About.REGION_TYPE,
        _hours(24),
    ),
    Rule(("InvalidParameterValue",), K.UNSUPPORTED, About.REGION_TYPE, _hours(24), hint="instancetype"),
    Rule(("InvalidParameterValue",), K.UNSUPPORTED, About.REGION_TYPE, _hours(24), hint="instance type"),
)

MISSING = (
    Rule(
        (
            "InvalidAMIID.NotFound",
            "InvalidAMIID.Unavailable",
            "InvalidAMIID.Malformed",
            "InvalidAMIName.Malformed",
            "InvalidAMIName.Duplicate",
            "InvalidManifest",
            "InvalidSnapshot.NotFound",
            "ParameterNotFound",
        ),
        K.IMAGE_MISSING,
        About.IMAGE,
        _minutes(5),
    ),
    Rule(
        ("InvalidParameterValue",),
        K.NOT_FOUND,
        About.REGION,
        _minutes(1),
        hint="invalid iam instance profile",
    ),
    Rule(("InvalidPlacementGroup.Unknown",), K.NOT_FOUND, About.OFFER, _minutes(1)),
    Rule(
        ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"),
        K.NOT_FOUND,
        About.RESERVATION,
        _minutes(1),
    ),
    Rule(
        (
            "InvalidSubnet",
            "InvalidSubnetID.NotFound",
            "InvalidVpcID.NotFound",
            "InvalidGroup.NotFound",
            "InvalidSecurityGroupID.NotFound",
            "InvalidKeyPair.NotFound",
            "InvalidLaunchTemplateId.NotFound",
            "InvalidLaunchTemplateName.NotFoundException",
            "InvalidLaunchTemplateId.VersionNotFound",
            "InvalidNetworkInterfaceID.NotFound",
            "InvalidVolume.NotFound",
            "InvalidInstanceID.NotFound",
            "InvalidSpotInstanceRequestID.NotFound",
            "NoSuchEntity",
            "NoSuchResourceException",
        ),
        K.NOT_FOUND,
        About.REGION,
        _minutes(1),
    ),
)

CONFLICT = (
    Rule(("IdempotentParameterMismatch",), K.IDEMPOTENCY, About.OFFER, ambiguous=True),
    Rule(("IdempotentInstanceTerminated",), K.IDEMPOTENCY, About.OFFER, ended=True),
    Rule(
        (
            "IncorrectInstanceState",
            "IncorrectState",
            "InvalidInstanceState",
            "IncorrectSpotRequestState",
            "DependencyViolation",
            "InvalidGroup.InUse",
            "InvalidPlacementGroup.InUse",
            "VolumeInUse",
            "ConcurrentTagAccess",
            "OperationNotPermitted",
            "InvalidGroup.Duplicate",
            "InvalidPermission.Duplicate",
            "InvalidPlacementGroup.Duplicate",
            "InvalidKeyPair.Duplicate",
            "InvalidLaunchTemplateName.AlreadyExistsException",
            "EntityAlreadyExists",
            "InvalidResourceStateException",
            "ResourceAlreadyExistsException",
        ),
        K.CONFLICT,
        About.OFFER,
    ),
)

INVALID = (
    Rule(
        ("VPCIdNotSpecified", "DefaultVpcDoesNotExist", "MissingInput", "VPCResourceNotSpecified"),
        K.INVALID_REQUEST,
        About.REGION,
    ),
    Rule(("UnsupportedOperation",), K.INVALID_REQUEST, About.IMAGE_TYPE),
    Rule(
        (
            "UnsupportedException",
            "UnsupportedTenancy",
            "InvalidTenancy",
            "UnsupportedHostConfiguration",
            "InvalidLaunchTargets",
            "ResourceCountExceeded",
            "RequestResourceCountExceeded",
            "InvalidClientToken",
            "InvalidUserData.Malformed",
            "InvalidParameterValue",
            "InvalidParameterCombination",
            "InvalidParameterDependency",
            "InvalidParameter",
            "MissingParameter",
            "UnknownParameter",
            "ValidationError",
            "ValidationException",
            "InvalidRequest",
            "InvalidInput",
            "InvalidBlockDeviceMapping",
            "InvalidTagKey.Malformed",
            "TagPolicyViolation",
            "InvalidFilter",
            "InvalidNextToken",
            "InvalidPaginationTokenException",
            "IllegalArgumentException",
            "EncryptedVolumesNotSupported",
            "ClientInvalidParameterValue",
            "InvalidInstanceID.Malformed",
            "InvalidSubnetID.Malformed",
            "InvalidGroupId.Malformed",
        ),
        K.INVALID_REQUEST,
        About.OFFER,
    ),
)

SERVER = (
    Rule(
        (
            "InternalError",
            "InternalFailure",
            "ServerInternal",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "Unavailable",
            "RetryableError",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServiceException",
        ),
        K.TRANSIENT,
        About.ZONE,
        _minutes(2),
        ambiguous=True,
    ),
)

RULES: tuple[Rule, ...] = (
    *CAPACITY,
    *QUOTA,
    *THROTTLED,
    *AUTH,
    *ACCOUNT,
    *UNSUPPORTED,
    *MISSING,
    *CONFLICT,
    *INVALID,
    *SERVER,
)

BY_CODE: dict[str, tuple[Rule, ...]] = {
    code: tuple(rule for rule in RULES if code in rule.codes)
    for code in sorted({code for rule in RULES for code in rule.codes})
}

# Neither known nor malformed: a refusal (4xx) made nothing; after a 5xx nobody knows. [Common to the
# Query APIs: 4xx is "the request was refused", 5xx "the server failed to tell".]
UNKNOWN_REFUSAL = Rule((), K.UNKNOWN, About.OFFER)
UNKNOWN_FAILURE = Rule((), K.TRANSIENT, About.ZONE, _minutes(2), ambiguous=True)
MALFORMED = Rule((), K.INVALID_REQUEST, About.OFFER)
