"""What is sold where, and how much of it a subscription may have: resource SKUs and usages."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import Catalogue, InstanceType, catalogue
from sandbox.faces.arm.call import ArmError, Call, listing
from sandbox.faces.arm.odata import matches
from sandbox.faces.arm.state import Face
from sandbox.quotas import ADDRESSES, QuotaRow

# Sizes whose `GPUs` capability the real API leaves out.
_NO_GPUS = ("GB200", "GB300", "MI300X")

# Of GPU sizes, capacity can be reserved for these and the NC series of A100 ("Capacity reservation").
_RESERVABLE = ("T4", "A10")
# The `r` of a size's name says that it has InfiniBand ("Azure VM sizes naming conventions").
_RDMA = re.compile(r"^Standard_ND\d+[a-z]*r_?")


def skus(_face: Face, call: Call) -> Response:
    """Sizes, and a disk type as the real listing has too; `location` is the only thing to filter by."""
    wanted, table = call.query.get("$filter", ""), catalogue("azure")
    rows = [
        row
        for region in table.regions
        if matches(wanted, [{"location": region}])
        for row in [_disk(region), *(_size(table, size, region) for size in table.types.values())]
    ]
    return JSONResponse({"value": rows})


def _disk(region: str) -> dict[str, Any]:
    place = [{"location": region, "zones": []}]
    return {
        "resourceType": "disks",
        "name": "Premium_LRS",
        "tier": "Premium",
        "size": "P10",
        "locations": [region],
        "locationInfo": place,
        "capabilities": [],
        "restrictions": [],
    }


def _size(table: Catalogue, size: InstanceType, region: str) -> dict[str, Any]:
    """A size is listed in every region; where it is not sold it is restricted, as for a closed offer."""
    zones = table.zones_of(region)
    closed = [zone.name for zone in zones if not table.sold(zone.key, size.name)]
    restrictions = []
    if not table.sold(region, size.name):
        restrictions.append(_restriction("Location", region, []))
    if closed:
        restrictions.append(_restriction("Zone", region, closed))
    return {
        "resourceType": "virtualMachines",
        "name": size.name,
        "tier": "Standard",
        "size": size.name.removeprefix("Standard_"),
        "family": size.family,
        "locations": [region],
        "locationInfo": [
            {"location": region, "zones": [zone.name for zone in zones], "zoneDetails": []},
        ],
        "capabilities": [{"name": name, "value": value} for name, value in _capabilities(size).items()],
        "restrictions": restrictions,
    }


def _restriction(kind: str, region: str, zones: list[str]) -> dict[str, Any]:
    info: dict[str, Any] = {"locations": [region]}
    if zones:
        info["zones"] = zones
    return {
        "type": kind,
        "values": [region],
        "restrictionInfo": info,
        "reasonCode": "NotAvailableForSubscription",
    }


def _capabilities(size: InstanceType) -> dict[str, str]:
    arm = "GB200" in size.name or "GB300" in size.name
    found = {
        "MaxResourceVolumeMB": str(round(size.disk_gb * 1024)),
        "vCPUs": str(size.vcpus),
        "MemoryGB": f"{size.memory_mib / 1024:g}",
        "HyperVGenerations": "V1,V2" if size.gpu is None or size.gpu.name == "T4" else "V2",
        "CpuArchitectureType": "Arm64" if arm else "x64",
        "LowPriorityCapable": str(size.spot is not None),
        "PremiumIO": "True",
        "AcceleratedNetworkingEnabled": "True",
        "EphemeralOSDiskSupported": "True",
    }
    if _RDMA.match(size.name):
        found["RdmaEnabled"] = "True"
    if size.gpu is None or size.gpu.name in _RESERVABLE or size.name.startswith("Standard_NC"):
        found["CapacityReservationSupported"] = "True"
    if size.gpu is not None and not any(name in size.name for name in _NO_GPUS):
        found["GPUs"] = str(size.gpu.count)
    return found


def usages(face: Face, call: Call) -> Response:
    """Limits and use of a region, in vCPUs where it is about cores."""
    region = must_be_known(call)
    rows = [
        {
            "unit": "Count",
            "currentValue": int(row.usage),
            "limit": int(row.limit),
            "name": {"value": row.name, "localizedValue": LOCALIZED.get(row.name, f"{row.name} vCPUs")},
        }
        for row in compute_quotas(face, region)
    ]
    return listing(call, rows, page_size=1000)


def compute_quotas(face: Face, region: str) -> list[QuotaRow]:
    """What the compute provider counts in a region."""
    return [row for row in face.world.quotas("azure", region) if row.name != ADDRESSES]


def must_be_known(call: Call) -> str:
    """The region that the path names; ArmError where there is no such."""
    region = call.path["location"].lower()
    if region not in catalogue("azure").regions:
        text = f"No registered resource provider found for location '{region}'."
        raise ArmError(400, "NoRegisteredProviderFound", text)
    return region


LOCALIZED = {
    "cores": "Total Regional vCPUs",
    "lowPriorityCores": "Total Regional Low-priority vCPUs",
    "virtualMachines": "Virtual Machines",
}
