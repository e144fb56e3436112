"""What the face keeps beside the world: operations, groups, and machines that never came to be."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sandbox.faces.arm.operations import Operations
from sandbox.vm import Vm
from sandbox.world import World

#: The group that exists from the start.
GROUP = "sandbox"


@dataclass(slots=True)
class FailedVm:
    """A create that was accepted and fails at `fails_at`. The resource stays until it is deleted."""

    name: str
    subscription: str
    group: str
    vm_id: str
    zone: str
    location: str
    body: Mapping[str, Any]
    created_at: datetime
    fails_at: datetime
    error: dict[str, str]


@dataclass(frozen=True, slots=True)
class AvailabilitySet:
    """Machines that are placed together. aligned: for machines with managed disks."""

    name: str
    subscription: str
    group: str
    location: str
    tags: dict[str, str]
    aligned: bool
    fault_domains: int
    created_at: datetime


@dataclass(slots=True)
class Face:
    """Handlers change it under `lock`, which is never held while the world waits for anything else.

    accepted: (subscription, publisher:offer:plan) whose terms were accepted.
    """

    world: World
    operations: Operations = field(default_factory=Operations)
    failed: dict[tuple[str, str, str], FailedVm] = field(default_factory=dict)
    groups: dict[tuple[str, str], str] = field(default_factory=dict)
    sets: dict[tuple[str, str, str], AvailabilitySet] = field(default_factory=dict)
    accepted: set[tuple[str, str]] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def vm(self, subscription: str, group: str, name: str) -> Vm | None:
        """The machine of that name that is not over, lag or no lag; case makes no difference."""
        wanted = key(subscription, group, name)
        found = self.world.vms("azure", lambda vm: vm.live and key_of(vm) == wanted)
        return found[-1] if found else None

    def group_exists(self, subscription: str, group: str) -> bool:
        """Whether the resource group was there from the start or was made."""
        return group.lower() == GROUP or (subscription.lower(), group.lower()) in self.groups


def key(subscription: str, group: str, name: str) -> tuple[str, str, str]:
    """Resource names are compared without case."""
    return subscription.lower(), group.lower(), name.lower()


def key_of(vm: Vm) -> tuple[str, str, str]:
    """The same of a machine of ours."""
    return key(vm.extra["subscription"], vm.extra["resource_group"], vm.name)


def resource_id(subscription: str, group: str, kind: str, name: str) -> str:
    """`/subscriptions/…/providers/KIND/NAME`."""
    return f"/subscriptions/{subscription}/resourceGroups/{group}/providers/{kind}/{name}"


def id_of(vm: Vm, kind: str = "Microsoft.Compute/virtualMachines", name: str | None = None) -> str:
    """The ARM id of a machine, or of something that was made with it."""
    return resource_id(vm.extra["subscription"], vm.extra["resource_group"], kind, name or vm.name)
