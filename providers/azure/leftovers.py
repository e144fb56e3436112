"""Network cards, addresses, disks and availability sets of ours whose machines are gone. All but the sets are
deleted with their machine by its delete option; this finds what stayed behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from providers.azure.arm import Arm, same_place
from providers.azure.versions import COMPUTE, DISKS, NETWORK, RESOURCES
from providers.azure.vm import DEPLOYMENT_TAG, VM_TAG, disk_name, vm_of_disk
from providers.errors import ErrorKind, ProviderError

_DISK, _SET = "microsoft.compute/disks", "microsoft.compute/availabilitysets"
# In the order in which they let go of each other.
_KINDS = {
    "microsoft.network/networkinterfaces": NETWORK,
    "microsoft.network/publicipaddresses": NETWORK,
    _DISK: DISKS,
    _SET: COMPUTE,
}


@dataclass(slots=True)
class Leftover:
    """What is left of one machine. `ids` are ARM ids by kind."""

    vm: str
    tags: Mapping[str, str]
    since: datetime | None = None
    ids: list[tuple[str, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(one.rpartition("/providers/")[2] for _, one in self.ids)


def everything(arm: Arm) -> list[dict[str, Any]]:
    """All resources of the resource group, with the time of their creation."""
    return arm.pages(f"{arm.group}/resources", RESOURCES, expand_="createdTime")


def orphans(
    rows: Iterable[Mapping[str, Any]], region: str, deployment: str, machines: Iterable[str]
) -> list[Leftover]:
    """What of `rows` belongs to machines of a deployment in the region other than those that exist."""
    there = {name.lower() for name in machines}
    found: dict[str, Leftover] = {}
    for row in rows:
        vm = _owner(row)
        if vm is None or vm.lower() in there or not same_place(str(row.get("location")), region):
            continue
        if not _is_of(row, vm, deployment) or (_is_set(row) and _has_machines(vm, there)):
            continue
        tags = {**(row.get("tags") or {}), DEPLOYMENT_TAG: deployment}
        one = found.setdefault(vm, Leftover(vm, tags, _time(row.get("createdTime"))))
        one.ids.append((str(row.get("type")).lower(), str(row["id"])))
    return list(found.values())


def remove(arm: Arm, vm: str) -> None:
    """Delete what is left of a machine that no longer exists. What is still held by another part of it is
    passed over; the next call takes it.
    """
    rows = [row for row in everything(arm) if (_owner(row) or "").lower() == vm.lower()]
    for kind, version in _KINDS.items():
        for row in rows:
            if str(row.get("type")).lower() == kind:
                _delete(arm, str(row["id"]), version)


def _owner(row: Mapping[str, Any]) -> str | None:
    """The machine of ours with which something was made; None for what we would not delete. A disk is known
    by its name, since Azure need not copy a machine's tags to it.
    """
    kind = str(row.get("type")).lower()
    if kind not in _KINDS:
        return None
    tagged = (row.get("tags") or {}).get(VM_TAG)
    return tagged or (vm_of_disk(str(row.get("name"))) if kind == _DISK else None)


def _is_set(row: Mapping[str, Any]) -> bool:
    return str(row.get("type")).lower() == _SET


def _has_machines(vm: str, there: Iterable[str]) -> bool:
    """Whether any node is left of the gang whose first one is named: its availability set is in use."""
    gang = vm.lower().rpartition("-")[0] + "-"
    return any(name.startswith(gang) for name in there)


def _is_of(row: Mapping[str, Any], vm: str, deployment: str) -> bool:
    tagged = (row.get("tags") or {}).get(DEPLOYMENT_TAG)
    if tagged is not None:
        return bool(tagged == deployment)
    return str(row.get("name")).lower() == disk_name(vm, deployment).lower()


def _delete(arm: Arm, path: str, version: str) -> None:
    try:
        arm.delete(path, version)
    except ProviderError as error:
        if error.kind is not ErrorKind.CONFLICT:
            raise


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
