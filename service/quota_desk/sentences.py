"""Requests for more quota in words."""

from __future__ import annotations

from providers.quotas import QuotaUnit
from service.quota_desk.model import QuotaRequest

UNITS = {QuotaUnit.VCPU: "vCPU", QuotaUnit.GPU: "GPUs", QuotaUnit.INSTANCE: "instances"}


def amount(value: float | None, unit: QuotaUnit | None) -> str:
    """`192 vCPU`; what is unknown is said to be."""
    if value is None:
        return "an unknown number"
    return f"{value:g} {UNITS[unit]}" if unit else f"{value:g}"


def asked_for(request: QuotaRequest) -> str:
    """`aws/us-east-1: All P Spot Instance Requests from 0 to 192 vCPU`."""
    where = f"{request.provider}/{request.region or request.account}"
    before = "" if request.limit_before is None else f" from {request.limit_before:g}"
    return f"{where}: {request.name}{before} to {amount(request.requested, request.unit)}"
