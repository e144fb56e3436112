"""Reading instances and the operations on them, zone by zone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.machine_types import region_of
from providers.gcp.observation import Handle, launch_of, observed, shown, tail, valid_name
from providers.vocabulary import CapacityType, CloudInstance, InstanceRef, InstanceState, Listing

DEPLOYMENT = "corral-deployment"

_FEW = 3  # up to so many are read one by one, more in one list
_CHUNK = 40  # names in one filter, to keep the URL short
_PAGE = 500  # the API's maximum
_LABEL = re.compile(r"^[a-z0-9_-]{1,63}$")


class Instances:
    """The instances of one account."""

    def __init__(self, clients: Clients, calls: Calls, account: str, project: str) -> None:
        self._clients = clients
        self._calls = calls
        self._account = account
        self._project = project

    def describe(self, refs: Sequence[InstanceRef]) -> list[CloudInstance]:
        """One for each ref, in order. What cannot be read is `unknown` and says why."""
        found = {
            index: CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.ABSENT)
            for index, ref in enumerate(refs)
            if not valid_name(ref.provider_id)
        }
        places = sorted(set(range(len(refs))) - set(found), key=lambda i: refs[i].zone)
        for zone, group in groupby(places, key=lambda i: refs[i].zone):
            indexes = list(group)
            found |= zip(indexes, self._zone(zone, [refs[i] for i in indexes]), strict=True)
        return [found[index] for index in range(len(refs))]

    def list_all(self, region: str, deployment: str) -> Listing:
        """All of a region that carry the deployment's label."""
        from google.cloud.compute_v1.types import AggregatedListInstancesRequest

        if not _LABEL.match(deployment):
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"deployment {deployment!r} is no label value")
        request = AggregatedListInstancesRequest(
            project=self._project,
            filter=f'labels.{DEPLOYMENT}="{deployment}"',
            max_results=_PAGE,
            **partial_success(AggregatedListInstancesRequest),
        )
        messages: list[Any] = []
        missing: set[str] = set()
        where = Where(self._account, region)
        try:
            for page in self._calls.pages(self._clients.instances.aggregated_list, request, where):
                missing |= unreachable(page)
                for scoped in page.items.values():
                    messages += [i for i in scoped.instances if region_of(tail(i.zone)) == region]
        except ProviderError:
            # Without a first page nothing is known; with one, what was read is worth having.
            if not request.page_token:
                raise
            missing.add(region)
        return Listing(tuple(self._with_ends(messages)), tuple(sorted(within(region, missing))))

    def message(self, zone: str, name: str) -> Any | None:
        """The Instance of that name; None if there is none."""
        from google.cloud.compute_v1.types import GetInstanceRequest

        where = Where(self._account, region_of(zone), zone)
        request = GetInstanceRequest(project=self._project, zone=zone, instance=name)
        try:
            return self._calls.read(self._clients.instances.get, request, where)
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    def operation(self, zone: str, name: str) -> Any | None:
        """The operation of that name; None if there is none (any more)."""
        from google.cloud.compute_v1.types import GetZoneOperationRequest

        where = Where(self._account, region_of(zone), zone)
        request = GetZoneOperationRequest(project=self._project, zone=zone, operation=name)
        try:
            return self._calls.read(self._clients.operations.get, request, where)
        except ProviderError as error:
            if error.kind is ErrorKind.NOT_FOUND:
                return None
            raise

    def _zone(self, zone: str, refs: list[InstanceRef]) -> list[CloudInstance]:
        try:
            messages = self._messages(zone, [ref.provider_id for ref in refs])
        except ProviderError as error:
            return [_unknown(ref, error) for ref in refs]
        unsettled = [ref for ref in refs if _needs_operations(messages.get(ref.provider_id))]
        try:
            operations = self._operations(zone, [ref.provider_id for ref in unsettled])
            creates = self._creates(zone, unsettled, operations)
        except ProviderError as error:
            return [self._without_operations(ref, messages.get(ref.provider_id), error) for ref in refs]
        now = self._calls.clock.now()
        return [
            observed(
                ref,
                messages.get(ref.provider_id),
                operations,
                creates.get(Handle.parse(ref.operation).operation) if ref.operation else None,
                self._account,
                now,
            )
            for ref in refs
        ]

    def _without_operations(
        self, ref: InstanceRef, message: Any | None, error: ProviderError
    ) -> CloudInstance:
        """An instance that is there is what it says it is; why one is missing cannot be told."""
        return shown(message) if message is not None else _unknown(ref, error)

    def _messages(self, zone: str, names: Sequence[str]) -> dict[str, Any]:
        """name -> Instance, of those that exist."""
        from google.cloud.compute_v1.types import ListInstancesRequest

        unique = list(dict.fromkeys(names))
        if len(unique) <= _FEW:
            found = ((name, self.message(zone, name)) for name in unique)
            return {name: message for name, message in found if message is not None}
        where = Where(self._account, region_of(zone), zone)
        messages: dict[str, Any] = {}
        for chunk in _chunks(unique):
            request = ListInstancesRequest(
                project=self._project, zone=zone, filter=f'name eq "{"|".join(chunk)}"', max_results=_PAGE
            )
            for page in self._calls.pages(self._clients.instances.list, request, where):
                messages |= {message.name: message for message in page.items}
        return messages

    def _operations(self, zone: str, names: Sequence[str]) -> list[Any]:
        """The operations on the instances of the launches that these names belong to, newest first."""
        from google.cloud.compute_v1.types import ListZoneOperationsRequest

        where = Where(self._account, region_of(zone), zone)
        found: list[Any] = []
        for chunk in _chunks(list(dict.fromkeys(launch_of(name) for name in names))):
            request = ListZoneOperationsRequest(
                project=self._project,
                zone=zone,
                filter=f'targetLink eq ".*/instances/({"|".join(chunk)})(-[0-9]+)?"',
                order_by="creationTimestamp desc",
                max_results=_PAGE,
            )
            for page in self._calls.pages(self._clients.operations.list, request, where):
                found += page.items
        return found

    def _creates(self, zone: str, refs: Iterable[InstanceRef], operations: Sequence[Any]) -> dict[str, Any]:
        """operation name -> the operation that a ref's handle names."""
        found = {operation.name: operation for operation in operations}
        wanted = {Handle.parse(ref.operation).operation for ref in refs if ref.operation}
        for name in sorted(wanted - set(found)):
            operation = self.operation(zone, name)
            if operation is not None:
                found[name] = operation
        return {name: operation for name, operation in found.items() if name in wanted}

    def _with_ends(self, messages: Sequence[Any]) -> list[CloudInstance]:
        """Listed instances in the light of what ends them, as far as that can be read."""
        seen: list[CloudInstance] = []
        for zone, group in groupby(sorted(messages, key=_place), key=lambda message: tail(message.zone)):
            mine = list(group)
            names = [message.name for message in mine if _needs_operations(message)]
            try:
                operations = self._operations(zone, names)
            except ProviderError:
                operations = []
            now = self._calls.clock.now()
            for message in mine:
                ref = InstanceRef(region_of(zone), zone, message.name, None, _sold_as(message))
                seen.append(observed(ref, message, operations, None, self._account, now))
        return seen


