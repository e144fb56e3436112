"""What exists beside instances: placement policies, which the face keeps, and disks that outlived theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sandbox.catalogue import Catalogue
from sandbox.faces.gce import lists, resources
from sandbox.faces.gce.answers import ApiError, Call, not_found
from sandbox.ledger import stamp
from sandbox.vm import Vm
from sandbox.world import World

Body = dict[str, Any]


@dataclass(slots=True)
class Policy:
    """A placement policy. It can be used once it is `ready_at`."""

    project: str
    region: str
    name: str
    body: Body
    made_at: datetime
    ready_at: datetime


class Estate:
    """Policies and disks of the face. `handlers`: method id -> what answers it. Safe to share."""

    def __init__(self, world: World, table: Catalogue) -> None:
        self._world = world
        self._table = table
        self._lock = threading.Lock()
        self._policies: dict[tuple[str, str, str], Policy] = {}
        self._operations: dict[str, tuple[datetime, Body]] = {}
        self.handlers: Mapping[str, Callable[[Call], Body]] = {
            "resourcePolicies.insert": self._insert_policy,
            "resourcePolicies.get": lambda call: self._policy_shown(call, self._policy(call)),
            "resourcePolicies.delete": self._delete_policy,
            "resourcePolicies.list": self._list_policies,
            "regionOperations.get": self._operation,
            "disks.aggregatedList": self._list_disks,
            "disks.delete": self._delete_disk,
        }

    def usable(self, project: str, region: str, name: str) -> bool:
        """Whether instances may be placed by that policy."""
        found = self._policies.get((project, region, name))
        return found is not None and self._world.now() >= found.ready_at

    # Policies

    def _insert_policy(self, call: Call) -> Body:
        region, name = self._region(call), str(call.body.get("name", ""))
        if not resources.valid_name(name) or "groupPlacementPolicy" not in call.body:
            raise ApiError(400, "invalid", f"Invalid value for field 'resource': '{name}'.")
        now = self._world.now()
        ready = now + timedelta(seconds=self._world.timings("gcp").verdict_seconds)
        key = call.project, region, name
        with self._lock:
            if key in self._policies:
                where = f"projects/{call.project}/regions/{region}/resourcePolicies/{name}"
                raise ApiError(409, "alreadyExists", f"The resource '{where}' already exists")
            self._policies[key] = Policy(call.project, region, name, dict(call.body), now, ready)
        return self._open(call, "insert", name, ready)

    def _delete_policy(self, call: Call) -> Body:
        found = self._policy(call)
        users = self._world.vms(
            "gcp",
            lambda vm: (
                vm.live and vm.region == found.region and found.name in vm.extra.get("resource_policies", ())
            ),
        )
        if users:
            where = f"projects/{call.project}/regions/{found.region}/resourcePolicies/{found.name}"
            text = f"The resource_policy resource '{where}' is already being used by '{users[0].name}'"
            raise ApiError(400, "resourceInUseByAnotherResource", text)
        with self._lock:
            self._policies.pop((call.project, found.region, found.name), None)
        return self._open(call, "delete", found.name, self._world.now())

    def _list_policies(self, call: Call) -> Body:
        region = self._region(call)
        mine = [p for p in list(self._policies.values()) if (p.project, p.region) == (call.project, region)]
        return lists.listed(call, "resourcePolicy", [self._policy_shown(call, policy) for policy in mine])

    def _policy(self, call: Call) -> Policy:
        region, name = self._region(call), call.path["policy"]
        found = self._policies.get((call.project, region, name))
        if found is None:
            raise not_found(call, "regions", region, "resourcePolicies", name)
        return found

    def _policy_shown(self, call: Call, policy: Policy) -> Body:
        return {
            "kind": "compute#resourcePolicy",
            "id": resources.number(f"policy/{policy.region}/{policy.name}"),
            "creationTimestamp": stamp(policy.made_at),
            "name": policy.name,
            "region": call.link("regions", policy.region),
            "selfLink": call.link("regions", policy.region, "resourcePolicies", policy.name),
            "status": "READY" if self._world.now() >= policy.ready_at else "CREATING",
            "description": str(policy.body.get("description", "")),
            "groupPlacementPolicy": policy.body["groupPlacementPolicy"],
        }

    def _open(self, call: Call, kind: str, name: str, ends_at: datetime) -> Body:
        region = call.path["region"]
        number = resources.number(f"{kind}/{region}/{name}/{len(self._operations)}")
        body: Body = {
            "kind": "compute#operation",
            "id": number,
            "name": f"operation-{number}",
            "operationType": kind,
            "region": call.link("regions", region),
            "targetLink": call.link("regions", region, "resourcePolicies", name),
            "insertTime": stamp(self._world.now()),
            "selfLink": call.link("regions", region, "operations", f"operation-{number}"),
        }
        with self._lock:
            self._operations[body["name"]] = ends_at, body
        return self._operation_shown(body["name"])

    def _operation(self, call: Call) -> Body:
        if call.path["operation"] not in self._operations:
            raise not_found(call, "regions", self._region(call), "operations", call.path["operation"])
        return self._operation_shown(call.path["operation"])

    def _operation_shown(self, name: str) -> Body:
        ends_at, body = self._operations[name]
        done = self._world.now() >= ends_at
        return {**body, "status": "DONE" if done else "RUNNING", "progress": 100 if done else 0}

    def _region(self, call: Call) -> str:
        region = call.path["region"]
        if region not in self._table.factors:
            raise not_found(call, "regions", region)
        return region

    # Disks

    def _list_disks(self, call: Call) -> Body:
        scopes: dict[str, list[Body]] = {f"zones/{zone}": [] for zone in self._table.zones}
        for vm in self._world.vms("gcp", lambda vm: vm.extra.get("project") == call.project):
            if self._world.exists("gcp", "disk", _disk_id(vm)):
                scopes[f"zones/{vm.zone}"].append(_disk(call, vm))
        return lists.aggregated(call, "disk", "disks", scopes)

    def _delete_disk(self, call: Call) -> Body:
        zone, name = call.path["zone"], call.path["disk"]
        owners = self._world.vms("gcp", lambda vm: (vm.zone, vm.name) == (zone, name))
        if not self._world.exists("gcp", "disk", f"{zone}/{name}"):
            raise not_found(call, "zones", zone, "disks", name)
        if any(vm.live for vm in owners):
            where = f"projects/{call.project}/zones/{zone}/disks/{name}"
            text = f"The disk resource '{where}' is already being used by '{name}'"
            raise ApiError(400, "resourceInUseByAnotherResource", text)
        self._world.release("gcp", "disk", f"{zone}/{name}")
        number = resources.number(f"delete/{zone}/{name}")
        return {
            "kind": "compute#operation",
            "id": number,
            "name": f"operation-{number}",
            "operationType": "delete",
            "zone": call.link("zones", zone),
            "targetLink": call.link("zones", zone, "disks", name),
            "status": "DONE",
            "progress": 100,
            "insertTime": stamp(self._world.now()),
        }


def _disk_id(vm: Vm) -> str:
    return f"{vm.zone}/{vm.name}"


def _disk(call: Call, vm: Vm) -> Body:
    disk = vm.extra["disk"]
    shown: Body = {
        "kind": "compute#disk",
        "id": resources.number(f"disk/{_disk_id(vm)}"),
        "creationTimestamp": stamp(vm.created_at),
        "name": vm.name,
        "zone": call.link("zones", vm.zone),
        "selfLink": call.link("zones", vm.zone, "disks", vm.name),
        "status": "READY",
        "sizeGb": str(disk["size_gb"]),
        "labels": disk["labels"],
    }
    return {**shown, "users": [call.link("zones", vm.zone, "instances", vm.name)]} if vm.live else shown
