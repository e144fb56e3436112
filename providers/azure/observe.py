"""Reading machines: one by one with their power, or all of a resource group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from providers.azure import operations
from providers.azure.arm import Arm, same_place
from providers.azure.errors import Attempt, from_body
from providers.azure.evictions import preempted
from providers.azure.leftovers import Leftover, everything, orphans
from providers.azure.networks import Networks
from providers.azure.remembered import Remembered
from providers.azure.starting import Starting
from providers.azure.states import attempt_of, failure, instance, node_of_name, read_status, state_of
from providers.azure.versions import COMPUTE
from providers.azure.vm import DEPLOYMENT_TAG, TOKEN_TAG
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import (
    CapacityType,
    CloudInstance,
    EndReason,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    Listing,
)

_SPOT = CapacityType.SPOT

ONE_BY_ONE = 10
"""Machines up to which each is read by its name; more are listed, in as many calls however many they are."""


class Observer:
    """What an account's machines look like from outside."""

    def __init__(self, arm: Arm, networks: Networks, remembered: Remembered, starting: Starting) -> None:
        self._arm = arm
        self._group = f"{arm.group}/providers/Microsoft.Compute/virtualMachines"
        self._networks = networks
        self._remembered = remembered
        self._starting = starting

    def get(self, name: str, region: str | None = None) -> dict[str, Any]:
        """One machine with its instance view; ProviderError not_found if there is none."""
        return self._arm.get(self._arm.vm_path(name), COMPUTE, region=region, expand_="instanceView")

    def instance_of(self, vm: Mapping[str, Any], region: str, operation: str | None = None) -> CloudInstance:
        """A machine's answer, with its instance view, in our words; addresses are read beside it."""
        status, attempt = read_status(vm), attempt_of(self._arm.account, vm, region)
        error = failure(status, attempt)
        if error is not None and not status.code:
            error = self._operation_error(operation, str(vm.get("name")), attempt) or error
        state = state_of(status, refused=error is not None)
        private, public = self._networks.addresses(vm) if state is InstanceState.RUNNING else (None, None)
        detail = f"{status.provisioning} {status.code} {status.message}".strip()
        return instance(
            vm,
            region,
            state,
            private_ip=private,
            public_ip=public,
            error=error,
            detail=detail if status.provisioning == "failed" else "",
        )

    def describe(self, refs: Sequence[InstanceRef]) -> list[CloudInstance]:
        """The state of each; those that vanished are looked up together afterwards."""
        shown = self._all() if len(refs) > ONE_BY_ONE else {}
        seen = [self._look(ref, shown.get(ref.provider_id.lower())) for ref in refs]
        gone = [
            ref.provider_id
            for ref, one in zip(refs, seen, strict=True)
            if ref.capacity_type is _SPOT and _may_be_evicted(one)
        ]
        # What we ended ourselves was not evicted, and asking costs: Resource Graph allows 15 calls in 5 s.
        gone = [name for name in gone if not self._remembered.ended(name)]
        evicted = preempted(self._arm, gone) if gone else frozenset()
        return [_with_reason(one) if one.provider_id in evicted else one for one in seen]

    def find(self, request: LaunchRequest) -> Listing:
        """The machines of a request's names that bear its token, and those known to be over: one that was
        evicted before anybody heard of it must not be made again.
        """
        found: list[CloudInstance] = []
        gone: list[str] = []
        incomplete: list[str] = []
        for name in request.names():
            try:
                vm = self.get(name, request.offer.region)
            except ProviderError as error:
                (gone if error.kind is ErrorKind.NOT_FOUND else incomplete).append(name)
                continue
            if (vm.get("tags") or {}).get(TOKEN_TAG) == request.token:
                found.append(self.instance_of(vm, request.offer.region))
        found += [_ended(request, name, None) for name in gone if self._remembered.is_over(name)]
        unexplained = [name for name in gone if not self._remembered.ended(name)]
        if request.offer.capacity_type is _SPOT and unexplained:
            evicted = preempted(self._arm, unexplained)
            found += [_ended(request, name, EndReason.PREEMPTED) for name in sorted(evicted)]
        return Listing(tuple(found), tuple(incomplete))

    def listing(self, region: str, deployment: str) -> Listing:
        """All machines of a deployment in a region, and what is left of those that are gone."""
        machines = self._arm.pages(self._group, COMPUTE)
        ours = [
            vm
            for vm in machines
            if same_place(str(vm.get("location")), region)
            and (vm.get("tags") or {}).get(DEPLOYMENT_TAG) == deployment
        ]
        views = self._views(ours)
        self._networks.learn(ours)
        found = [self._listed(vm, region, views) for vm in ours]
        try:
            left = self._leftovers(region, deployment, [str(vm.get("name")) for vm in machines])
        except ProviderError as error:
            return Listing(tuple(found), (f"what is left of machines that are gone in {region} ({error})",))
        evicted = preempted(self._arm, [one.vm for one in left]) if left else frozenset()
        found += [_of_leftover(one, region, one.vm in evicted) for one in left]
        return Listing(tuple(found))

    def _all(self) -> dict[str, dict[str, Any]]:
        """The group's machines with their instance views, by name in lower case; empty where they cannot be
        listed. What is missing here proves nothing: lists lag.
        """
        try:
            machines = self._arm.pages(self._group, COMPUTE)
        except ProviderError:
            return {}
        views = self._views(machines)
        whole = {str(vm.get("name")).lower(): _with_view(vm, views) for vm in machines}
        found = {name: vm for name, vm in whole.items() if vm is not None}
        self._networks.learn(list(found.values()))
        return found

    def _leftovers(self, region: str, deployment: str, machines: Sequence[str]) -> list[Leftover]:
        """What is left of machines that are surely gone: a listing may be older than a create, a read by
        name is not.
        """
        rows = everything(self._arm)
        found = orphans(rows, region, deployment, machines)
        return [one for one in found if not self._exists(one.vm, region)]

    def _exists(self, name: str, region: str) -> bool:
        try:
            self.get(name, region)
        except ProviderError as error:
            return error.kind is not ErrorKind.NOT_FOUND
        return True

    def _look(self, ref: InstanceRef, shown: Mapping[str, Any] | None) -> CloudInstance:
        early = None if self._remembered.ended(ref.provider_id) else self._starting.known(ref.provider_id)
        return early or self._starting.note(self._read(ref, shown))

    def _read(self, ref: InstanceRef, shown: Mapping[str, Any] | None) -> CloudInstance:
        try:
            vm = shown or self.get(ref.provider_id, ref.region)
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return self._absent(ref)
            return _bare(ref, InstanceState.UNKNOWN, detail=str(error))
        return self.instance_of(vm, ref.region, ref.operation)

    def _absent(self, ref: InstanceRef) -> CloudInstance:
        """404. Its create may have been cut short by an eviction, which the operation then says."""
        if self._remembered.is_over(ref.provider_id):
            return _bare(ref, InstanceState.TERMINATED)
        if self._remembered.ended(ref.provider_id):
            return _bare(ref, InstanceState.ABSENT)
        error = self._operation_error(ref.operation, ref.provider_id, _attempt(self._arm.account, ref))
        if error is not None and error.code == "OperationPreempted":
            reason = EndReason.PREEMPTED if ref.capacity_type is _SPOT else None
            return _bare(ref, InstanceState.TERMINATED, end_reason=reason, error=error)
        detail = "gone; nobody says why" if ref.capacity_type is _SPOT else ""
        return _bare(ref, InstanceState.ABSENT, detail=detail)

    def _operation_error(self, operation: str | None, name: str, attempt: Attempt) -> ProviderError | None:
        """The error in which a create's operation ended, if it can be read."""
        url = operations.address(operation, node_of_name(name))
        if url is None:
            return None
        try:
            answer = self._arm.operation(url)
        except ProviderError:
            return None
        if not answer or str(answer.get("status")).lower() not in {"failed", "canceled"}:
            return None
        return from_body(None, answer.get("error") or {"code": str(answer.get("status"))}, attempt)

    def _views(self, machines: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
        """Instance views by id, in one call: a listing of a resource group has none."""
        if not machines:
            return {}
        path = f"{self._arm.subscription}/providers/Microsoft.Compute/virtualMachines"
        try:
            rows = self._arm.pages(path, COMPUTE, statusOnly="true")
        except ProviderError:
            return {}  # a role on the resource group alone: each is then asked for
        return {
            str(row.get("id")).lower(): view
            for row in rows
            if (view := (row.get("properties") or {}).get("instanceView"))
        }

    def _listed(
        self, vm: Mapping[str, Any], region: str, views: Mapping[str, Mapping[str, Any]]
    ) -> CloudInstance:
        whole = _with_view(vm, views)
        if whole is not None:
            return self.instance_of(whole, region)
        try:
            return self.instance_of(self.get(str(vm.get("name")), region), region)
        except ProviderError as error:
            return instance(vm, region, InstanceState.UNKNOWN, detail=str(error))


def _with_view(vm: Mapping[str, Any], views: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """A machine as a read by name would show it; None without a view of it."""
    view = views.get(str(vm.get("id")).lower())
    if view is None:
        return None
    return {**vm, "properties": {**(vm.get("properties") or {}), "instanceView": view}}


def _may_be_evicted(one: CloudInstance) -> bool:
    """Gone or going, or kept without its host, as some evictions leave it."""
    return (
        one.end_reason is None
        and one.error is None
        and one.state
        in {
            InstanceState.ABSENT,
            InstanceState.STOPPING,
            InstanceState.STOPPED,
        }
    )


def _with_reason(one: CloudInstance) -> CloudInstance:
    over = InstanceState.TERMINATED if one.state is InstanceState.ABSENT else one.state
    return replace(one, state=over, end_reason=EndReason.PREEMPTED, detail="VirtualMachinePreempted")


def _ended(request: LaunchRequest, name: str, reason: EndReason | None) -> CloudInstance:
    offer = request.offer
    ref = InstanceRef(offer.region, offer.zone, name, None, offer.capacity_type)
    return _bare(ref, InstanceState.TERMINATED, end_reason=reason)


def _of_leftover(left: Leftover, region: str, evicted: bool) -> CloudInstance:
    """A machine that is gone but not wholly: on its way out until somebody has ended the rest of it."""
    return CloudInstance(
        provider_id=left.vm,
        region=region,
        zone=region,
        state=InstanceState.STOPPING,
        name=left.vm,
        node=node_of_name(left.vm),
        tags={str(key): str(value) for key, value in left.tags.items()},
        created_at=left.since,
        end_reason=EndReason.PREEMPTED if evicted else None,
        detail=f"the virtual machine is gone; left behind: {left}",
    )


def _attempt(account: str, ref: InstanceRef) -> Attempt:
    return Attempt(account, ref.region, ref.zone, capacity_type=ref.capacity_type)


def _bare(ref: InstanceRef, state: InstanceState, **more: Any) -> CloudInstance:
    return CloudInstance(
        provider_id=ref.provider_id,
        region=ref.region,
        zone=ref.zone,
        state=state,
        name=ref.provider_id,
        node=node_of_name(ref.provider_id),
        capacity_type=ref.capacity_type,
        **more,
    )
