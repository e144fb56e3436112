"""What is left of instances that are gone: disks with our label, policies that place nothing any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.instances import DEPLOYMENT, Instances, partial_success, unreachable, within
from providers.gcp.machine_types import region_of
from providers.gcp.observation import launch_of, node_of, tail, time_of
from providers.gcp.placement import Placement
from providers.vocabulary import CloudInstance, InstanceRef, InstanceState, Listing

_PAGE = 500  # the API's maximum
# A disk and a policy are made before their instance shows.
_GRACE = timedelta(minutes=10)


class Leftovers:
    """The leftovers of one account."""

    def __init__(
        self,
        clients: Clients,
        calls: Calls,
        instances: Instances,
        placement: Placement,
        account: str,
        project: str,
    ) -> None:
        self._instances = instances
        self._clients = clients
        self._calls = calls
        self._placement = placement
        self._account = account
        self._project = project

    def added_to(self, listing: Listing, region: str, deployment: str) -> Listing:
        """The listing with an instance that is `stopping` for each one whose leftovers are still there."""
        missing = set(listing.incomplete)
        found: dict[tuple[str, str], CloudInstance] = {}
        for read, what in ((self._disks, "disks"), (self._policies, "resourcePolicies")):
            try:
                for left in read(region, deployment, listing.instances, missing):
                    found.setdefault((left.zone, left.name), left)
            except ProviderError:
                missing.add(what)
        gone = self._with_ends(list(found.values()))
        return Listing((*listing.instances, *gone), tuple(sorted(missing)))

    def _with_ends(self, found: list[CloudInstance]) -> list[CloudInstance]:
        """Leftovers with why their instances ended; what is there after all, or cannot be read, is none."""
        refs = [InstanceRef(left.region, left.zone, left.provider_id) for left in found]
        seen = self._instances.describe(refs)
        return [
            replace(left, end_reason=now.end_reason)
            for left, now in zip(found, seen, strict=True)
            if now.state in (InstanceState.ABSENT, InstanceState.TERMINATED)
        ]

    def remove(self, ref: InstanceRef) -> None:
        """What an instance that does not exist (any more) has left. Raises ProviderError."""
        from google.cloud.compute_v1.types import DeleteDiskRequest

        where = Where(self._account, ref.region, ref.zone)
        request = DeleteDiskRequest(project=self._project, zone=ref.zone, disk=ref.provider_id)
        try:
            self._calls.write(self._clients.disks.delete_unary, request, where)
        except ProviderError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT):
                raise
        self._placement.remove(ref.region, launch_of(ref.provider_id))

    def _disks(
        self, region: str, deployment: str, instances: Iterable[CloudInstance], missing: set[str]
    ) -> list[CloudInstance]:
        from google.cloud.compute_v1.types import AggregatedListDisksRequest

        request = AggregatedListDisksRequest(
            project=self._project,
            filter=f'labels.{DEPLOYMENT}="{deployment}"',
            max_results=_PAGE,
            **partial_success(AggregatedListDisksRequest),
        )
        names = {(instance.zone, instance.name) for instance in instances}
        found = []
        for page in self._calls.pages(
            self._clients.disks.aggregated_list, request, Where(self._account, region)
        ):
            missing |= within(region, unreachable(page))
            for scope in page.items.values():
                for disk in scope.disks:
                    zone = tail(disk.zone)
                    mine = region_of(zone) == region and not disk.users and zone not in missing
                    if mine and (zone, disk.name) not in names:
                        found.append(_left(zone, disk.name, dict(disk.labels), disk.creation_timestamp))
        return [left for left in found if self._old(left)]

    def _policies(
        self, region: str, deployment: str, instances: Iterable[CloudInstance], missing: set[str]
    ) -> list[CloudInstance]:
        launches = {launch_of(instance.name) for instance in instances}
        found = [
            replace(_left(policy.zone, f"{policy.launch}-0", policy.tags, ""), created_at=policy.made_at)
            for policy in self._placement.of_deployment(region, deployment)
            if policy.launch not in launches and policy.zone not in missing and region not in missing
        ]
        return [left for left in found if self._old(left)]

    def _old(self, left: CloudInstance) -> bool:
        return left.created_at is not None and self._calls.clock.now() - left.created_at >= _GRACE


def _left(zone: str, name: str, tags: dict[str, str], made_at: Any) -> CloudInstance:
    return CloudInstance(
        provider_id=name,
        region=region_of(zone),
        zone=zone,
        state=InstanceState.STOPPING,
        name=name,
        node=node_of(name),
        tags=tags,
        created_at=time_of(made_at),
        detail="gone, with leftovers",
    )
