"""The zones of a region as this account sees them, and the subnet that stands for each.

A zone's *id* is the same for everyone; its name is shuffled per account, so names never leave the adapter.
[EC2 User Guide, "Availability Zone IDs"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from providers.aws.api import Api
from providers.config import RegionConfig


@dataclass(frozen=True, slots=True)
class Zone:
    """`subnet` None: nothing can be launched here."""

    id: str
    name: str
    subnet: str | None


@dataclass(frozen=True, slots=True)
class Network:
    """All zones of a region; those that the settings leave out have no subnet."""

    zones: tuple[Zone, ...]

    def by_id(self, zone_id: str) -> Zone | None:
        return next((zone for zone in self.zones if zone.id == zone_id), None)

    def id_of(self, name: str) -> str:
        """The id of a zone by name; the name itself where it is not one of ours."""
        return next((zone.id for zone in self.zones if zone.name == name), name)


def read_network(api: Api, region: str, config: RegionConfig) -> Network:
    """Two calls: zones, and the subnets of the settings or the default VPC's."""
    zones = api.read(
        "ec2",
        region,
        "describe_availability_zones",
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}],
    )["AvailabilityZones"]
    chosen: dict[str, Any] = (
        {"SubnetIds": list(config.subnets)}
        if config.subnets
        else {"Filters": [{"Name": "default-for-az", "Values": ["true"]}], "MaxResults": 1000}
    )
    subnets = api.pages("ec2", region, "describe_subnets", "Subnets", **chosen)
    return join(zones, subnets, config.zones)


def join(
    zones: Iterable[Mapping[str, Any]], subnets: Iterable[Mapping[str, Any]], allowed: tuple[str, ...] = ()
) -> Network:
    """Zones (`allowed` by id or name; empty: all) with the subnet that has most free addresses in each."""
    by_zone: dict[str, Mapping[str, Any]] = {}
    for subnet in sorted(subnets, key=lambda s: (-int(s.get("AvailableIpAddressCount", 0)), s["SubnetId"])):
        if subnet.get("State") == "available" and subnet.get("AvailableIpAddressCount", 0) > 0:
            by_zone.setdefault(subnet["AvailabilityZone"], subnet)
    return Network(
        tuple(
            Zone(
                zone["ZoneId"],
                zone["ZoneName"],
                by_zone.get(zone["ZoneName"], {}).get("SubnetId") if _usable(zone, allowed) else None,
            )
            for zone in sorted(zones, key=lambda z: str(z["ZoneId"]))
        )
    )


def _usable(zone: Mapping[str, Any], allowed: tuple[str, ...]) -> bool:
    wanted = not allowed or zone["ZoneId"] in allowed or zone["ZoneName"] in allowed
    return wanted and zone.get("State") != "unavailable"
