"""Network interfaces as an insert asks for them, checked as the API checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.faces.gce import resources
from sandbox.faces.gce.answers import Call, invalid

# How many further interfaces a machine type takes, and of which kind (Compute Engine: GPUDirect of A3, RDMA
# of A3 Ultra and A4).
_MORE: dict[str, tuple[str, ...]] = {
    "a3-highgpu-8g": ("GVNIC",) * 4,
    "a3-megagpu-8g": ("GVNIC",) * 8,
    "a3-ultragpu-8g": ("GVNIC", *("MRDMA",) * 8),
    "a4-highgpu-8g": ("GVNIC", *("MRDMA",) * 8),
}


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface: subnetwork and network by name, the kind, whether it has an external address."""

    subnet: str
    network: str
    kind: str
    public: bool


def read(call: Call, body: Mapping[str, Any], instance_type: str) -> list[Interface]:
    """All interfaces, the first one first. No two of them share a network, RDMA ones apart."""
    given = body.get("networkInterfaces", ())
    kinds = [str(interface.get("nicType", "")) for interface in given]
    allowed = _MORE.get(instance_type, ())
    if not given or tuple(kinds[1:]) != allowed[: len(kinds) - 1]:
        why = f"{instance_type} takes one interface and {len(allowed)} further ones: {', '.join(allowed)}."
        raise invalid("resource.networkInterfaces", len(given), why)
    found = [_interface(call, index, interface) for index, interface in enumerate(given)]
    networks = [one.network for one in found if one.kind != "MRDMA"]
    if len(set(networks)) != len(networks):
        why = "Network interfaces must be in networks of their own."
        raise invalid("resource.networkInterfaces", networks, why)
    return found


def _interface(call: Call, index: int, given: Mapping[str, Any]) -> Interface:
    field, text = "subnetwork", str(given.get("subnetwork", ""))
    if not text:
        field, text = "network", str(given.get("network", "global/networks/default"))
    name = text.rpartition("/")[2]
    region = call.path["zone"].rpartition("-")[0]
    if name not in resources.SUBNETS or (field == "subnetwork" and f"regions/{region}/" not in text):
        why = f"The referenced {field} resource cannot be found."
        raise invalid(f"resource.networkInterfaces[{index}].{field}", text, why)
    kind, rdma = str(given.get("nicType", "")), resources.SUBNETS[name] == resources.RDMA
    if rdma is not (kind == "MRDMA"):
        why = f"The network profile of {resources.SUBNETS[name]} does not take it."
        raise invalid(f"resource.networkInterfaces[{index}].nicType", kind, why)
    return Interface(name, resources.SUBNETS[name], kind, bool(given.get("accessConfigs")))
