"""What Compute Engine's error codes mean: code -> kind, what it says something about, for how long.

Codes of operations (UPPER_CASE) and reasons of HTTP errors (camelCase, or UPPER_CASE from ErrorInfo) are told
apart by their spelling. Sources: the Compute Engine discovery document (Operation.error), the API's error and
troubleshooting pages, and public reports of what was seen in operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from providers.errors import ErrorKind as K


class About(Enum):
    """The offers that an error says something about."""

    POOL = auto()  # instance type × capacity type × zone
    TYPE_IN_ZONE = auto()
    TYPE_IN_REGION = auto()
    TYPE = auto()  # the request as built for this type, wherever it is sent
    ZONE = auto()
    ACCOUNT = auto()
    SUBNET = auto()
    IMAGE = auto()
    RESERVATION = auto()  # the one that the launch names, else the pool
    METRIC = auto()  # what the quota's metric counts


@dataclass(frozen=True, slots=True)
class Rule:
    """minutes: how long the scope is worth avoiding at first; None is the kind's own time. on_demand_minutes:
    the same for on-demand capacity where it is longer. ambiguous: an instance may exist all the same.
    """

    kind: K
    about: About
    minutes: float | None = None
    on_demand_minutes: float | None = None
    ambiguous: bool = False


_STOCK_OUT = Rule(K.CAPACITY, About.POOL, 5, 10)
_QUOTA = Rule(K.QUOTA, About.METRIC, 10)
_THROTTLED = Rule(K.THROTTLED, About.ACCOUNT)
_AUTH = Rule(K.AUTH, About.ACCOUNT, 15)
_SIGNED_OUT = Rule(K.AUTH, About.ACCOUNT, 5)
_BLOCKED = Rule(K.ACCOUNT_BLOCKED, About.ACCOUNT, 30)
_INVALID = Rule(K.INVALID_REQUEST, About.TYPE)
_ORG_POLICY = Rule(K.INVALID_REQUEST, About.ACCOUNT)
_SERVER = Rule(K.TRANSIENT, About.ZONE, ambiguous=True)
_BUSY = Rule(K.TRANSIENT, About.ZONE, 1)
_NOT_SOLD_HERE = Rule(K.UNSUPPORTED, About.TYPE_IN_ZONE)
_NOT_SOLD_SO = Rule(K.UNSUPPORTED, About.TYPE_IN_REGION)
_IMAGE = Rule(K.IMAGE_MISSING, About.IMAGE)
_SUBNET_FULL = Rule(K.CAPACITY, About.SUBNET, 0.5)
_EXISTS = Rule(K.IDEMPOTENCY, About.TYPE, ambiguous=True)
_RESERVATION_FULL = Rule(K.CAPACITY, About.RESERVATION, 5)
_NO_RESERVATION = Rule(K.INVALID_REQUEST, About.RESERVATION)
_IN_USE = Rule(K.CONFLICT, About.TYPE, 0.5)

UNKNOWN = Rule(K.UNKNOWN, About.ZONE, 5, ambiguous=True)
NOT_SENT = Rule(K.TRANSIENT, About.ACCOUNT)
UNANSWERED = Rule(K.TRANSIENT, About.ZONE, ambiguous=True)
SIGNED_OUT = _SIGNED_OUT
ROLLOUT = Rule(K.QUOTA, About.METRIC, 5)  # the higher limit is granted and on its way

# Says only that a bulk insert was all or nothing; the cause stands beside it or in its child operations.
NEUTRAL = "VM_MIN_COUNT_NOT_REACHED"

CODES: dict[str, Rule] = {
    # capacity
    "ZONE_RESOURCE_POOL_EXHAUSTED": _STOCK_OUT,
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": _STOCK_OUT,
    "RESOURCE_POOL_EXHAUSTED": _STOCK_OUT,
    "STOCKOUT": _STOCK_OUT,
    "GPU_STOCKOUT": _STOCK_OUT,
    "resource_availability": _STOCK_OUT,
    "insufficientCapacity": _STOCK_OUT,
    "REGION_RESOURCE_POOL_EXHAUSTED": Rule(K.CAPACITY, About.TYPE_IN_REGION, 15),
    NEUTRAL: Rule(K.CAPACITY, About.POOL, 5),
    # seen when a spot instance is preempted while it is being created
    "UNSUPPORTED_OPERATION": Rule(K.CAPACITY, About.POOL, 10, ambiguous=True),
    "CPU_PLATFORM_MISMATCH": _RESERVATION_FULL,
    "IP_SPACE_EXHAUSTED": _SUBNET_FULL,
    "IP_SPACE_EXHAUSTED_WITH_DETAILS": _SUBNET_FULL,
    # quota
    "QUOTA_EXCEEDED": _QUOTA,
    "LIMIT_EXCEEDED": _QUOTA,
    "quotaExceeded": _QUOTA,
    # throttled
    "rateLimitExceeded": _THROTTLED,
    "userRateLimitExceeded": _THROTTLED,
    "RATE_LIMIT_EXCEEDED": _THROTTLED,
    "RESOURCE_EXHAUSTED": _THROTTLED,
    "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED": Rule(K.THROTTLED, About.ACCOUNT, 1),
    "RESOURCE_OPERATION_RATE_EXCEEDED": Rule(K.THROTTLED, About.IMAGE, 1),
    # credentials and permissions
    "authError": _SIGNED_OUT,
    "UNAUTHENTICATED": _SIGNED_OUT,
    "ACCESS_TOKEN_EXPIRED": _SIGNED_OUT,
    "forbidden": _AUTH,
    "PERMISSION_DENIED": _AUTH,
    "IAM_PERMISSION_DENIED": _AUTH,
    "PERMISSIONS_ERROR": _AUTH,
    "SERVICE_ACCOUNT_ACCESS_DENIED": _AUTH,
    # the project itself
    "accessNotConfigured": Rule(K.ACCOUNT_BLOCKED, About.ACCOUNT, 15),
    "SERVICE_DISABLED": Rule(K.ACCOUNT_BLOCKED, About.ACCOUNT, 15),
    "BILLING_DISABLED": _BLOCKED,
    "UREQ_PROJECT_BILLING_NOT_FOUND": _BLOCKED,
    "CONSUMER_SUSPENDED": _BLOCKED,
    "CONSUMER_INVALID": _BLOCKED,
    # the request
    "invalid": _INVALID,
    "required": _INVALID,
    "badRequest": _INVALID,
    "invalidParameter": _INVALID,
    "INVALID_FIELD_VALUE": _INVALID,
    "INVALID_USAGE": _INVALID,
    "CONDITION_NOT_MET": _ORG_POLICY,
    "conditionNotMet": _ORG_POLICY,
    # what exists or does not
    "alreadyExists": _EXISTS,
    "RESOURCE_ALREADY_EXISTS": _EXISTS,
    "notFound": Rule(K.NOT_FOUND, About.TYPE_IN_ZONE),
    # an instance was found running after this one
    "RESOURCE_NOT_FOUND": Rule(K.TRANSIENT, About.POOL, 5, ambiguous=True),
    "conflict": Rule(K.CONFLICT, About.TYPE, 0.5, ambiguous=True),
    "CONFLICT": Rule(K.CONFLICT, About.TYPE, 0.5, ambiguous=True),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": _IN_USE,
    "resourceInUseByAnotherResource": _IN_USE,
    "RESOURCE_NOT_READY": _BUSY,
    "resourceNotReady": _BUSY,
    "operationInProgress": _BUSY,
    # the vendor's own trouble
    "internalError": _SERVER,
    "backendError": _SERVER,
    "INTERNAL_ERROR": _SERVER,
}

# Codes that say little by themselves: their message is looked at first.
GENERIC = frozenset(
    {
        "",
        "invalid",
        "badRequest",
        "invalidParameter",
        "forbidden",
        "notFound",
        "conflict",
        "quotaExceeded",
        "conditionNotMet",
        "CONDITION_NOT_MET",
        "INVALID_FIELD_VALUE",
        "INVALID_USAGE",
        "PERMISSION_DENIED",
        "RESOURCE_NOT_FOUND",
        "backendError",
    }
)

# The first pattern found in the message wins.
MESSAGES: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), rule)
    for pattern, rule in (
        (r"quota metric .* per (minute|second|day)|rate ?limit exceeded", _THROTTLED),
        (r"quota '[A-Z0-9_]+' exceeded", _QUOTA),
        (r"requires billing to be enabled|billing account .* (closed|disabled)", _BLOCKED),
        (r"has not been used in project .* before or it is disabled", CODES["SERVICE_DISABLED"]),
        (r"images\.useReadOnly", Rule(K.AUTH, About.IMAGE, 15)),
        (r"required '?compute\.|permission", _AUTH),
        (r"failed to find project|The resource 'projects/[^/']+' was not found", _AUTH),
        # operations with CONDITION_NOT_MET, as the cluster autoscaler tells them apart
        (r"reservation.* does not have available resources", _RESERVATION_FULL),
        (r"no available resources in specified reservations?", _RESERVATION_FULL),
        (r"cannot insert instance to a reservation with status", Rule(K.CAPACITY, About.RESERVATION, 1)),
        (r"specified reservations? .* do(es)? not exist", _NO_RESERVATION),
        (r"the reservation must exist in the same project", _NO_RESERVATION),
        (r"reservations/[^']*' was not found", _NO_RESERVATION),
        (r"constraint constraints/", _ORG_POLICY),
        (r"invalid fingerprint", _BUSY),
        (r"referenced image resource cannot be found", _IMAGE),
        (r"/global/images/[^']*' was not found", _IMAGE),
        (r"machine type with name .* does not exist in zone", _NOT_SOLD_HERE),
        (r"(machineTypes|acceleratorTypes)/[^']*'?.*(not found|does not exist)", _NOT_SOLD_HERE),
        (r"does not support .*provisioning model|provisioning model .* not supported", _NOT_SOLD_SO),
        (r"network profile only allows resource creation in location", _NOT_SOLD_HERE),
        (r"location .* is not found or access is unauthorized", _NOT_SOLD_HERE),
        (r"(subnetworks|networks)/[^']*' was not found", Rule(K.INVALID_REQUEST, About.SUBNET)),
        (r"referenced (sub)?network resource cannot be found", Rule(K.INVALID_REQUEST, About.SUBNET)),
        (r"resourcePolicies/[^']*' was not found", _INVALID),
        (r"is already being used by", _IN_USE),
        (r"state:STOCKOUT|does not have enough resources available", _STOCK_OUT),
        (r"is currently unavailable in the .* zone", _STOCK_OUT),
    )
)

# Where neither code nor message is known: the HTTP status of the call ...
STATUS: dict[int, Rule] = {
    400: _INVALID,
    401: _SIGNED_OUT,
    403: _AUTH,
    404: CODES["notFound"],
    409: CODES["conflict"],
    412: _ORG_POLICY,
    413: _INVALID,
    429: _THROTTLED,
    500: _SERVER,
    502: _SERVER,
    503: _SERVER,
    504: _SERVER,
}

# ... or of the operation, where 503 has been a stock-out and not an outage.
OPERATION_STATUS: dict[int, Rule] = STATUS | {503: _STOCK_OUT, 404: CODES["RESOURCE_NOT_FOUND"]}

# Which of several errors is the cause: the first kind that occurs.
PRECEDENCE: tuple[K, ...] = (
    K.ACCOUNT_BLOCKED,
    K.AUTH,
    K.QUOTA,
    K.IMAGE_MISSING,
    K.UNSUPPORTED,
    K.INVALID_REQUEST,
    K.IDEMPOTENCY,
    K.CAPACITY,
    K.THROTTLED,
    K.NOT_FOUND,
    K.CONFLICT,
    K.TRANSIENT,
    K.UNKNOWN,
)

# Quotas that hold for the whole project.
GLOBAL_METRICS = frozenset({"GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS"})
