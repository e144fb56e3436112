"""EC2's neighbours on the same port: STS, Service Quotas, Systems Manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import page
from sandbox.faces.ec2.site import ACCOUNT, IMAGE_MADE, PARAMETERS

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


def get_caller_identity(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Everybody is the same user here."""
    return {"UserId": "AIDASANDBOX", "Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/sandbox"}


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
    for row in _rows(context):
        if row["QuotaCode"] == params["QuotaCode"]:
            return {"Quota": row}
    raise AwsError("NoSuchResourceException", f"no quota {params['QuotaCode']} of service ec2")


def list_aws_default_service_quotas(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The vCPU quotas of EC2 as an account begins with them."""
    _ec2_only(params)
    sold = [_entry(context.region, known, _DEFAULTS.get(name, 0.0)) for name, known in _QUOTAS.items()]
    rows = sold + [_entry(context.region, known, 0.0) for known in _ELSEWHERE]
    shown, token = page(rows, params, "default quotas", most=100)
    return {"Quotas": shown} | ({"NextToken": token} if token else {})


def _ec2_only(params: Mapping[str, Any]) -> None:
    if params["ServiceCode"] != "ec2":
        raise AwsError("NoSuchResourceException", f"no quotas of service {params['ServiceCode']}")


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


def get_parameter(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The region's image under the names of images."""
    name = params["Name"]
    if name not in PARAMETERS:
        raise AwsError("ParameterNotFound", f"Parameter {name} not found.")
    parameter = {
        "Name": name,
        "Type": "String",
        "Value": context.site.image,
        "Version": 1,
        "LastModifiedDate": IMAGE_MADE,
        "ARN": f"arn:aws:ssm:{context.region}::parameter{name}",
        "DataType": "aws:ec2:image",
    }
    return {"Parameter": parameter}
