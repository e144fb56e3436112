"""The market's refusals in the words of operations' errors."""

from __future__ import annotations

from typing import Any

from sandbox.admission import Refusal
from sandbox.faces.gce.answers import ApiError, Call, invalid
from sandbox.faces.gce.operations import Failure
from sandbox.quotas import GLOBAL

_HELP = "https://cloud.google.com/compute/docs/troubleshooting/troubleshooting-resource-availability"


def failure_of(refusal: Refusal, call: Call) -> Failure:
    """How an operation ends that the market refused."""
    if refusal.kind == "capacity":
        return _stock_out(refusal.facts, call)
    if refusal.kind == "reservation":
        return _reservation(refusal.facts)
    return _over_quota(refusal.facts)


def synchronous(refusal: Refusal) -> ApiError:
    """The refusals that the API gives at once: what is not sold at all."""
    facts = refusal.facts
    name = str(facts["instance_type"]).partition("+")[0]
    why = f"Machine type with name '{name}' does not exist in zone '{facts['zone']}'."
    return invalid("resource.machineType", f"zones/{facts['zone']}/machineTypes/{name}", why)


def _stock_out(facts: dict[str, Any], call: Call) -> Failure:
    zone, name = facts["zone"], str(facts["instance_type"]).partition("+")[0]
    others = ",".join(facts["zones_available"])
    elsewhere = f" Consider trying your request in the {others} zone(s)." if others else ""
    message = (
        f"The zone 'projects/{call.project}/zones/{zone}' does not have enough resources available to "
        "fulfill the request.  Try a different zone, or try again later."
    )
    info = {
        "reason": "resource_availability",
        "domain": "compute.googleapis.com",
        "metadatas": {"vmType": name, "zone": zone, "attachment": "", "zonesAvailable": others},
    }
    said = f"A {name} VM instance is currently unavailable in the {zone} zone.{elsewhere}"
    error = {
        "code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
        "message": message,
        "errorDetails": [
            {"help": {"links": [{"description": "Troubleshooting documentation", "url": _HELP}]}},
            {"localizedMessage": {"locale": "en-US", "message": said}},
            {"errorInfo": info},
        ],
    }
    return Failure([error], 503, "SERVICE UNAVAILABLE")


# As the cluster autoscaler's tests of Compute Engine's errors have them.
_OBSTACLES = {
    "unknown": "Specified reservations [{name}] do not exist.",
    "mismatch": "No available resources in specified reservations '{name}'",
    "inactive": "Specified reservations [{name}] do not exist.",
    "full": "Specified reservation '{name}' does not have available resources for the request.",
}


def _reservation(facts: dict[str, Any]) -> Failure:
    text = _OBSTACLES[facts["obstacle"]].format(name=facts["name"])
    return Failure([{"code": "CONDITION_NOT_MET", "message": text}], 412, "PRECONDITION FAILED")


def _over_quota(facts: dict[str, Any]) -> Failure:
    name, _, family = str(facts["name"]).partition("/")
    region = facts["quota_region"]
    everywhere = region == GLOBAL
    place = "globally" if everywhere else f"in region {region}"
    dimensions = {"global": "global"} if everywhere else {"region": region}
    if family:
        dimensions["gpu_family"] = family
    dashed = name.replace("_", "-")
    info = {
        "metricName": f"compute.googleapis.com/{name.lower()}",
        "limitName": f"{dashed}-per-project" + ("" if everywhere else "-region"),
        "dimensions": dimensions,
        "limit": facts["limit"],
    }
    error = {
        "code": "QUOTA_EXCEEDED",
        "message": f"Quota '{name}' exceeded.  Limit: {float(facts['limit'])} {place}.",
        "errorDetails": [{"quotaInfo": info}],
    }
    return Failure([error], 403, "FORBIDDEN")


def below_minimum(asked: int) -> dict[str, Any]:
    """What a bulk insert says of itself when one of its instances could not be made."""
    return {
        "code": "VM_MIN_COUNT_NOT_REACHED",
        "message": f"Requested minimum count of {asked} VMs could not be created.",
    }


def taken(call: Call, name: str) -> dict[str, Any]:
    """The error of a child of a bulk insert whose name exists."""
    resource = f"projects/{call.project}/zones/{call.path['zone']}/instances/{name}"
    return {"code": "RESOURCE_ALREADY_EXISTS", "message": f"The resource '{resource}' already exists"}
