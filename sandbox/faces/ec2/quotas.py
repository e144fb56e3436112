"""Service Quotas on the EC2 face: the vCPU limits of a region, and requests for more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import page
from sandbox.faces.ec2.site import ACCOUNT
from sandbox.quota_reviews import QuotaRequest

# Service Quotas, Amazon EC2: the market's quota -> (code, name, class of the AWS/Usage metric).
_QUOTAS = {
    "Standard/on_demand": (
        "L-1216C47A",
        "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
        "Standard/OnDemand",
    ),
    "Standard/spot": (
        "L-34B43A08",
        "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
        "Standard/Spot",
    ),
    "G/on_demand": ("L-DB2E81BA", "Running On-Demand G and VT instances", "G/OnDemand"),
    "G/spot": ("L-3819A6DF", "All G and VT Spot Instance Requests", "G/Spot"),
    "P/on_demand": ("L-417A185B", "Running On-Demand P instances", "P/OnDemand"),
    "P/spot": ("L-7212CCBC", "All P Spot Instance Requests", "P/Spot"),
}

# Families that are not sold here, which a new account cannot launch. Standard starts at 5, all else at 0.
_ELSEWHERE = (
    ("L-2C3B7624", "Running On-Demand Trn instances", "Trn/OnDemand"),
    ("L-6B0D517C", "All Trn Spot Instance Requests", "Trn/Spot"),
    ("L-1945791B", "Running On-Demand Inf instances", "Inf/OnDemand"),
    ("L-B5D1601B", "All Inf Spot Instance Requests", "Inf/Spot"),
    ("L-6E869C2A", "Running On-Demand DL instances", "DL/OnDemand"),
    ("L-85EED4F7", "All DL Spot Instance Requests", "DL/Spot"),
    ("L-74FC7D96", "Running On-Demand F instances", "F/OnDemand"),
    ("L-88CF9481", "All F Spot Instance Requests", "F/Spot"),
)
_DEFAULTS = {"Standard/on_demand": 5.0, "Standard/spot": 5.0}

_NAMES = {code: name for name, (code, _, _) in _QUOTAS.items()}

# Service Quotas User Guide, "Quotas for Service Quotas".
_OPEN_PER_ACCOUNT, _OPEN_PER_REGION = 20, 2

# There is no word for a grant in part: its case is closed.
_STATUS = {
    "filed": "PENDING",
    "in_review": "CASE_OPENED",
    "approved": "APPROVED",
    "partly_granted": "CASE_CLOSED",
    "denied": "DENIED",
}


def list_service_quotas(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The vCPU quotas of EC2 to which the account has a value of its own in the region."""
    _ec2_only(params)
    code = params.get("QuotaCode")
    rows = [row for row in _rows(context) if code is None or row["QuotaCode"] == code]
    shown, token = page(rows, params, "quotas", most=100)
    return {"Quotas": shown} | ({"NextToken": token} if token else {})


