"""Linux list prices, for when the price API cannot be read. On-demand only: spot prices move.

Sources: Azure retail prices (pay as you go, USD per hour) and, for what a size holds, the size pages of the
Azure documentation. Regions whose prices differ are not here, since a price that is not known must not be
guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from providers.azure.errors import family_key
from providers.azure.sizes import accelerator
from providers.azure.skus import Size
from providers.vocabulary import InstanceType

TAKEN_AT = datetime(2026, 1, 1, tzinfo=UTC)

REGIONS = frozenset({"eastus", "eastus2", "westus2", "westus3"})

ON_DEMAND: dict[str, float] = {
    "Standard_NC4as_T4_v3": 0.526,
    "Standard_NC8as_T4_v3": 0.752,
    "Standard_NC16as_T4_v3": 1.204,
    "Standard_NC64as_T4_v3": 4.352,
    "Standard_NV36ads_A10_v5": 3.2,
    "Standard_NV36adms_A10_v5": 4.52,
    "Standard_NV72ads_A10_v5": 6.52,
    "Standard_NC24ads_A100_v4": 3.673,
    "Standard_NC48ads_A100_v4": 7.346,
    "Standard_NC96ads_A100_v4": 14.692,
    "Standard_ND96asr_v4": 27.197,
    "Standard_ND96amsr_A100_v4": 32.77,
    "Standard_NC40ads_H100_v5": 6.98,
    "Standard_NC80adis_H100_v5": 13.96,
    "Standard_ND96isr_H100_v5": 98.32,
    "Standard_D2s_v5": 0.096,
    "Standard_D4s_v5": 0.192,
    "Standard_D8s_v5": 0.384,
    "Standard_D16s_v5": 0.768,
    "Standard_D32s_v5": 1.536,
    "Standard_D64s_v5": 3.072,
    "Standard_E4s_v5": 0.252,
    "Standard_E8s_v5": 0.504,
    "Standard_E16s_v5": 1.008,
    "Standard_E32s_v5": 2.016,
}


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A size as its page describes it: memory and local disk in GiB; `rdma`: it has InfiniBand."""

    name: str
    family: str
    vcpus: int
    memory_gib: float
    gpus: int
    local_disk_gib: float
    rdma: bool = False


_T4, _A10 = "Standard NCASv3_T4 Family", "StandardNVADSA10v5Family"
_NC_A100, _NC_H100 = "StandardNCADSA100v4Family", "StandardNCadsH100v5Family"

SIZES: tuple[BuiltIn, ...] = (
    BuiltIn("Standard_NC4as_T4_v3", _T4, 4, 28, 1, 176),
    BuiltIn("Standard_NC8as_T4_v3", _T4, 8, 56, 1, 352),
    BuiltIn("Standard_NC16as_T4_v3", _T4, 16, 110, 1, 352),
    BuiltIn("Standard_NC64as_T4_v3", _T4, 64, 440, 4, 2816),
    BuiltIn("Standard_NV36ads_A10_v5", _A10, 36, 440, 1, 1440),
    BuiltIn("Standard_NV36adms_A10_v5", _A10, 36, 880, 1, 2880),
    BuiltIn("Standard_NV72ads_A10_v5", _A10, 72, 880, 2, 2880),
    BuiltIn("Standard_NC24ads_A100_v4", _NC_A100, 24, 220, 1, 894),
    BuiltIn("Standard_NC48ads_A100_v4", _NC_A100, 48, 440, 2, 1788),
    BuiltIn("Standard_NC96ads_A100_v4", _NC_A100, 96, 880, 4, 3576),
    BuiltIn("Standard_ND96asr_v4", "Standard NDASv4_A100 Family", 96, 900, 8, 6000, True),
    BuiltIn("Standard_ND96amsr_A100_v4", "standard NDAMSv4_A100Family", 96, 1900, 8, 6400, True),
    BuiltIn("Standard_NC40ads_H100_v5", _NC_H100, 40, 320, 1, 3576),
    BuiltIn("Standard_NC80adis_H100_v5", _NC_H100, 80, 640, 2, 7152),
    BuiltIn("Standard_ND96isr_H100_v5", "standardNDSH100v5Family", 96, 1900, 8, 28672, True),
    BuiltIn("Standard_ND96isr_H200_v5", "standardNDISRH200V5Family", 96, 1850, 8, 28672, True),
)
ZONES = ("1", "2", "3")
"""Of each region in REGIONS."""


def sizes() -> dict[str, Size]:
    """The built-in sizes by name, as if a region had just told of them."""
    return {one.name: _size(one) for one in SIZES}


def _size(one: BuiltIn) -> Size:
    kind = InstanceType(
        name=one.name,
        family=family_key(one.family),
        vcpus=one.vcpus,
        memory_gib=one.memory_gib,
        accelerator=accelerator(one.name, one.gpus),
        local_disk_gib=one.local_disk_gib,
    )
    return Size(
        type=kind,
        family=one.family,
        zones=ZONES,
        regional=True,
        spot=True,
        generations=frozenset({"V2"}),
        premium_disks=True,
        rdma=one.rdma,
    )
