"""The way out of a subnet: an agent has to reach the service, the store of checkpoints and the registries.

A subnet without a route table of its own has its VPC's main one. An internet gateway serves only what has a
public address. [VPC User Guide, "Route tables" and "Internet gateways"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from providers.aws.api import Api

EVERYWHERE = "0.0.0.0/0"
GATEWAY = "internet gateway"

# Fields of a route that name where it leads, and what a person calls that.
_TARGETS = {
    "NatGatewayId": "NAT gateway",
    "TransitGatewayId": "transit gateway",
    "NetworkInterfaceId": "network appliance",
    "InstanceId": "NAT instance",
    "VpcPeeringConnectionId": "peered VPC",
    "LocalGatewayId": "local gateway",
    "CarrierGatewayId": "carrier gateway",
    "CoreNetworkArn": "core network",
    "GatewayId": GATEWAY,
}


def read_ways_out(api: Api, region: str, subnets: Sequence[str]) -> dict[str, str | None]:
    """Where each subnet's default route leads; None where there is none."""
    found = api.read("ec2", region, "describe_subnets", SubnetIds=list(subnets))["Subnets"]
    vpcs = {subnet["SubnetId"]: subnet.get("VpcId", "") for subnet in found}
    wanted = [{"Name": "vpc-id", "Values": sorted(set(vpcs.values()))}]
    tables = list(
        api.pages("ec2", region, "describe_route_tables", "RouteTables", Filters=wanted, MaxResults=100)
    )
    return {subnet: way_out(subnet, vpc, tables) for subnet, vpc in vpcs.items()}


def way_out(subnet: str, vpc: str, tables: Iterable[Mapping[str, Any]]) -> str | None:
    """The target of the subnet's default route, in words."""
    main: Mapping[str, Any] | None = None
    for table in tables:
        for association in table.get("Associations", ()):
            if association.get("SubnetId") == subnet:
                return _default_route(table)
            if association.get("Main") and table.get("VpcId", "") == vpc:
                main = table
    return _default_route(main) if main is not None else None


def _default_route(table: Mapping[str, Any]) -> str | None:
    for route in table.get("Routes", ()):
        if route.get("DestinationCidrBlock") == EVERYWHERE and route.get("State") == "active":
            return next((words for field, words in _TARGETS.items() if route.get(field)), None)
    return None


def without_way_out(ways: Mapping[str, str | None], *, public_address: bool) -> dict[str, str]:
    """The subnets whose instances could reach nobody, and why."""
    problems = {
        subnet: "no default route"
        if way is None
        else "an internet gateway, and instances get no public address"
        for subnet, way in ways.items()
        if way is None or (way == GATEWAY and not public_address)
    }
    return dict(sorted(problems.items()))