def get_service_quota(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """One quota by code."""
    _ec2_only(params)
    return {"Quota": _of_code(_rows(context), params["QuotaCode"])}


def list_aws_default_service_quotas(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The vCPU quotas of EC2 as an account begins with them."""
    _ec2_only(params)
    shown, token = page(_defaults(context), params, "default quotas", most=100)
    return {"Quotas": shown} | ({"NextToken": token} if token else {})


def get_aws_default_service_quota(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """One of them by code."""
    _ec2_only(params)
    return {"Quota": _of_code(_defaults(context), params["QuotaCode"])}


def _defaults(context: Context) -> list[dict[str, Any]]:
    sold = [_entry(context.region, known, _DEFAULTS.get(name, 0.0)) for name, known in _QUOTAS.items()]
    return sold + [_entry(context.region, known, 0.0) for known in _ELSEWHERE]


def request_service_quota_increase(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Ask for a new limit. [Service Quotas API Reference, RequestServiceQuotaIncrease]"""
    _ec2_only(params)
    row = _of_code(_rows(context), params["QuotaCode"])
    wanted = float(params["DesiredValue"])
    if wanted <= row["Value"]:
        text = f"The desired value {wanted:g} is not above the current value {row['Value']:g}"
        raise AwsError("IllegalArgumentException", text)
    if params.get("SupportCaseAllowed") is False:
        raise AwsError("IllegalArgumentException", "the local clouds decide nothing without a case")
    pending = [one for one in context.world.quota_requests("aws") if one.open]
    here = [one for one in pending if one.region == context.region]
    name = _NAMES[params["QuotaCode"]]
    if any(one.name == name for one in here):
        text = f"Only one open service quota increase request is allowed per quota: {row['QuotaName']}"
        raise AwsError("ResourceAlreadyExistsException", text)
    if len(pending) >= _OPEN_PER_ACCOUNT or len(here) >= _OPEN_PER_REGION:
        text = "You have exceeded the number of active service quota increase requests"
        raise AwsError("QuotaExceededException", text)
    identity = f"{len(context.world.quota_requests('aws')) + 1:032x}"
    filed = context.world.file_quota_request("aws", identity, region=context.region, name=name, wanted=wanted)
    return {"RequestedQuota": _change(filed)}


def list_requested_service_quota_change_history(
    context: Context, params: dict[str, Any]
) -> Mapping[str, Any]:
    """The requests of the region, newest first, those that were decided included."""
    if params.get("ServiceCode", "ec2") != "ec2":
        return {"RequestedQuotas": []}
    changes = [_change(one) for one in _requests(context)]
    wanted = params.get("Status")
    fitting = [change for change in changes if wanted in (None, change["Status"])]
    shown, token = page(fitting, params, "quota requests", most=100)
    return {"RequestedQuotas": shown} | ({"NextToken": token} if token else {})


def get_requested_service_quota_change(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """One request by id."""
    for one in _requests(context):
        if one.id == params["RequestId"]:
            return {"RequestedQuota": _change(one)}
    raise AwsError("NoSuchResourceException", f"no request {params['RequestId']}")


def _requests(context: Context) -> list[QuotaRequest]:
    filed = context.world.quota_requests("aws")
    return [one for one in reversed(filed) if one.region == context.region]


def _change(one: QuotaRequest) -> dict[str, Any]:
    code, name, _ = _QUOTAS[one.name]
    case = {} if one.state == "filed" else {"CaseId": f"{int(one.id, 16):012d}"}
    return {
        "Id": one.id,
        **case,
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaCode": code,
        "QuotaName": name,
        "DesiredValue": one.wanted,
        "Status": _STATUS[one.state] if one.told or one.open else "CASE_CLOSED",
        "Created": one.filed_at,
        "LastUpdated": one.changed_at,
        "Requester": f'{{"accountId":"{ACCOUNT}","callerArn":"arn:aws:iam::{ACCOUNT}:user/sandbox"}}',
        "QuotaArn": f"arn:aws:servicequotas:{one.region}:{ACCOUNT}:ec2/{code}",
        "GlobalQuota": False,
        "Unit": "None",
        "QuotaRequestedAtLevel": "ACCOUNT",
    }


def _ec2_only(params: Mapping[str, Any]) -> None:
    if params["ServiceCode"] != "ec2":
        raise AwsError("NoSuchResourceException", f"no quotas of service {params['ServiceCode']}")


def _of_code(rows: Iterable[dict[str, Any]], code: str) -> dict[str, Any]:
    for row in rows:
        if row["QuotaCode"] == code:
            return row
    raise AwsError("NoSuchResourceException", f"no quota {code} of service ec2")


def _rows(context: Context) -> list[dict[str, Any]]:
    rows = context.world.quotas("aws", context.region)
    return [_entry(context.region, _QUOTAS[row.name], row.limit) for row in rows if row.name in _QUOTAS]


def _entry(region: str, known: tuple[str, str, str], value: float) -> dict[str, Any]:
    code, name, usage_class = known
    dimensions = {"Service": "EC2", "Resource": "vCPU", "Type": "Resource", "Class": usage_class}
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": name,
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
        "UsageMetric": {
            "MetricNamespace": "AWS/Usage",
            "MetricName": "ResourceCount",
            "MetricDimensions": dimensions,
            "MetricStatisticRecommendation": "Maximum",
        },
    }
