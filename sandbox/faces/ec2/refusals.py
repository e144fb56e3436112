"""The market's refusals in EC2's words and with its HTTP status (Amazon EC2 API Reference, "Error codes")."""

from __future__ import annotations

from sandbox.faces.ec2 import reservations
from sandbox.faces.ec2.context import Context
from sandbox.faces.ec2.errors import AwsError
from sandbox.world import Refusal


def refused(context: Context, refusal: Refusal, *, zonal: bool) -> AwsError:
    """zonal: whether the request asked for that zone, or was refused in all."""
    facts = refusal.facts
    if refusal.kind == "quota":
        text = (
            f"You have requested more vCPU capacity than your current vCPU limit of {facts['limit']:g} "
            "allows for the instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit."
        )
        return AwsError("VcpuLimitExceeded", text)
    if refusal.kind == "spot_quota":
        return AwsError("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    if refusal.kind == "price":
        text = (
            f"Your Spot request price of {facts['max_price']} is lower than the minimum required Spot "
            f"request fulfillment price of {facts['price']}."
        )
        return AwsError("SpotMaxPriceTooLow", text)
    if refusal.kind == "unsupported":
        return AwsError("Unsupported", _unsupported(context, refusal))
    if refusal.kind == "reservation":
        return reservations.refusal(facts["obstacle"])
    return AwsError("InsufficientInstanceCapacity", _no_capacity(context, refusal, zonal), 500)


def _unsupported(context: Context, refusal: Refusal) -> str:
    name, market = refusal.facts["instance_type"], refusal.facts["capacity_type"]
    zone = context.table.zones[refusal.facts["zone"]]
    if context.table.sold(zone.key, name):
        return f"The requested configuration is not supported: {name} is not offered as {market}."
    others = [other.name for other in context.zones if context.table.sold(other.key, name)]
    return (
        f"Your requested instance type ({name}) is not supported in your requested Availability Zone "
        f"({zone.name}). Please retry your request by not specifying an Availability Zone or choosing "
        f"{', '.join(others)}."
    )


def _no_capacity(context: Context, refusal: Refusal, zonal: bool) -> str:
    """HTTP 500 goes with it: it counts among EC2's server errors, which SDKs retry unless told not to."""
    name = refusal.facts["instance_type"]
    if refusal.facts["capacity_type"] == "spot":
        return "There is no Spot capacity available that matches your request."
    if not zonal:
        return f"We currently do not have sufficient {name} capacity in {context.region}."
    text = (
        f"We currently do not have sufficient {name} capacity in the Availability Zone you requested "
        f"({context.table.zones[refusal.facts['zone']].name}). Our system will be working on provisioning "
        "additional capacity."
    )
    others = [context.table.zones[key].name for key in refusal.facts["zones_available"]]
    if others:
        text += (
            f" You can currently get {name} capacity by not specifying an Availability Zone in your "
            f"request or choosing {', '.join(others)}."
        )
    return text
