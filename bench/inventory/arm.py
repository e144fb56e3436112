"""What Azure answers: 1,500 resource SKUs of 35 capabilities in each region, and the Retail Prices API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

from providers.azure.sizes import CPU_SIZES

REGIONS = (
    "eastus", "eastus2", "westus", "westus2", "westus3", "centralus", "northcentralus", "southcentralus",
    "canadacentral", "brazilsouth", "northeurope", "westeurope", "uksouth", "francecentral", "swedencentral",
    "japaneast", "australiaeast",
)  # fmt: skip
ROWS, PAGE = 1_500, 1_000
# Sizes with GPUs -> how many. [Azure documentation: sizes/gpu-accelerated]
_GPU_SIZES = {
    **{f"Standard_NC{n}as_T4_v3": gpus for n, gpus in ((4, 1), (8, 1), (16, 1), (64, 4))},
    **{f"Standard_NC{24 * n}ads_A100_v4": n for n in (1, 2, 4)},
    **{f"Standard_NV{n}ads_A10_v5": 1 for n in (6, 12, 18, 36)},
    "Standard_NV36adms_A10_v5": 1,
    "Standard_NV72ads_A10_v5": 2,
    "Standard_ND96asr_v4": 8,
    "Standard_ND96amsr_A100_v4": 8,
    "Standard_NC40ads_H100_v5": 1,
    "Standard_NC80adis_H100_v5": 2,
    "Standard_NCC40ads_H100_v5": 1,
    "Standard_ND96isr_H100_v5": 8,
    "Standard_ND96isr_H200_v5": 8,
    "Standard_ND96isr_MI300X_v5": 8,
    "Standard_ND128isr_NDR_GB200_v6": 4,
    "Standard_ND128isr_GB300_v6": 4,
}
_FURTHER = (
    "MaxDataDiskCount", "CombinedTempDiskAndCachedIOPS", "CombinedTempDiskAndCachedReadBytesPerSecond",
    "CombinedTempDiskAndCachedWriteBytesPerSecond", "CachedDiskBytes", "UncachedDiskIOPS",
    "UncachedDiskBytesPerSecond", "EphemeralOSDiskSupported", "SupportedEphemeralOSDiskPlacements",
    "EncryptionAtHostSupported", "CapacityReservationSupported", "AcceleratedNetworkingEnabled",
    "MaxNetworkInterfaces", "OSVhdSizeMB", "ACUs", "vCPUsPerCore", "vCPUsConstraintsAvailable", "PremiumIO",
    "VMDeploymentTypes", "MemoryPreservingMaintenanceSupported", "HibernationSupported", "RdmaEnabled",
    "UltraSSDAvailable", "ConfidentialComputingType", "TrustedLaunchDisabled", "DiskControllerTypes",
    "ParentSize", "RetirementDateUtc",
)  # fmt: skip


class Azure:
    """thin: one size in a region, for a first call that costs what imports cost."""

    def __init__(self, *, thin: bool) -> None:
        self._names = ["Standard_D4s_v5"] if thin else names()

    def answer(self, base: str, path: str, query: Mapping[str, str]) -> bytes:
        """The answer to a GET."""
        if path.endswith("/skus"):
            region = re.findall(r"'([^']+)'", query["$filter"])[0]
            return _compact({"value": [_sku(region, name) for name in self._names]})
        return _compact(self._price_page(base, path, query))

    def _price_page(self, base: str, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        region = re.findall(r"armRegionName eq '([^']+)'", query["$filter"])[0]
        wanted = re.findall(r"armSkuName eq '([^']+)'", query["$filter"])
        rows = [row for name in wanted for row in _prices(region, name)]
        start = int(query.get("$skip") or 0)
        page, more = rows[start : start + PAGE], start + PAGE < len(rows)
        link = f"{base}{path}?{urlencode({**query, '$skip': str(start + PAGE)})}" if more else None
        return {
            "BillingCurrency": "USD",
            "CustomerEntityId": "Default",
            "CustomerEntityType": "Retail",
            "Items": page,
            "NextPageLink": link,
            "Count": len(page),
        }


@cache
def names() -> list[str]:
    """Every size of a region."""
    plain = [f"Standard_{family}{number}s_v{version}" for family in ("B", "F", "M", "L", "DC", "EC", "HB")
             for version in range(1, 8) for number in range(2, 64, 2)]  # fmt: skip
    return [*_GPU_SIZES, *sorted(CPU_SIZES), *plain][:ROWS]


def _compact(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode()


def _sku(region: str, name: str) -> dict[str, Any]:
    can = {
        "MaxResourceVolumeMB": "1228800",
        "vCPUs": "96",
        "MemoryGB": "1900",
        "HyperVGenerations": "V1,V2",
        "CpuArchitectureType": "x64",
        "LowPriorityCapable": "True",
        **({"GPUs": str(_GPU_SIZES[name])} if name in _GPU_SIZES else {"vCPUsAvailable": "96"}),
        **dict.fromkeys(_FURTHER, "True"),
    }
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "tier": "Standard",
        "size": name.removeprefix("Standard_"),
        "family": f"standard{name.removeprefix('Standard_')}Family",
        "locations": [region],
        "locationInfo": [{"location": region, "zones": ["1", "2", "3"], "zoneDetails": []}],
        "capabilities": [{"name": key, "value": value} for key, value in can.items()],
        "restrictions": [],
    }


def _prices(region: str, name: str) -> Iterator[dict[str, Any]]:
    """Linux and Windows, on demand, Spot and Low Priority."""
    short = name.removeprefix("Standard_").replace("_", " ")
    for product in ("Virtual Machines Series", "Virtual Machines Series Windows"):
        for kind in ("", " Spot", " Low Priority"):
            yield {
                "currencyCode": "USD",
                "tierMinimumUnits": 0.0,
                "retailPrice": 3.673,
                "unitPrice": 3.673,
                "armRegionName": region,
                "location": region,
                "effectiveStartDate": "2024-01-01T00:00:00Z",
                "meterId": "7f1a6a0e-5c0f-5d3c-9ed2-31e7e7ba6a9d",
                "meterName": short + kind,
                "productId": "DZH318Z08MFL",
                "skuId": "DZH318Z08MFL/00GJ",
                "productName": product,
                "skuName": short + kind,
                "serviceName": "Virtual Machines",
                "serviceId": "DZH313Z7MMC8",
                "serviceFamily": "Compute",
                "unitOfMeasure": "1 Hour",
                "type": "Consumption",
                "isPrimaryMeterRegion": True,
                "armSkuName": name,
            }
