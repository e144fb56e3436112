"""What Compute Engine and Cloud Billing answer: 130 zones of 600 machine types each, and 30,000 SKUs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import islice, product
from typing import Any

ZONES, TYPES, SKUS = 130, 600, 30_000
_AREAS = ("us-central", "us-east", "us-west", "us-south", "europe-west", "europe-north", "europe-central",
          "asia-east", "asia-northeast", "asia-south", "australia-southeast")  # fmt: skip
REGIONS = tuple(f"{area}{number}" for number in range(1, 5) for area in _AREAS)[:43]
_LINKS = "https://www.googleapis.com/compute/v1/projects/bench"

# Machine types with GPUs -> (card, how many, in how many of the zones). [Compute Engine: "GPU machine types",
# "GPU regions and zones"]
_GPU_TYPES: Mapping[str, tuple[str, int, int]] = {
    **{f"a2-highgpu-{n}g": ("nvidia-tesla-a100", n, 19) for n in (1, 2, 4, 8)},
    "a2-megagpu-16g": ("nvidia-tesla-a100", 16, 19),
    **{f"a2-ultragpu-{n}g": ("nvidia-a100-80gb", n, 8) for n in (1, 2, 4, 8)},
    **{f"a3-highgpu-{n}g": ("nvidia-h100-80gb", n, 26) for n in (1, 2, 4, 8)},
    "a3-megagpu-8g": ("nvidia-h100-mega-80gb", 8, 22),
    "a3-ultragpu-8g": ("nvidia-h200-141gb", 8, 9),
    "a4-highgpu-8g": ("nvidia-b200", 8, 11),
    **{f"g2-standard-{n}": ("nvidia-l4", cards, 60) for n, cards in
       ((4, 1), (8, 1), (12, 1), (16, 1), (24, 2), (32, 1), (48, 4), (96, 8))},
    **{f"g4-standard-{48 * n}": ("nvidia-rtx-pro-6000", n, 25) for n in (1, 2, 4, 8)},
}  # fmt: skip
_ATTACHED = {"nvidia-tesla-t4": 55, "nvidia-tesla-v100": 12, "nvidia-tesla-p100": 14, "nvidia-tesla-p4": 12}
_SERIES = ("n1", "e2", "n2", "c3", "n2d", "c2", "c2d", "c3d", "c4", "c4a", "c4d", "n4", "t2d", "t2a", "m1",
           "m2", "m3", "h3", "z3", "x4")  # fmt: skip
_SIZES = (2, 4, 8, 16, 22, 32, 44, 48, 64, 80, 96, 128)


class Gce:
    """thin: one zone, one page of SKUs, for a first call that costs what imports cost."""

    def __init__(self, *, thin: bool) -> None:
        self._zones = zones()[:1] if thin else zones()
        self._skus = 100 if thin else SKUS

    def answer(self, path: str, query: Mapping[str, str]) -> bytes:
        """The answer to a GET."""
        if path.endswith("/skus"):
            return json.dumps(self._sku_page(query)).encode()
        kind = path.rpartition("/")[2]
        row: Callable[[str, str], dict[str, Any]]
        names, row = (
            (_type_names, _machine_type) if kind == "machineTypes" else (_card_names, _accelerator_type)
        )
        wanted = re.compile(query["filter"].partition(' eq "')[2].removesuffix('"'))
        found = [
            (zone, row(zone, name))
            for index, zone in enumerate(self._zones)
            for name in names(index)
            if wanted.fullmatch(name)
        ]
        return json.dumps(self._aggregated(kind, found, query)).encode()

    def _aggregated(
        self, kind: str, found: list[tuple[str, dict[str, Any]]], query: Mapping[str, str]
    ) -> dict[str, Any]:
        """A page names every zone; one without results on it bears a warning that says so."""
        start = int(query.get("pageToken") or 0)
        end = start + int(query["maxResults"])
        items: dict[str, dict[str, Any]] = {}
        for zone, row in found[start:end]:
            items.setdefault(f"zones/{zone}", {}).setdefault(kind, []).append(row)
        for zone in self._zones:
            items.setdefault(f"zones/{zone}", {"warning": _nothing_in(zone)})
        more = {"nextPageToken": str(end)} if end < len(found) else {}
        return {"kind": f"compute#{kind}AggregatedList", "id": "bench", "items": items, **more}

    def _sku_page(self, query: Mapping[str, str]) -> dict[str, Any]:
        start = int(query.get("pageToken") or 0)
        end = min(self._skus, start + int(query["pageSize"]))
        skus = list(islice(_skus(), start, end))
        return {"skus": skus, "nextPageToken": str(end) if end < self._skus else ""}


@cache
def zones() -> tuple[str, ...]:
    """Three or four in a region."""
    return tuple(sorted(f"{REGIONS[index % 43]}-{chr(97 + index // 43)}" for index in range(ZONES)))


def _has(index: int, amount: int) -> bool:
    """Whether a zone is among `amount` that are spread over all."""
    return index * 37 % ZONES < amount


@cache
def _type_names(index: int) -> tuple[str, ...]:
    gpus = [name for name, (_, _, amount) in _GPU_TYPES.items() if _has(index, amount)]
    kinds = ("standard", "highmem", "highcpu")
    plain = (f"{series}-{kind}-{size}" for series, kind, size in product(_SERIES, kinds, _SIZES))
    return tuple(islice([*gpus, *plain], TYPES))


def _card_names(index: int) -> tuple[str, ...]:
    built_in = {card for card, _, amount in _GPU_TYPES.values() if _has(index, amount)}
    attached = {card for card, amount in _ATTACHED.items() if _has(index, amount)}
    return tuple(sorted(built_in | attached))


def _machine_type(zone: str, name: str) -> dict[str, Any]:
    vcpus = int(re.sub(r"\D", "", name.rpartition("-")[2])) * (12 if name.endswith("g") else 1)
    shown: dict[str, Any] = {
        "kind": "compute#machineType",
        "id": str(abs(hash(name))),
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "name": name,
        "description": f"{vcpus} vCPUs, {4 * vcpus} GB RAM",
        "guestCpus": vcpus,
        "memoryMb": 4096 * vcpus,
        "imageSpaceGb": 0,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "zone": zone,
        "selfLink": f"{_LINKS}/zones/{zone}/machineTypes/{name}",
        "isSharedCpu": False,
        "architecture": "X86_64",
    }
    if name in _GPU_TYPES:
        card, count, _ = _GPU_TYPES[name]
        shown["accelerators"] = [{"guestAcceleratorType": card, "guestAcceleratorCount": count}]
        shown["bundledLocalSsds"] = {"defaultInterface": "NVME", "partitionCount": 16}
    return shown


def _accelerator_type(zone: str, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#acceleratorType",
        "id": str(abs(hash(name))),
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "name": name,
        "description": name,
        "maximumCardsPerInstance": 8,
        "zone": f"{_LINKS}/zones/{zone}",
        "selfLink": f"{_LINKS}/zones/{zone}/acceleratorTypes/{name}",
    }


def _nothing_in(zone: str) -> dict[str, Any]:
    scope = f"zones/{zone}"
    text = f"There are no results for scope '{scope}' on this page."
    return {"code": "NO_RESULTS_ON_PAGE", "message": text, "data": [{"key": "scope", "value": scope}]}


_PARTS = (
    "A2 Instance Core", "A2 Instance Ram", "A3 Instance Core", "A3 Instance Ram", "A3Plus Instance Core",
    "A3Plus Instance Ram", "A3Ultra Instance Core", "A3Ultra Instance Ram", "G2 Instance Core",
    "G2 Instance Ram", "N1 Predefined Instance Core", "N1 Predefined Instance Ram", "N2 Instance Core",
    "N2 Instance Ram", "E2 Instance Core", "E2 Instance Ram", "C3 Instance Core", "C3 Instance Ram",
    "Nvidia Tesla T4 GPU", "Nvidia Tesla V100 GPU", "Nvidia Tesla A100 GPU", "Nvidia Tesla A100 80GB GPU",
    "Nvidia L4 GPU", "Nvidia H100 80GB GPU", "Nvidia H100 80GB Mega GPU", "Nvidia H200 141GB GPU",
)  # fmt: skip


def _skus() -> Iterator[dict[str, Any]]:
    """Those of the parts first, then what a reader passes over: the greater part of the real list."""
    for region in REGIONS:
        for part in _PARTS:
            yield _sku(f"{part} running in {region}", region, "OnDemand", 1.5)
            yield _sku(f"Spot Preemptible {part} running in {region}", region, "Preemptible", 0.5)
    for number in range(SKUS):
        region = REGIONS[number % len(REGIONS)]
        what = _OTHERS[number % len(_OTHERS)]
        yield _sku(f"{what} {number} in {region}", region, "Commit1Yr" if number % 2 else "OnDemand", 0.2)


_OTHERS = (
    "Commitment v1: N2 Cpu", "N2 Sole Tenancy Instance Core", "Licensing Fee for Windows", "Custom Ram",
    "Reserved Nvidia H100 80GB GPU", "Network Inter Region Egress from", "M3 Instance Core running",
)  # fmt: skip


def _sku(description: str, region: str, usage: str, price: float) -> dict[str, Any]:
    digits = f"{abs(hash(description)):012X}"[:12]
    sku_id = f"{digits[:4]}-{digits[4:8]}-{digits[8:]}"
    rate = {"currencyCode": "USD", "units": str(int(price)), "nanos": int(price % 1 * 1e9)}
    expression = {
        "usageUnit": "h",
        "usageUnitDescription": "hour",
        "baseUnit": "s",
        "baseUnitDescription": "second",
        "baseUnitConversionFactor": 3600,
        "displayQuantity": 1,
        "tieredRates": [{"startUsageAmount": 0, "unitPrice": rate}],
    }
    return {
        "name": f"services/6F81-5844-456A/skus/{sku_id}",
        "skuId": sku_id,
        "description": description,
        "category": {
            "serviceDisplayName": "Compute Engine",
            "resourceFamily": "Compute",
            "resourceGroup": "GPU" if "GPU" in description else "CPU",
            "usageType": usage,
        },
        "serviceRegions": [region],
        "pricingInfo": [
            {
                "summary": "",
                "pricingExpression": expression,
                "currencyConversionRate": 1,
                "effectiveTime": "2026-06-01T00:00:00.000000Z",
            }
        ],
        "serviceProviderName": "Google",
        "geoTaxonomy": {"type": "REGIONAL", "regions": [region]},
    }
