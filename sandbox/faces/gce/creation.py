"""Makes and deletes instances, and opens the operations that tell of it."""

from __future__ import annotations

import threading
from typing import Any

from sandbox.admission import Refusal
from sandbox.catalogue import Catalogue
from sandbox.faces.gce import refusals, reserved, wishes
from sandbox.faces.gce.answers import ApiError, Call
from sandbox.faces.gce.estate import Estate
from sandbox.faces.gce.operations import Failure, Operations, Record, shown
from sandbox.faults import Fault
from sandbox.vm import Vm
from sandbox.world import World

PROVIDER = "gcp"
Body = dict[str, Any]


class Creation:
    """The mutating calls. One create at a time, so that a name or a requestId is taken once."""

    def __init__(self, world: World, table: Catalogue, operations: Operations, estate: Estate) -> None:
        self._estate = estate
        self._world = world
        self._table = table
        self._operations = operations
        self._creating = threading.Lock()

    def fail(self, call: Call, fault: Fault) -> Body:
        """An operation that ends as scripted. An http_status below 400 leaves it without any."""
        status = fault.http_status if fault.http_status >= 400 else None
        text = fault.message or fault.code
        failure = Failure([{"code": fault.code, "message": text}], status, text)
        name = str(call.body.get("name", ""))
        record = self._open(call, "insert" if name else "bulkInsert", name, failure=failure)
        return shown(record, self._world.now())

    def insert(self, call: Call) -> Body:
        """One instance."""
        with self._creating:
            known = self._operations.of_request(call.project, wishes.request_id(call))
            if known is not None:
                return shown(known, self._world.now())
            wish = wishes.read(wishes.single, call, self._table)
            name = wish.names[0]
            if self._taken(call, name):
                resource = f"projects/{call.project}/zones/{call.path['zone']}/instances/{name}"
                raise ApiError(409, "alreadyExists", f"The resource '{resource}' already exists")
            stuck = call.faulty("stuck") is not None
            try:
                vm = self._allocate(call, wish)[0]
            except Refusal as refusal:
                record = self._open(call, "insert", name, failure=self._failure(refusal, call), stuck=stuck)
            else:
                record = self._open(call, "insert", name, target_id=vm.id, vm=vm, stuck=stuck)
        return shown(record, self._world.now())

    def bulk_insert(self, call: Call) -> Body:
        """Several in one zone, all or none."""
        with self._creating:
            known = self._operations.of_request(call.project, wishes.request_id(call))
            if known is not None:
                return shown(known, self._world.now())
            wish = wishes.read(wishes.gang, call, self._table)
            taken = [name for name in wish.names if self._taken(call, name)]
            made: list[Vm] = []
            failure: Failure | None = None
            if taken:
                failure = Failure([refusals.taken(call, taken[0])], 409, "CONFLICT")
            else:
                try:
                    made = self._allocate(call, wish)
                except Refusal as refusal:
                    failure = self._failure(refusal, call)
            record = self._open_bulk(call, wish, made, failure)
        return shown(record, self._world.now())

    def delete(self, call: Call, vm: Vm) -> Body:
        """The instance with what was made for it. Deleted while it is made, its insert ends in a conflict."""
        known = self._operations.of_request(call.project, wishes.request_id(call))
        if known is not None:
            return shown(known, self._world.now())
        unfinished = self._operations.unfinished_create(vm)
        if unfinished is not None:
            unfinished.failure = Failure(http_status=409, http_message="CONFLICT")
            unfinished.ends_at = self._world.now()
        record = self._open(call, "delete", vm.name, target_id=vm.id, vm=vm, seconds=None)
        self._world.terminate(vm)
        return shown(record, self._world.now())

    def _open(self, call: Call, kind: str, name: str, **facts: Any) -> Record:
        facts.setdefault("seconds", self._world.timings(PROVIDER).verdict_seconds)
        facts.setdefault("request_id", wishes.request_id(call))
        target = f"instances/{name}" if name else ""
        return self._operations.open(call.project, call.path["zone"], kind, target, **facts)

    def _open_bulk(self, call: Call, wish: wishes.Wish, made: list[Vm], failure: Failure | None) -> Record:
        """The parent operation, which says little, and one for each instance, which say why."""
        count = len(wish.names)
        location = {
            "status": "DONE",
            "targetVmCount": count,
            "createdVmCount": len(made),
            "failedToCreateVmCount": count - len(made),
        }
        outcome = None
        if failure is not None:
            outcome = Failure([refusals.below_minimum(count)], failure.http_status, failure.http_message)
        parent = self._open(
            call,
            "bulkInsert",
            "",
            failure=outcome,
            stuck=call.faulty("stuck") is not None,
            locations={f"zones/{call.path['zone']}": location},
        )
        parent.group = parent.name
        for index, name in enumerate(wish.names):
            vm = made[index] if made else None
            facts = {"vm": vm, "target_id": vm.id} if vm else {"failure": failure}
            self._open(call, "insert", name, request_id=None, group=parent.name, **facts)
        return parent

    def _failure(self, refusal: Refusal, call: Call) -> Failure:
        if refusal.kind not in ("capacity", "quota", "spot_quota", "reservation"):
            raise refusals.synchronous(refusal)
        return refusals.failure_of(refusal, call)

    def _taken(self, call: Call, name: str) -> bool:
        zone = call.path["zone"]
        return bool(
            self._world.vms(
                PROVIDER,
                lambda vm: vm.live and (vm.zone, vm.name, vm.extra["project"]) == (zone, name, call.project),
            )
        )

    def _allocate(self, call: Call, wish: wishes.Wish) -> list[Vm]:
        zone = call.path["zone"]
        self._check_policies(call, wish)
        reserved.check_model(self._world, wish.reservation, wish.extra["scheduling"])
        return self._world.allocate(
            PROVIDER,
            region=self._table.zones[zone].region,
            zone=zone,
            instance_type=wish.instance_type,
            capacity_type="spot" if wish.capacity_type == "spot" else "on_demand",
            names=wish.names,
            token=wish.labels.get("corral-token", wish.names[0]),
            tags=wish.labels,
            user_data=wish.user_data,
            public_ip=wish.public_ip,
            reservation=wish.reservation,
            matching=wish.matching,
            max_run_seconds=wish.max_run_seconds,
            poweroff="stop",
            eviction="delete" if wish.delete_on_eviction else "stop",
            keep=("disk",) if wish.keep_disk else (),
            objects={"disk": f"{zone}/{{name}}"},
            extra=wish.extra,
        )

    def _check_policies(self, call: Call, wish: wishes.Wish) -> None:
        region = self._table.zones[call.path["zone"]].region
        for name in wish.extra["resource_policies"]:
            if not self._estate.usable(call.project, region, name):
                where = f"projects/{call.project}/regions/{region}/resourcePolicies/{name}"
                raise ApiError(404, "notFound", f"The resource '{where}' was not found")
