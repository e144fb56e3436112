"""Compact placement policies: one for each launch that asks to be placed close together.

A policy has no labels; its description bears our tags and the zone, so that it is found when nothing else of
its launch is left.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, done, of_operation
from providers.gcp.observation import time_of
from providers.vocabulary import LaunchRequest

_PAGE = 500  # the API's maximum
# A policy is made within seconds, and instances cannot name it before.
_LOOKS, _BETWEEN = 30, 1.0


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy of ours: its launch (`corral-TOKEN`), where its instances were, and their tags."""

    launch: str
    region: str
    zone: str
    tags: dict[str, str]
    made_at: datetime | None


class Placement:
    """The placement policies of one account."""

    def __init__(self, clients: Clients, calls: Calls, account: str, project: str) -> None:
        self._clients = clients
        self._calls = calls
        self._account = account
        self._project = project
        self._closing = threading.Event()

    def ensure(self, name: str, request: LaunchRequest, where: Where) -> None:
        """Have the policy of a launch exist. Waits until it can be used: half a minute at most."""
        from google.cloud.compute_v1.types import (
            InsertResourcePolicyRequest,
            ResourcePolicy,
            ResourcePolicyGroupPlacementPolicy,
        )

        offer = request.offer
        policy = ResourcePolicy(
            name=name,
            description=json.dumps({"zone": offer.zone, "tags": request.tags}, sort_keys=True),
            group_placement_policy=ResourcePolicyGroupPlacementPolicy(collocation="COLLOCATED"),
        )
        insert = InsertResourcePolicyRequest(
            project=self._project, region=offer.region, resource_policy_resource=policy
        )
        try:
            operation: Any = self._calls.write(self._clients.resource_policies.insert_unary, insert, where)
        except ProviderError as error:
            if error.kind is ErrorKind.IDEMPOTENCY:
                return  # of an earlier send of this launch
            error.ambiguous = False  # no instance was asked for; what may be left of the policy is found
            raise
        self._wait(operation, where)

    def remove(self, region: str, name: str) -> bool:
        """True if it is gone; False while instances are placed by it. Raises ProviderError."""
        from google.cloud.compute_v1.types import DeleteResourcePolicyRequest

        request = DeleteResourcePolicyRequest(project=self._project, region=region, resource_policy=name)
        try:
            self._calls.write(
                self._clients.resource_policies.delete_unary, request, Where(self._account, region)
            )
        except ProviderError as error:
            if error.kind not in (ErrorKind.NOT_FOUND, ErrorKind.CONFLICT, ErrorKind.INVALID_REQUEST):
                raise
            return error.kind is not ErrorKind.CONFLICT
        return True

    def of_deployment(self, region: str, deployment: str) -> Iterator[Policy]:
        """The policies of a region that bear the deployment's tag. Raises ProviderError."""
        from google.cloud.compute_v1.types import ListResourcePoliciesRequest

        request = ListResourcePoliciesRequest(
            project=self._project, region=region, filter='name eq "corral-.*"', max_results=_PAGE
        )
        where = Where(self._account, region)
        for page in self._calls.pages(self._clients.resource_policies.list, request, where):
            for message in page.items:
                found = _policy(message, region)
                if found is not None and found.tags.get("corral-deployment") == deployment:
                    yield found

    def close(self) -> None:
        """Let who waits go on."""
        self._closing.set()

    def _wait(self, operation: Any, where: Where) -> None:
        from google.cloud.compute_v1.types import GetRegionOperationRequest

        request = GetRegionOperationRequest(
            project=self._project, region=where.region, operation=operation.name
        )
        for _ in range(_LOOKS):
            refusal = of_operation([operation], where, self._calls.clock.now())
            if refusal is not None:
                refusal.ambiguous = False
                raise refusal
            if done(operation):
                return
            self._calls.clock.wait(self._closing, _BETWEEN)
            operation = self._calls.read(self._clients.region_operations.get, request, where)
        text = f"the placement policy of the launch is not ready after {_LOOKS * _BETWEEN:.0f} s"
        raise ProviderError(ErrorKind.TRANSIENT, text)


def _policy(message: Any, region: str) -> Policy | None:
    """None for a policy whose description is not ours."""
    try:
        said = json.loads(message.description)
        zone, tags = str(said["zone"]), {str(key): str(value) for key, value in said["tags"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Policy(message.name, region, zone, tags, time_of(message.creation_timestamp))
