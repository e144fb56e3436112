"""EC2's neighbours on the same port: STS, Service Quotas, Systems Manager."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import page
from sandbox.faces.ec2.site import ACCOUNT, IMAGE_MADE, PARAMETERS
from sandbox.world import QuotaRow

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


def get_caller_identity(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Everybody is the same user here."""
    return {"UserId": "AIDASANDBOX", "Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/sandbox"}


def list_service_quotas(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """The vCPU quotas of EC2 in force in the region."""
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


def _ec2_only(params: Mapping[str, Any]) -> None:
    if params["ServiceCode"] != "ec2":
        raise AwsError("NoSuchResourceException", f"no quotas of service {params['ServiceCode']}")


def _rows(context: Context) -> list[dict[str, Any]]:
    rows = context.world.quotas("aws", context.region)
    return [_row(context.region, row) for row in rows if row.name in _QUOTAS]


def _row(region: str, row: QuotaRow) -> dict[str, Any]:
    code, name, usage_class = _QUOTAS[row.name]
    dimensions = {"Service": "EC2", "Resource": "vCPU", "Type": "Resource", "Class": usage_class}
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": name,
        "Value": row.limit,
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