def unreachable(page: Any) -> set[str]:
    """Places that a page of an aggregated list could not read (`zones/us-central1-a` -> `us-central1-a`)."""
    missing = {tail(place) for place in page.unreachables}
    for scope, scoped in page.items.items():
        if scoped.warning.code == "UNREACHABLE":
            missing.add(tail(scope))
    return missing


def within(region: str, places: Iterable[str]) -> set[str]:
    """The places that lie in the region; one that names neither zone nor region may lie anywhere."""
    return {
        place
        for place in places
        if place == region or region_of(place) == region or place.count("-") not in (1, 2)
    }


def partial_success(request_type: Any) -> dict[str, bool]:
    """Up to SDK 1.54 an answer without unreachable zones had to be asked for; now there is no other."""
    return {"return_partial_success": True} if "return_partial_success" in request_type.meta.fields else {}


def _needs_operations(message: Any | None) -> bool:
    """A plain instance that runs needs no second look; a spot instance shows its preemption there first."""
    return message is None or message.status != "RUNNING" or _sold_as(message) is CapacityType.SPOT


def _sold_as(message: Any) -> CapacityType:
    return shown(message).capacity_type or CapacityType.ON_DEMAND


def _place(message: Any) -> tuple[str, str]:
    return tail(message.zone), message.name


def _unknown(ref: InstanceRef, error: ProviderError) -> CloudInstance:
    return CloudInstance(
        ref.provider_id,
        ref.region,
        ref.zone,
        InstanceState.UNKNOWN,
        name=ref.provider_id,
        capacity_type=ref.capacity_type,
        detail=str(error),
    )


def could_not_be_read(instance: CloudInstance) -> bool:
    """True if nothing was seen of it, as against one that is seen in a state without a name of ours."""
    return instance.state is InstanceState.UNKNOWN and instance.created_at is None


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _CHUNK):
        yield names[start : start + _CHUNK]
