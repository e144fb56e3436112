"""Placement groups and network cards on the EC2 face.

Groups are EC2's own, so they live here; who stands in one is told by the instances. [EC2 User Guide,
"Placement groups" and "Elastic Fabric Adapter"; EC2 instance types guide, "Accelerated computing instances"]
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import Getter, filtered
from sandbox.faces.ec2.shapes import tags
from sandbox.faces.ec2.site import ACCOUNT
from sandbox.faces.ec2.tags import tag_map

_MOST = 500
_FILTERS: dict[str, Getter] = {
    "tag:": lambda row: {tag["Key"]: tag["Value"] for tag in row["Tags"]},
    "group-name": lambda row: [row["GroupName"]],
    "state": lambda row: [row["State"]],
    "strategy": lambda row: [row["Strategy"]],
}

# Network cards of the types that have EFA interfaces, one on each.
_CARDS = {
    "g4dn.12xlarge": 1,
    "g5.12xlarge": 1,
    "g5.48xlarge": 1,
    "g6.12xlarge": 1,
    "g6.48xlarge": 1,
    "g6e.12xlarge": 1,
    "g6e.48xlarge": 4,
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.4xlarge": 1,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
}
_EFA = ("efa", "efa-only")


def network_info(name: str) -> dict[str, Any]:
    """NetworkInfo of a type."""
    cards = _CARDS.get(name, 0)
    able = ["interface", *(_EFA if cards else ())]
    shown: dict[str, Any] = {
        "MaximumNetworkInterfaces": 4 * max(1, cards),
        "MaximumNetworkCards": max(1, cards),
        "DefaultNetworkCardIndex": 0,
        "NetworkCards": [
            {"NetworkCardIndex": index, "MaximumNetworkInterfaces": 4, "InterfaceTypes": able}
            for index in range(max(1, cards))
        ],
        "EnaSupport": "required",
        "EfaSupported": cards > 0,
    }
    return shown | ({"EfaInfo": {"MaximumEfaInterfaces": cards}} if cards else {})


def check_interfaces(instance_type: str, interfaces: Sequence[Mapping[str, Any]]) -> None:
    """AwsError for interfaces that the type could not have."""
    cards = _CARDS.get(instance_type, 0)
    taken = set()
    for one in interfaces:
        place = one.get("NetworkCardIndex", 0), one.get("DeviceIndex", 0)
        if place in taken:
            raise AwsError("InvalidParameterValue", f"Two network interfaces at card and device {place}")
        taken.add(place)
        if place[0] >= max(1, cards):
            text = f"Network card {place[0]} is not valid for instance type {instance_type}"
            raise AwsError("InvalidParameterCombination", text)
        if one.get("InterfaceType", "interface") in _EFA:
            _check_efa(instance_type, one, cards)
    if len([one for one in interfaces if one.get("InterfaceType") in _EFA]) > cards:
        raise AwsError("AttachmentLimitExceeded", f"Too many EFA interfaces for {instance_type}")


def _check_efa(instance_type: str, interface: Mapping[str, Any], cards: int) -> None:
    if not cards:
        text = f"EFA interfaces are not supported on {instance_type}"
        raise AwsError("InvalidParameterCombination", text)
    if interface["InterfaceType"] == "efa-only" and "AssociatePublicIpAddress" in interface:
        raise AwsError("InvalidParameterValue", "An EFA-only network interface takes no IP addresses")


class PlacementGroups:
    """The account's groups by region and name."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def create(self, context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
        """A new group; the same name again is refused."""
        name = params.get("GroupName")
        if not name:
            raise AwsError("MissingParameter", "The request must contain the parameter groupName")
        if params.get("Strategy", "cluster") not in ("cluster", "spread", "partition"):
            raise AwsError("InvalidParameterValue", f"Invalid strategy '{params['Strategy']}'")
        given: dict[str, str] = {}
        for specification in params.get("TagSpecifications", []):
            if specification.get("ResourceType") != "placement-group":
                raise AwsError("InvalidParameterValue", "only a placement-group can be tagged here")
            given |= tag_map(specification.get("Tags", []))
        dry_run(params)
        with self._lock:
            if (context.region, name) in self._groups:
                text = f"The Placement Group '{name}' already exists."
                raise AwsError("InvalidPlacementGroup.Duplicate", text)
            if len([1 for region, _ in self._groups if region == context.region]) >= _MOST:
                raise AwsError("PlacementGroupLimitExceeded", f"At most {_MOST} placement groups are allowed")
            row = self._groups[context.region, name] = {
                "GroupName": name,
                "GroupId": f"pg-{context.world.chance.getrandbits(68):017x}",
                "GroupArn": f"arn:aws:ec2:{context.region}:{ACCOUNT}:placement-group/{name}",
                "State": "available",
                "Strategy": params.get("Strategy", "cluster"),
                "Tags": tags(given),
            }
        return {"PlacementGroup": row}

    def describe(self, context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
        """By names and filters."""
        dry_run(params)
        with self._lock:
            rows = [row for (region, _), row in self._groups.items() if region == context.region]
        wanted = params.get("GroupNames", [])
        for name in wanted:
            if name not in {row["GroupName"] for row in rows}:
                raise unknown(name)
        rows = [row for row in rows if not wanted or row["GroupName"] in wanted]
        return {"PlacementGroups": filtered(rows, params.get("Filters", []), _FILTERS)}

    def delete(self, context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
        """Gone at once, unless an instance is still there."""
        name = params["GroupName"]
        dry_run(params)
        with self._lock:
            if (context.region, name) not in self._groups:
                raise unknown(name)
            inside = context.world.vms(
                "aws", lambda vm: vm.live and (vm.region, vm.extra.get("group")) == (context.region, name)
            )
            if inside:
                text = f"The placement group '{name}' is in use and may not be deleted."
                raise AwsError("InvalidPlacementGroup.InUse", text)
            del self._groups[context.region, name]
        return {}

    def check(self, context: Context, name: str | None) -> None:
        """AwsError unless there is such a group, or none is asked for."""
        with self._lock:
            if name and (context.region, name) not in self._groups:
                raise unknown(name)


def unknown(name: str) -> AwsError:
    """EC2's words for a group that does not exist."""
    return AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
