"""What ships with the adapter: GPU types of a region with list prices, shown until something was read.

Sizes: Compute Engine, "GPU machine types". Zones: where SkyPilot's catalogue of 2026 has them; of G2 it has
the regions only, which have zones a to c unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from providers.config import AccountConfig, RegionConfig
from providers.gcp.machine_types import GPUS, accelerator_of, capacity_types, family_of
from providers.gcp.offers import with_fabric
from providers.gcp.price_list import AS_OF, list_price
from providers.vocabulary import InstanceType, Offer, OfferKey, OfferListing

# Type prefix, acceleratorType, local disk in GiB for each GPU; then suffix -> vCPUs, memory in GiB, GPUs.
_SERIES: tuple[tuple[str, str, float, dict[str, tuple[int, float, int]]], ...] = (
    (
        "a2-highgpu-",
        "nvidia-tesla-a100",
        0,
        {"1g": (12, 85, 1), "2g": (24, 170, 2), "4g": (48, 340, 4), "8g": (96, 680, 8)},
    ),
    (
        "a2-ultragpu-",
        "nvidia-a100-80gb",
        375,
        {"1g": (12, 170, 1), "2g": (24, 340, 2), "4g": (48, 680, 4), "8g": (96, 1360, 8)},
    ),
    (
        "a3-highgpu-",
        "nvidia-h100-80gb",
        750,
        {"1g": (26, 234, 1), "2g": (52, 468, 2), "4g": (104, 936, 4), "8g": (208, 1872, 8)},
    ),
    ("a3-megagpu-", "nvidia-h100-mega-80gb", 750, {"8g": (208, 1872, 8)}),
    ("a3-ultragpu-", "nvidia-h200-141gb", 1500, {"8g": (224, 2952, 8)}),
    ("a4-highgpu-", "nvidia-b200", 1500, {"8g": (224, 3968, 8)}),
    (
        "g2-standard-",
        "nvidia-l4",
        0,
        {
            **{str(vcpus): (vcpus, 4 * vcpus, 1) for vcpus in (4, 8, 12, 16, 32)},
            "24": (24, 96, 2),
            "48": (48, 192, 4),
            "96": (96, 384, 8),
        },
    ),
)

# Type prefix -> region -> the letters of its zones.
_ZONES: dict[str, dict[str, str]] = {
    "a2-highgpu-": {
        "asia-northeast1": "ac",
        "asia-northeast3": "ab",
        "asia-southeast1": "abc",
        "europe-west4": "ab",
        "me-west1": "ac",
        "us-central1": "abcf",
        "us-east1": "b",
        "us-west1": "b",
        "us-west3": "b",
        "us-west4": "b",
    },
    "a2-ultragpu-": {
        "asia-southeast1": "c",
        "europe-west4": "a",
        "us-central1": "ac",
        "us-east4": "c",
        "us-east5": "ab",
    },
    "a3-highgpu-": {
        "asia-northeast1": "b",
        "asia-southeast1": "bc",
        "europe-west1": "bc",
        "europe-west4": "bc",
        "us-central1": "abc",
        "us-east4": "abc",
        "us-east5": "a",
        "us-west1": "ab",
        "us-west4": "a",
    },
    "a3-megagpu-": {
        "asia-northeast1": "b",
        "asia-southeast1": "bc",
        "europe-west1": "bc",
        "europe-west4": "bc",
        "us-central1": "abc",
        "us-east4": "abc",
        "us-east5": "a",
        "us-west1": "ab",
        "us-west4": "a",
    },
    "a3-ultragpu-": {
        "asia-south1": "b",
        "europe-west1": "b",
        "europe-west4": "a",
        "us-central1": "b",
        "us-east4": "b",
        "us-east5": "a",
        "us-west1": "c",
    },
    "a4-highgpu-": {
        "asia-northeast1": "b",
        "asia-southeast1": "b",
        "europe-west4": "b",
        "us-central1": "b",
        "us-east1": "b",
        "us-east4": "b",
        "us-west2": "c",
        "us-west3": "bc",
    },
    "g2-standard-": {
        **dict.fromkeys(("asia-east1", "asia-northeast1", "asia-northeast3", "asia-south1"), "abc"),
        **dict.fromkeys(("asia-southeast1", "europe-west2", "europe-west3", "europe-west4"), "abc"),
        **dict.fromkeys(("us-central1", "us-east4", "us-west1", "us-west4"), "abc"),
        **dict.fromkeys(("us-east1", "europe-west1"), "bcd"),
    },
}


def built_in_offers(config: AccountConfig, region: str) -> OfferListing:
    """The region's offers as they were known when this was written, marked `snapshot`; asks nobody."""
    settings = config.regions.get(region)
    if settings is None:
        return OfferListing((), (region,))
    return OfferListing(tuple(_offers(config, settings, region)))


def _offers(config: AccountConfig, settings: RegionConfig, region: str) -> Iterator[Offer]:
    for zone, size in _sizes(settings, region):
        if config.allowed_types and size.name not in config.allowed_types:
            continue
        gpus = size.accelerator.count if size.accelerator else 0
        for how in capacity_types(size.name):
            key = OfferKey("gcp", config.name, region, zone, size.name, how)
            price = list_price(region, size.name, gpus, how)
            yield Offer(key, with_fabric(size, settings), price, AS_OF, "snapshot")


def _sizes(settings: RegionConfig, region: str) -> Iterator[tuple[str, InstanceType]]:
    for prefix, card, disk, sizes in _SERIES:
        usual = [f"{region}-{letter}" for letter in _ZONES[prefix].get(region, "")]
        for zone in usual:
            if settings.zones and zone not in settings.zones:
                continue
            for suffix, (vcpus, memory, gpus) in sizes.items():
                yield zone, _type(f"{prefix}{suffix}", card, vcpus, memory, gpus, disk)


def _type(name: str, card: str, vcpus: int, memory: float, gpus: int, disk: float) -> InstanceType:
    return InstanceType(
        name=name,
        family=family_of(name),
        vcpus=vcpus,
        memory_gib=memory,
        accelerator=accelerator_of(GPUS[card].name, gpus),
        local_disk_gib=disk * gpus,
    )
