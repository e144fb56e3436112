"""The market's refusals in the compute provider's words, at once or at the end of an operation.

Sources: Microsoft, "Azure Spot VM error codes", "Troubleshoot allocation failures", "Resolve errors for
resource quotas"; messages as published in bug reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from sandbox.faces.arm.call import ArmError
from sandbox.world import Refusal


def at_once(refusal: Refusal) -> ArmError | None:
    """What the PUT is answered with; None where the create is accepted and fails later."""
    facts = refusal.facts
    if refusal.kind in ("quota", "spot_quota"):
        return _quota(facts)
    if refusal.kind == "price":
        text = (
            "Unable to perform operation 'Create VM' since the provided max price "
            f"'{facts['max_price']} USD' is lower than the current spot price '{facts['price']} USD' for "
            f"Azure Spot VM size '{facts['instance_type']}'. For more information, see "
            "https://aka.ms/AzureSpot/errormessages."
        )
        return ArmError(409, "SpotPriceGreaterThanProvidedMaxPrice", text)
    if refusal.kind == "unsupported":
        return _unavailable(facts, f"resource '{facts['instance_type']}'")
    if facts["capacity_type"] == "spot":
        return _unavailable(
            facts,
            f"resource 'Following SKUs have failed for Capacity Restrictions: {facts['instance_type']}'",
        )
    return None


def later(refusal: Refusal) -> dict[str, str]:
    """The error of an on-demand create that found no room: code and message."""
    facts = refusal.facts
    if refusal.kind == "reservation":
        return {
            "code": "AllocationFailed",
            "message": f"Allocation failed. The capacity reservation {facts['name']} has no room.",
        }
    if facts["zone"] == facts["region"]:
        return {
            "code": "AllocationFailed",
            "message": "Allocation failed. We do not have sufficient capacity for the requested VM size in "
            "this region. Read more about improving likelihood of allocation success at "
            "http://aka.ms/allocation-guidance",
        }
    return {
        "code": "ZonalAllocationFailed",
        "message": "Allocation failed. We do not have sufficient capacity for the requested VM size in this "
        "zone. Read more about improving likelihood of allocation success at "
        "http://aka.ms/allocation-guidance. Please note that allocation in the Availability Zone can succeed "
        "for other VM sizes.",
    }


_IN_WORDS = {
    "lowPriorityCores": "LowPriorityCores",
    "cores": "Total Regional Cores",
    "virtualMachines": "VirtualMachines",
}


def _quota(facts: Mapping[str, Any]) -> ArmError:
    name = _IN_WORDS.get(facts["name"], f"{facts['name']} Cores")
    region, limit, usage, needed = (
        facts["region"],
        int(facts["limit"]),
        int(facts["usage"]),
        int(facts["needed"]),
    )
    portal = quote(
        f'{{"location":"{region}","resourceName":"{facts["name"]}","newLimit":{usage + needed}}}', safe=":,"
    )
    text = (
        f"Operation could not be completed as it results in exceeding approved {name} quota. Additional "
        f"details - Deployment Model: Resource Manager, Location: {region}, Current Limit: {limit}, Current "
        f"Usage: {usage}, Additional Required: {needed}, (Minimum) New Limit Required: {usage + needed}. "
        "Setup Alerts when Quota reaches threshold. Learn more at https://aka.ms/quotamonitoringalerting . "
        "Submit a request for Quota increase at https://aka.ms/ProdportalCRP/#blade/Microsoft_Azure_Capacity/"
        f"UsageAndQuota.ReactView/Parameters/{portal} by specifying parameters listed in the 'Details' "
        "section for deployment to succeed."
    )
    return ArmError(409, "OperationNotAllowed", text)


def _unavailable(facts: Mapping[str, Any], what: str) -> ArmError:
    zone = facts["zone"]
    place = f"location '{facts['region']}'"
    if zone != facts["region"]:
        place += f" zones '{zone.rpartition('-')[2]}'"
    text = (
        f"The requested VM size for {what} is currently not available in {place} for subscription. Please "
        "try another size or deploy to a different location or different zone. See "
        "https://aka.ms/azureskunotavailable for details."
    )
    return ArmError(409, "SkuNotAvailable", text)
