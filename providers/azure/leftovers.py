"""Network cards, addresses and disks of ours whose machine is gone. Each is deleted with its machine by its
delete option; this finds what stayed behind all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from providers.azure.arm import DISKS, NETWORK, RESOURCES, Arm, same_place
from providers.azure.vm import VM_TAG, disk_name
from providers.errors import ErrorKind, ProviderError

# In the order in which they let go of each other.
_KINDS = {
    "microsoft.network/networkinterfaces": NETWORK,
    "microsoft.network/publicipaddresses": NETWORK,
    "microsoft.compute/disks": DISKS,
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


def tagged(arm: Arm, tag: str, value: str) -> list[dict[str, Any]]:
    """Everything in the resource group that bears a tag, with the time of its creation."""
    return arm.pages(
        f"{arm.group}/resources",
        RESOURCES,
        filter_=f"tagName eq '{tag}' and tagValue eq '{value}'",
        expand_="createdTime",
    )


def orphans(rows: Iterable[Mapping[str, Any]], region: str, machines: Iterable[str]) -> list[Leftover]:
    """What of `rows` belongs to machines of the region other than those that exist."""
    there = set(machines)
    found: dict[str, Leftover] = {}
    for row in rows:
        kind, tags = str(row.get("type")).lower(), row.get("tags") or {}
        vm = tags.get(VM_TAG)
        if kind not in _KINDS or not vm or vm in there or not same_place(str(row.get("location")), region):
            continue
        one = found.setdefault(vm, Leftover(vm, tags, _time(row.get("createdTime"))))
        one.ids.append((kind, str(row["id"])))
    return list(found.values())


def remove(arm: Arm, vm: str) -> None:
    """Delete what is left of a machine that no longer exists. What is still held by another part of it is
    passed over; the next call takes it.
    """
    rows = [row for row in tagged(arm, VM_TAG, vm) if str(row.get("type")).lower() in _KINDS]
    for kind, version in _KINDS.items():
        for row in rows:
            if str(row.get("type")).lower() == kind:
                _delete(arm, str(row["id"]), version)
    # Azure need not copy a machine's tags to the disk that it makes with it; the name is ours.
    _delete(arm, f"{arm.group}/providers/Microsoft.Compute/disks/{disk_name(vm)}", DISKS)


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
