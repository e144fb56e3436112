"""What is sold where: regions, zones, instance types and their offerings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.catalogue import InstanceType
from sandbox.faces.ec2.context import Context, dry_run
from sandbox.faces.ec2.errors import AwsError
from sandbox.faces.ec2.pages import Getter, filtered, no_ids_and_pages, page
from sandbox.faces.ec2.placement import network_info

# A region that exists but that the account has not enabled.
_NOT_ENABLED = "af-south-1"

_REGION_FILTERS: dict[str, Getter] = {
    "region-name": lambda row: [row["RegionName"]],
    "endpoint": lambda row: [row["Endpoint"]],
    "opt-in-status": lambda row: [row["OptInStatus"]],
}
_ZONE_FILTERS: dict[str, Getter] = {
    "opt-in-status": lambda row: [row["OptInStatus"]],
    "region-name": lambda row: [row["RegionName"]],
    "state": lambda row: [row["State"]],
    "zone-id": lambda row: [row["ZoneId"]],
    "zone-name": lambda row: [row["ZoneName"]],
    "zone-type": lambda row: [row["ZoneType"]],
}
_TYPE_FILTERS: dict[str, Getter] = {
    "bare-metal": lambda size: [False],
    "current-generation": lambda size: [True],
    "instance-storage-supported": lambda size: [size.disk_gb > 0],
    "instance-type": lambda size: [size.name],
    "processor-info.supported-architecture": lambda size: [size.architecture],
    "supported-usage-class": lambda size: _usage_classes(size),
}
_OFFERING_FILTERS: dict[str, Getter] = {
    "instance-type": lambda row: [row["InstanceType"]],
    "location": lambda row: [row["Location"]],
}


def describe_regions(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Enabled ones, or all with AllRegions."""
    dry_run(params)
    rows = [_region(name, "opt-in-not-required") for name in context.table.regions]
    if params.get("AllRegions"):
        rows.append(_region(_NOT_ENABLED, "not-opted-in"))
    wanted = params.get("RegionNames", [])
    unknown = [name for name in wanted if name not in {row["RegionName"] for row in rows}]
    if unknown:
        raise AwsError("InvalidParameterValue", f"Invalid region name: {unknown[0]}")
    rows = [row for row in rows if not wanted or row["RegionName"] in wanted]
    return {"Regions": filtered(rows, params.get("Filters", []), _REGION_FILTERS)}


def _region(name: str, status: str) -> dict[str, str]:
    return {"RegionName": name, "Endpoint": f"ec2.{name}.amazonaws.com", "OptInStatus": status}


def describe_availability_zones(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Zones with the names of this account."""
    dry_run(params)
    rows = [
        {
            "ZoneName": zone.name,
            "ZoneId": zone.key,
            "ZoneType": "availability-zone",
            "State": "available",
            "RegionName": context.region,
            "OptInStatus": "opt-in-not-required",
            "GroupName": context.region,
            "NetworkBorderGroup": context.region,
            "Messages": [],
        }
        for zone in context.zones
    ]
    wanted = [context.zone(text).key for text in [*params.get("ZoneNames", []), *params.get("ZoneIds", [])]]
    rows = [row for row in rows if not wanted or row["ZoneId"] in wanted]
    return {"AvailabilityZones": filtered(rows, params.get("Filters", []), _ZONE_FILTERS)}


def describe_instance_types(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Types that exist in the region, in one zone at least."""
    no_ids_and_pages(params, "InstanceTypes")
    dry_run(params)
    wanted = params.get("InstanceTypes", [])
    unknown = [name for name in wanted if name not in context.table.types]
    if unknown:
        text = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
        raise AwsError("InvalidInstanceType", text)
    sizes = [size for size in context.table.types.values() if not wanted or size.name in wanted]
    if not params.get("IncludeUnsupportedInRegion"):
        sizes = [size for size in sizes if _sold(context, size)]
    found = filtered(sizes, params.get("Filters", []), _TYPE_FILTERS)
    shown, token = page(found, params, "types", most=100)
    return {"InstanceTypes": [_type_info(size) for size in shown], "NextToken": token}


def _sold(context: Context, size: InstanceType) -> bool:
    return any(context.table.sold(zone.key, size.name) for zone in context.zones)


def _usage_classes(size: InstanceType) -> list[str]:
    sold = {"on-demand": size.on_demand, "spot": size.spot}
    return [name for name, price in sold.items() if price is not None]


def _type_info(size: InstanceType) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "InstanceType": size.name,
        "CurrentGeneration": True,
        "BareMetal": False,
        "Hypervisor": "nitro",
        "SupportedUsageClasses": _usage_classes(size),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "ProcessorInfo": {"SupportedArchitectures": [size.architecture]},
        "VCpuInfo": {"DefaultVCpus": size.vcpus},
        "MemoryInfo": {"SizeInMiB": size.memory_mib},
        "InstanceStorageSupported": size.disk_gb > 0,
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "EncryptionSupport": "supported",
            "NvmeSupport": "required",
        },
        "NetworkInfo": network_info(size.name),
        "PlacementGroupInfo": {"SupportedStrategies": ["cluster", "partition", "spread"]},
    }
    if size.disk_gb > 0:
        disk = {"SizeInGB": int(size.disk_gb), "Count": 1, "Type": "ssd"}
        shown["InstanceStorageInfo"] = {
            "TotalSizeInGB": int(size.disk_gb),
            "Disks": [disk],
            "NvmeSupport": "required",
        }
    if size.gpu is not None:
        gpu = {
            "Name": size.gpu.name,
            "Manufacturer": "NVIDIA",
            "Count": size.gpu.count,
            "MemoryInfo": {"SizeInMiB": size.gpu.memory_mib},
        }
        total = size.gpu.count * size.gpu.memory_mib
        shown["GpuInfo"] = {"Gpus": [gpu], "TotalGpuMemoryInMiB": total}
    return shown


def describe_instance_type_offerings(context: Context, params: dict[str, Any]) -> Mapping[str, Any]:
    """Which type exists where; nothing of capacity."""
    dry_run(params)
    kind = params.get("LocationType", "region")
    if kind not in ("region", "availability-zone", "availability-zone-id"):
        raise AwsError("InvalidParameterValue", f"LocationType '{kind}' has no offerings here")
    names = context.table.types
    if kind == "region":
        pairs = [(name, context.region) for name, size in names.items() if _sold(context, size)]
    else:
        pairs = [
            (name, zone.key if kind == "availability-zone-id" else zone.name)
            for name in names
            for zone in context.zones
            if context.table.sold(zone.key, name)
        ]
    rows = [{"InstanceType": name, "LocationType": kind, "Location": place} for name, place in pairs]
    found = filtered(rows, params.get("Filters", []), _OFFERING_FILTERS)
    shown, token = page(found, params, "offerings")
    return {"InstanceTypeOfferings": shown, "NextToken": token}
