"""Resource SKUs as sizes with the placements that this subscription may use. Pure: rows in, sizes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from providers.azure.errors import family_key
from providers.azure.sizes import accelerator, may_carry_gpus, worth_offering
from providers.vocabulary import CapacityType, InstanceType

_ARCHITECTURES = {"x64": "x86_64", "arm64": "arm64"}
_GIB = 1024

INFINIBAND = "infiniband"


@dataclass(frozen=True, slots=True)
class Size:
    """A size in one region: `zones` (logical numbers) are those in which it is not restricted.

    regional: whether it may be asked for without naming a zone, which a restriction of every zone still
    leaves open. A listed zone says that the zone can hold it, not that there is stock. family: as Azure
    spells it here; `type.family` is the same one squeezed. rdma: whether its machines have InfiniBand.
    """

    type: InstanceType
    family: str
    zones: tuple[str, ...]
    regional: bool
    spot: bool
    generations: frozenset[str]
    premium_disks: bool
    rdma: bool

    def placements(self, region: str) -> tuple[str, ...]:
        """Zone keys of vocabulary.OfferKey: `eastus-1`, and the region itself for no zone."""
        if not self.regional:
            return ()
        return (*(f"{region}-{zone}" for zone in self.zones), region)

    def type_in(self, region: str, zone: str, capacity_type: CapacityType) -> InstanceType:
        """The type as an offer of that placement shows it. InfiniBand connects machines of an availability
        set, which lies in no zone and takes on-demand machines only.
        """
        connects = self.rdma and zone == region and capacity_type is CapacityType.ON_DEMAND
        return replace(self.type, fabric=INFINIBAND) if connects else self.type


def sizes(rows: Iterable[Mapping[str, Any]], region: str, allowed: Iterable[str] = ()) -> dict[str, Size]:
    """The sizes worth offering in a region, by name. `allowed` as in AccountConfig.allowed_types."""
    wanted, found = frozenset(allowed), {}
    for row in rows:
        if row.get("resourceType") != "virtualMachines":
            continue
        name = str(row["name"])
        # By name first: of 1,500 sizes with 35 capabilities each some dozens are worth reading.
        if worth_offering(name, may_carry_gpus(name), wanted) and _is_in(row, region):
            size = _size(row, region)
            if worth_offering(size.type.name, size.type.accelerator is not None, wanted):
                found[size.type.name] = size
    return found


def _is_in(row: Mapping[str, Any], region: str) -> bool:
    return region.lower() in {place.lower() for place in row.get("locations") or ()}


def _size(row: Mapping[str, Any], region: str) -> Size:
    can = {item["name"]: item.get("value") or "" for item in row.get("capabilities") or ()}
    name = str(row["name"])
    kind = InstanceType(
        name=name,
        family=family_key(str(row.get("family") or "")),
        vcpus=int(_number(can.get("vCPUsAvailable") or can.get("vCPUs")) or 0),
        memory_gib=_number(can.get("MemoryGB")) or 0.0,
        accelerator=accelerator(name, _number(can.get("GPUs"))),
        local_disk_gib=_local_disk(can),
        architecture=_ARCHITECTURES.get(can.get("CpuArchitectureType", "x64").lower(), "x86_64"),
    )
    closed, closed_zones = _restrictions(row, region)
    return Size(
        type=kind,
        family=str(row.get("family") or ""),
        zones=tuple(sorted(_zones(row, region) - closed_zones)),
        regional=not closed,
        spot=can.get("LowPriorityCapable", "").lower() == "true",
        generations=frozenset(text.strip().upper() for text in can.get("HyperVGenerations", "").split(",")),
        premium_disks=can.get("PremiumIO", "").lower() == "true",
        rdma=can.get("RdmaEnabled", "").lower() == "true",
    )


def _zones(row: Mapping[str, Any], region: str) -> set[str]:
    return {
        str(zone)
        for place in row.get("locationInfo") or ()
        if str(place.get("location", "")).lower() == region.lower()
        for zone in place.get("zones") or ()
    }


def _restrictions(row: Mapping[str, Any], region: str) -> tuple[bool, set[str]]:
    """(the whole region is closed, zones that are closed), from every restriction that the row holds."""
    closed, zones = False, set()
    for item in row.get("restrictions") or ():
        info = item.get("restrictionInfo") or {}
        places = {place.lower() for place in info.get("locations") or item.get("values") or ()}
        if item.get("type") == "Location" and (not places or region.lower() in places):
            closed = True
        if item.get("type") == "Zone" and (not info.get("locations") or region.lower() in places):
            zones |= {str(zone) for zone in info.get("zones") or ()}
    return closed, zones


def _local_disk(can: Mapping[str, str]) -> float:
    """GiB of NVMe where the size has it, else of the temporary disk."""
    nvme = _number(can.get("NvmeDiskSizeInMiB"))
    disk = nvme if nvme else _number(can.get("MaxResourceVolumeMB"))
    return round((disk or 0.0) / _GIB, 1)


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
