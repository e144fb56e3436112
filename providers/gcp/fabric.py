"""The fast interconnect between machines: which types have one, and the interfaces that it takes. No I/O.

Source: Compute Engine, "Network bandwidth" and GPUDirect of A3 (each further gVNIC in a network of its own),
and "RDMA network profiles" of A3 Ultra and A4 (eight MRDMA interfaces in one network).
"""

from __future__ import annotations

from providers.config import RegionConfig

GPUDIRECT = "gpudirect"

_GVNIC, _MRDMA = "GVNIC", "MRDMA"

# Instance type -> the kinds of its further interfaces, in order.
INTERFACES: dict[str, tuple[str, ...]] = {
    "a3-highgpu-8g": (_GVNIC,) * 4,
    "a3-megagpu-8g": (_GVNIC,) * 8,
    "a3-ultragpu-8g": (_GVNIC, *(_MRDMA,) * 8),
    "a4-highgpu-8g": (_GVNIC, *(_MRDMA,) * 8),
}

# The first interface of a machine with several.
FIRST = _GVNIC


def subnets_of(settings: RegionConfig, instance_type: str) -> tuple[str, ...] | None:
    """The subnetworks for a type's further interfaces; None where the type takes none, or the settings have
    not as many as it takes.
    """
    kinds = INTERFACES.get(instance_type)
    given = settings.fabric_subnets.get(instance_type, ())
    return given if kinds and len(given) == len(kinds) else None


def fault_in(settings: RegionConfig) -> str:
    """What is wrong with a region's `fabric_subnets`; empty if nothing."""
    faults = []
    for name, given in settings.fabric_subnets.items():
        kinds = INTERFACES.get(name)
        if kinds is None:
            faults.append(f"{name} takes no further interfaces; those that do are {', '.join(INTERFACES)}")
        elif len(given) != len(kinds):
            faults.append(f"{name} takes {len(kinds)} further interfaces, {len(given)} subnetworks are given")
    return "; ".join(faults)


def missing(instance_type: str, region: str) -> str:
    """Why a type cannot be had with a fast interconnect."""
    kinds = INTERFACES.get(instance_type)
    if kinds is None:
        return f"{instance_type} has no fast interconnect; types that have one: {', '.join(INTERFACES)}"
    return (
        f"{instance_type} needs {len(kinds)} subnetworks for its further interfaces: "
        f"set fabric_subnets of region {region}"
    )
