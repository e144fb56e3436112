"""What Compute Engine's errors mean: bodies as they were reported or as the API's documents show them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.protobuf.json_format import ParseError  # type: ignore[import-untyped]
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError

from providers.errors import ErrorKind as K
from providers.errors import ProviderError
from providers.gcp.error_table import CODES, MESSAGES, PRECEDENCE
from providers.gcp.errors import Where, of_answer, of_exception, of_operation
from providers.gcp.sdk import load_slim
from providers.vocabulary import CapacityType

NOW = datetime(2026, 3, 1, 12, 0, 20, tzinfo=UTC)
ZONE, REGION, TYPE = "us-central1-a", "us-central1", "a3-highgpu-8g"
FAMILY = "NVIDIA_H100"
POOL = {"zone": ZONE, "instance_type": TYPE, "capacity_type": "spot"}
ACCOUNT: dict[str, str] = {}
IN_REGION = {"region": REGION}

# The stock-out as cockroach, jenkins and dstack users reported it.
STOCK_OUT = {
    "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "message": "The zone 'projects/p/zones/us-central1-a' does not have enough resources available to "
    "fulfill the request.  '(resource type:compute)'.",
    "errorDetails": [
        {"help": {"links": [{"description": "Troubleshooting", "url": "https://cloud.google.com/x"}]}},
        {
            "localizedMessage": {
                "locale": "en-US",
                "message": "A a3-highgpu-8g VM instance is currently unavailable in the us-central1-a zone.",
            }
        },
        {
            "errorInfo": {
                "reason": "resource_availability",
                "domain": "compute.googleapis.com",
                "metadatas": {"vmType": "a3-highgpu-8g", "zone": ZONE, "zonesAvailable": "us-central1-f"},
            }
        },
    ],
}


def where(capacity_type: CapacityType = CapacityType.SPOT, **more: str) -> Where:
    fields: dict[str, Any] = {"region": REGION, "zone": ZONE, "instance_type": TYPE, "family": FAMILY}
    return Where("lab", capacity_type=capacity_type, subnet="sub", image="img", **(fields | more))


def operation(*errors: dict[str, Any], http: int | None = 503, text: str = "SERVICE UNAVAILABLE") -> Any:
    """An operation that is done, as the SDK parses it."""
    load_slim()
    from google.cloud.compute_v1.types import Operation

    body: dict[str, Any] = {"name": "operation-1", "status": "DONE"}
    if errors:
        body["error"] = {"errors": list(errors)}
    if http:
        body |= {"httpErrorStatusCode": http, "httpErrorMessage": text}
    return Operation.from_json(json.dumps(body), ignore_unknown_fields=True)


def quota(name: str, text: str, **info: Any) -> dict[str, Any]:
    """A QUOTA_EXCEEDED, with quotaInfo if any of its fields is given."""
    details = [{"quotaInfo": info}] if info else []
    message = f"Quota '{name}' exceeded.  {text}"
    return {"code": "QUOTA_EXCEEDED", "message": message, "errorDetails": details}


def plain(code: str, message: str = "no words") -> dict[str, Any]:
    return {"code": code, "message": message}


def answer(status: int, reason: str = "", message: str = "no words", **more: Any) -> Exception:
    """An HTTP answer as the SDK raises it."""
    response = requests.Response()
    response.status_code = status
    response.headers.update(more.pop("headers", {}))
    response.headers["content-type"] = "application/json"
    response.request = requests.Request(
        "POST", "https://compute.googleapis.com/compute/v1/projects/p"
    ).prepare()
    items = [{"domain": "global", "reason": reason, "message": message}] if reason else []
    body = {"error": {"code": status, "message": message, "errors": items, **more}}
    response._content = json.dumps(body).encode()
    raised: Exception = api.from_http_response(response)  # type: ignore[no-untyped-call]
    return raised


def info(reason: str) -> list[dict[str, Any]]:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    return [{"@type": kind, "reason": reason, "domain": "googleapis.com", "metadata": {"service": "compute"}}]


FAILED_OPERATIONS: list[Any] = [
    (K.CAPACITY, POOL, 5, [STOCK_OUT]),
    (K.CAPACITY, POOL, 5, [plain("ZONE_RESOURCE_POOL_EXHAUSTED")]),
    (K.CAPACITY, POOL, 5, [plain("RESOURCE_POOL_EXHAUSTED")]),
    (K.CAPACITY, POOL, 5, [plain("STOCKOUT")]),
    (K.CAPACITY, POOL, 5, [plain("SOMETHING_NEW", "state:STOCKOUT, the zone is full")]),
    (
        K.CAPACITY,
        {"region": REGION, "instance_type": TYPE, "capacity_type": "spot"},
        15,
        [plain("REGION_RESOURCE_POOL_EXHAUSTED")],
    ),
    (K.CAPACITY, POOL, 5, [plain("VM_MIN_COUNT_NOT_REACHED")]),
    (K.CAPACITY, POOL, 5, [plain("VM_MIN_COUNT_NOT_REACHED"), STOCK_OUT]),
    (K.CAPACITY, {"region": REGION, "subnet": "sub"}, 0.5, [plain("IP_SPACE_EXHAUSTED_WITH_DETAILS")]),
    (
        K.QUOTA,
        {"region": REGION, "family": "NVIDIA_L4", "capacity_type": "spot"},
        10,
        [quota("PREEMPTIBLE_NVIDIA_L4_GPUS", "Limit: 1.0 in region us-central1.")],
    ),
    # Without preemptible quota Spot is counted by the standard metric: both are used up.
    (
        K.QUOTA,
        {"region": REGION, "family": "NVIDIA_L4"},
        10,
        [quota("NVIDIA_L4_GPUS", "Limit: 1.0 in region us-central1.")],
    ),
    (
        K.QUOTA,
        {"region": "us-east4", "family": "NVIDIA_H200"},
        10,
        [
            quota(
                "GPUS_PER_GPU_FAMILY",
                "Limit: 0.0 in region us-east4.",
                metricName="compute.googleapis.com/gpus_per_gpu_family",
                limitName="GPUS-PER-GPU-FAMILY-per-project-region",
                dimensions={"region": "us-east4", "gpu_family": "NVIDIA_H200"},
                limit=0,
            )
        ],
    ),
    (K.QUOTA, ACCOUNT, 10, [quota("GPUS_ALL_REGIONS", "Limit: 0.0 globally.")]),
    (K.QUOTA, ACCOUNT, 10, [quota("CPUS_ALL_REGIONS", "Limit: 12.0 globally.")]),
    (K.QUOTA, IN_REGION, 10, [quota("SSD_TOTAL_GB", "Limit: 500.0 in region us-central1.")]),
    # The first code hides the cause (a boot disk over its quota).
    (
        K.QUOTA,
        IN_REGION,
        10,
        [plain("VM_MIN_COUNT_NOT_REACHED"), quota("SSD_TOTAL_GB", "Limit: 500.0 in region us-central1.")],
    ),
    # A higher limit is granted and on its way: worth another try soon.
    (
        K.QUOTA,
        {"region": REGION, "family": FAMILY, "capacity_type": "spot"},
        5,
        [
            quota(
                "PREEMPTIBLE_NVIDIA_H100_GPUS",
                "Limit: 8.0 in region us-central1.",
                metricName="compute.googleapis.com/preemptible_nvidia_h100_gpus",
                dimensions={"region": REGION},
                limit=8,
                futureLimit=16,
                rolloutStatus="IN_PROGRESS",
            )
        ],
    ),
    (K.QUOTA, {"region": REGION, "family": FAMILY, "capacity_type": "spot"}, 10, [plain("QUOTA_EXCEEDED")]),
    # Several causes: quota before capacity, permission before either.
    (K.QUOTA, ACCOUNT, 10, [STOCK_OUT, quota("GPUS_ALL_REGIONS", "Limit: 0.0 globally.")]),
    (
        K.AUTH,
        ACCOUNT,
        15,
        [STOCK_OUT, plain("PERMISSIONS_ERROR", "Required 'compute.disks.create' permission")],
    ),
    (K.AUTH, ACCOUNT, 15, [plain("SERVICE_ACCOUNT_ACCESS_DENIED")]),
    (K.THROTTLED, {"region": REGION, "image": "img"}, 1, [plain("RESOURCE_OPERATION_RATE_EXCEEDED")]),
    (
        K.INVALID_REQUEST,
        ACCOUNT,
        None,
        [plain("CONDITION_NOT_MET", "Constraint constraints/compute.x violated")],
    ),
    (K.INVALID_REQUEST, {"instance_type": TYPE}, None, [plain("INVALID_USAGE", "bad")]),
    (
        K.UNSUPPORTED,
        {"zone": ZONE, "instance_type": TYPE},
        None,
        [
            plain(
                "INVALID_USAGE",
                "Network profile only allows resource creation in location us-central1-b, not us-central1-a",
            )
        ],
    ),
    (K.TRANSIENT, {"region": REGION, "zone": ZONE}, 1, [plain("RESOURCE_NOT_READY")]),
]

AMBIGUOUS_OPERATIONS: list[Any] = [
    # Seen when Spot is preempted while it is being created.
    (K.CAPACITY, POOL, 10, [plain("UNSUPPORTED_OPERATION")], 400),
    # The instance was alive.
    (K.TRANSIENT, POOL, 5, [plain("RESOURCE_NOT_FOUND")], 404),
    (K.TRANSIENT, {"region": REGION, "zone": ZONE}, None, [plain("INTERNAL_ERROR")], 500),
    (K.IDEMPOTENCY, {"instance_type": TYPE}, None, [plain("RESOURCE_ALREADY_EXISTS")], 409),
    # Deleted while it was being created: the operation has no error, only a status.
    (K.CONFLICT, {"instance_type": TYPE}, 0.5, [], 409),
    (K.UNKNOWN, {"region": REGION, "zone": ZONE}, 5, [plain("A_CODE_OF_TOMORROW")], 503),
]


@pytest.mark.parametrize(("kind", "scope", "minutes", "errors"), FAILED_OPERATIONS)
def test_a_failed_operation_says_what_went_wrong_and_for_which_offers(
    kind: K, scope: dict[str, str], minutes: float | None, errors: list[dict[str, Any]]
) -> None:
    error = of_operation([operation(*errors)], where(), NOW)
    assert error is not None
    check(error, kind, scope, minutes)
    assert not error.ambiguous


@pytest.mark.parametrize(("kind", "scope", "minutes", "errors", "http"), AMBIGUOUS_OPERATIONS)
def test_where_an_instance_may_exist_all_the_same_the_error_is_ambiguous(
    kind: K, scope: dict[str, str], minutes: float | None, errors: list[dict[str, Any]], http: int
) -> None:
    error = of_operation([operation(*errors, http=http)], where(), NOW)
    assert error is not None
    check(error, kind, scope, minutes)
    assert error.ambiguous


def test_an_error_without_an_http_status_is_a_failure_too() -> None:
    error = of_operation([operation(STOCK_OUT, http=None)], where(), NOW)
    assert error is not None
    assert error.kind is K.CAPACITY


def test_a_status_of_503_in_an_operation_is_a_stock_out_and_no_outage() -> None:
    error = of_operation([operation()], where(), NOW)
    assert error is not None
    assert error.kind is K.CAPACITY


def test_an_operation_that_went_well_or_goes_on_is_no_error() -> None:
    running = operation(STOCK_OUT)
    running.status = "RUNNING"
    assert of_operation([operation(http=None)], where(), NOW) is None
    assert of_operation([running], where(), NOW) is None
    assert of_operation([], where(), NOW) is None


def test_a_bulk_inserts_cause_is_found_in_its_children() -> None:
    parent = operation(plain("VM_MIN_COUNT_NOT_REACHED"))
    child = operation(quota("NVIDIA_H100_GPUS", "Limit: 8.0 in region us-central1."))
    error = of_operation([parent, child], where(), NOW)
    assert error is not None
    check(error, K.QUOTA, {"region": REGION, "family": FAMILY}, 10)


def test_a_stock_out_is_avoided_longer_on_demand_than_on_spot() -> None:
    error = of_operation([operation(STOCK_OUT)], where(CapacityType.ON_DEMAND), NOW)
    assert error is not None
    check(error, K.CAPACITY, POOL | {"capacity_type": "on_demand"}, 10)


def test_standard_quota_that_refuses_on_demand_says_nothing_of_spot() -> None:
    failed = operation(quota("NVIDIA_L4_GPUS", "Limit: 1.0 in region us-central1."))
    error = of_operation([failed], where(CapacityType.ON_DEMAND), NOW)
    assert error is not None
    check(error, K.QUOTA, {"region": REGION, "family": "NVIDIA_L4", "capacity_type": "on_demand"}, 10)


def test_the_message_leads_on_code_operation_and_the_zones_that_have_stock() -> None:
    error = of_operation([operation(STOCK_OUT)], where(), NOW)
    assert str(error).startswith("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone")
    assert "Available in: us-central1-f." in str(error)
    assert "operation-1" in str(error)


def test_a_type_that_is_not_known_any_more_is_taken_from_the_error() -> None:
    forgetful = Where("lab", REGION, ZONE, capacity_type=CapacityType.SPOT)
    error = of_operation([operation(STOCK_OUT)], forgetful, NOW)
    assert error is not None
    check(error, K.CAPACITY, POOL, 5)


REFUSED_CALLS: list[Any] = [
    (K.CAPACITY, POOL, 5, answer(503, "insufficientCapacity")),
    (
        K.QUOTA,
        {"region": REGION, "family": "NVIDIA_T4", "capacity_type": "spot"},
        10,
        answer(
            403,
            "quotaExceeded",
            "Quota 'PREEMPTIBLE_NVIDIA_T4_GPUS' exceeded.  Limit: 4.0 in region us-central1.",
        ),
    ),
    (K.THROTTLED, ACCOUNT, None, answer(403, "rateLimitExceeded", "Rate Limit Exceeded")),
    (K.THROTTLED, ACCOUNT, None, answer(403, "userRateLimitExceeded")),
    (K.THROTTLED, ACCOUNT, None, answer(429, "rateLimitExceeded")),
    (K.THROTTLED, ACCOUNT, None, answer(429)),
    (
        K.THROTTLED,
        ACCOUNT,
        None,
        answer(
            403,
            "quotaExceeded",
            "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute'.",
        ),
    ),
    (K.THROTTLED, ACCOUNT, 1, answer(403, "forbidden", details=info("CONCURRENT_OPERATIONS_QUOTA_EXCEEDED"))),
    (K.THROTTLED, ACCOUNT, None, answer(403, "forbidden", details=info("RATE_LIMIT_EXCEEDED"))),
    (K.AUTH, ACCOUNT, 5, answer(401, "authError", "Invalid Credentials")),
    (K.AUTH, ACCOUNT, 5, answer(401)),
    (
        K.AUTH,
        ACCOUNT,
        15,
        answer(403, "forbidden", "Required 'compute.instances.create' permission for 'projects/p/zones/z/i'"),
    ),
    (
        K.AUTH,
        {"region": REGION, "image": "img"},
        15,
        answer(
            403,
            "forbidden",
            "Required 'compute.images.useReadOnly' permission for 'projects/p/global/images/i'",
        ),
    ),
    (K.AUTH, ACCOUNT, 15, answer(404, "notFound", "The resource 'projects/nosuch' was not found")),
    (K.ACCOUNT_BLOCKED, ACCOUNT, 15, answer(403, "accessNotConfigured", "It is disabled.")),
    (K.ACCOUNT_BLOCKED, ACCOUNT, 15, answer(403, "forbidden", details=info("SERVICE_DISABLED"))),
    (K.ACCOUNT_BLOCKED, ACCOUNT, 30, answer(403, "forbidden", details=info("BILLING_DISABLED"))),
    (
        K.ACCOUNT_BLOCKED,
        ACCOUNT,
        30,
        answer(403, "forbidden", "This API method requires billing to be enabled."),
    ),
    (
        K.INVALID_REQUEST,
        ACCOUNT,
        None,
        answer(412, "conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated for p"),
    ),
    (
        K.TRANSIENT,
        {"region": REGION, "zone": ZONE},
        1,
        answer(412, "conditionNotMet", "Invalid fingerprint."),
    ),
    (
        K.INVALID_REQUEST,
        {"instance_type": TYPE},
        None,
        answer(400, "invalid", "Invalid value for field 'x'."),
    ),
    (K.INVALID_REQUEST, {"instance_type": TYPE}, None, answer(400, "required", "Required field missing")),
    (
        K.INVALID_REQUEST,
        {"region": REGION, "subnet": "sub"},
        None,
        answer(404, "notFound", "The resource 'projects/p/regions/r/subnetworks/x' was not found"),
    ),
    (
        K.UNSUPPORTED,
        {"zone": ZONE, "instance_type": TYPE},
        None,
        answer(
            400,
            "invalid",
            "Invalid value for field 'resource.machineType': 'zones/z/machineTypes/x'. Machine type with "
            "name 'x' does not exist in zone 'z'.",
        ),
    ),
    (
        K.UNSUPPORTED,
        {"zone": ZONE, "instance_type": TYPE},
        None,
        answer(404, "notFound", "The resource 'projects/p/zones/z/acceleratorTypes/nvidia-l4' was not found"),
    ),
    (
        K.UNSUPPORTED,
        {"zone": ZONE, "instance_type": TYPE},
        None,
        answer(403, "forbidden", "Location us-central1-q is not found or access is unauthorized."),
    ),
    (
        K.IMAGE_MISSING,
        {"region": REGION, "image": "img"},
        None,
        answer(
            400,
            "invalid",
            "Invalid value for field 'resource.disks[0].initializeParams.sourceImage': 'x'. The referenced "
            "image resource cannot be found.",
        ),
    ),
    (
        K.NOT_FOUND,
        {"zone": ZONE, "instance_type": TYPE},
        None,
        answer(404, "notFound", "The resource 'a/b' was lost"),
    ),
    (
        K.CONFLICT,
        {"instance_type": TYPE},
        0.5,
        answer(400, "resourceInUseByAnotherResource", "x is already being used by y"),
    ),
    (K.TRANSIENT, {"region": REGION, "zone": ZONE}, 1, answer(400, "resourceNotReady")),
    (K.TRANSIENT, {"region": REGION, "zone": ZONE}, 1, answer(409, "operationInProgress")),
]


@pytest.mark.parametrize(("kind", "scope", "minutes", "raised"), REFUSED_CALLS)
def test_a_refused_call_says_what_went_wrong_and_for_which_offers(
    kind: K, scope: dict[str, str], minutes: float | None, raised: Exception
) -> None:
    error = of_exception(raised, where(), NOW)
    check(error, kind, scope, minutes)
    assert not error.ambiguous


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (K.IDEMPOTENCY, answer(409, "alreadyExists", "The resource 'x' already exists")),
        (K.TRANSIENT, answer(500, "internalError")),
        (K.TRANSIENT, answer(502)),
        (
            K.TRANSIENT,
            answer(503, "backendError", "Visibility check was unavailable. Please retry the request"),
        ),
        (K.TRANSIENT, answer(504)),
        (K.TRANSIENT, requests.exceptions.ReadTimeout("no answer in 45 s")),
        (
            K.TRANSIENT,
            requests.exceptions.ConnectionError(ProtocolError("Connection aborted.", OSError(104))),
        ),
        (K.TRANSIENT, requests.exceptions.ChunkedEncodingError("broken off")),
        (K.TRANSIENT, ParseError("a page of HTML with status 200")),
        (K.UNKNOWN, RuntimeError("never thought of")),
    ],
)
def test_a_call_that_may_have_had_its_effect_is_ambiguous(kind: K, raised: Exception) -> None:
    error = of_exception(raised, where(), NOW)
    assert error.kind is kind
    assert error.ambiguous


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        (K.TRANSIENT, requests.exceptions.ConnectTimeout("cannot connect")),
        (
            K.TRANSIENT,
            requests.exceptions.ConnectionError(
                MaxRetryError(None, "/", NewConnectionError(None, "refused"))  # type: ignore[arg-type]
            ),
        ),
        (K.TRANSIENT, auth.TransportError("the token server is away")),  # type: ignore[no-untyped-call]
        (K.AUTH, auth.RefreshError("invalid_grant: Account not found")),  # type: ignore[no-untyped-call]
        (K.AUTH, auth.DefaultCredentialsError("could not be determined")),  # type: ignore[no-untyped-call]
    ],
)
def test_a_call_that_was_never_sent_is_not_ambiguous(kind: K, raised: Exception) -> None:
    error = of_exception(raised, where(), NOW)
    assert error.kind is kind
    assert not error.ambiguous


def test_the_last_error_of_a_spent_retry_budget_counts() -> None:
    raised = api.RetryError("gave up", answer(403, "rateLimitExceeded"))  # type: ignore[no-untyped-call]
    assert of_exception(raised, where(), NOW).kind is K.THROTTLED


def test_throttling_lasts_until_the_next_full_minute_unless_the_answer_says_else() -> None:
    # Rate quotas are refilled at each full minute.
    assert of_exception(answer(403, "rateLimitExceeded"), where(), NOW).retry_after == 40
    told = answer(429, "rateLimitExceeded", headers={"Retry-After": "7"})
    assert of_exception(told, where(), NOW).retry_after == 7


def test_a_html_page_is_a_server_error() -> None:
    response = requests.Response()
    response.status_code = 502
    response._content = b"<!DOCTYPE html><title>Error 502</title>"
    response.request = requests.Request("GET", "https://compute.googleapis.com/").prepare()
    raised = api.from_http_response(response)  # type: ignore[no-untyped-call]
    error = of_exception(raised, where(), NOW)
    assert (error.kind, error.code) == (K.TRANSIENT, "HTTP 502")


def test_answers_of_apis_without_the_sdk_are_read_by_the_same_table() -> None:
    body = {"error": {"code": 403, "message": "no", "details": info("SERVICE_DISABLED")}}
    assert of_answer(403, json.dumps(body).encode(), where(), NOW).kind is K.ACCOUNT_BLOCKED
    assert of_answer(502, b"<html>", where(), NOW).kind is K.TRANSIENT


def test_long_messages_are_cut() -> None:
    error = of_exception(answer(400, "invalid", "x" * 5000), where(), NOW)
    assert len(str(error)) < 800


def test_every_rule_has_a_place_in_the_order_of_causes() -> None:
    kinds = {rule.kind for rule in CODES.values()} | {rule.kind for _, rule in MESSAGES}
    assert kinds <= set(PRECEDENCE)
    assert len(PRECEDENCE) == len(set(PRECEDENCE))


def check(error: ProviderError, kind: K, scope: dict[str, str], minutes: float | None) -> None:
    """The error's kind, the fields of its scope beside provider and account, and how long it is avoided."""
    assert error.kind is kind, str(error)
    assert error.scope.given() == {"provider": "gcp", "account": "lab"} | scope
    assert error.avoid_for == (None if minutes is None else timedelta(minutes=minutes))
    assert error.code


def test_the_zones_that_a_stock_out_names_are_a_signal() -> None:
    error = of_operation([operation(STOCK_OUT)], where(), NOW)
    assert error is not None
    (said,) = error.available
    assert (said.zone, said.instance_type, said.capacity_type) == ("us-central1-f", TYPE, CapacityType.SPOT)
