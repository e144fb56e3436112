"""Asks for instances: one by `instances.insert`, several in a zone by `instances.bulkInsert`, all or none."""

from __future__ import annotations

import contextlib
from typing import Any

from providers.errors import ErrorKind, ProviderError
from providers.gcp import preparation as resolved
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_operation
from providers.gcp.instances import Instances
from providers.gcp.launch_body import (
    FINGERPRINT,
    bulk_body,
    fingerprint,
    instance_body,
    labels,
    request_id_of,
)
from providers.gcp.machine_types import family_of
from providers.gcp.observation import Handle, node_of, shown, valid_label, valid_name
from providers.gcp.placement import Placement
from providers.vocabulary import (
    CloudInstance,
    InstanceState,
    Launched,
    LaunchRequest,
    Scope,
)

_USER_DATA_LIMIT = 262_144  # bytes of one metadata value (Compute Engine API, `Metadata.items.value`)
_OVER = (InstanceState.STOPPING, InstanceState.STOPPED, InstanceState.TERMINATED)


class Launcher:
    """Sends launches of one account."""

    def __init__(
        self,
        clients: Clients,
        calls: Calls,
        instances: Instances,
        placement: Placement,
        account: str,
        project: str,
    ) -> None:
        self._placement = placement
        self._clients = clients
        self._calls = calls
        self._instances = instances
        self._account = account
        self._project = project

    def launch(self, request: LaunchRequest) -> Launched:
        """Send once; returns when the API has taken it. A refusal in the answer is raised."""
        self._validate(request)
        where = where_of(request, self._account)
        policy = own_policy(request)
        if policy is not None:
            self._placement.ensure(policy, request, where)
        try:
            operation = self._send(request, where)
        except ProviderError as error:
            if error.kind is ErrorKind.IDEMPOTENCY:
                return self._adopt(request, error)
            if policy is not None and not error.ambiguous:
                self._give_up(policy, request)
            raise
        refusal = of_operation([operation], where, self._calls.clock.now())
        if refusal is not None:
            raise refusal
        handle = Handle(operation.name, request.offer.instance_type, request.offer.reservation)
        return Launched(tuple(_promised(request, name) for name in request.names()), str(handle))

    def _give_up(self, policy: str, request: LaunchRequest) -> None:
        """Nothing was made that could be placed by it. What cannot be removed now is found later."""
        with contextlib.suppress(ProviderError):
            self._placement.remove(request.offer.region, policy)

    def _send(self, request: LaunchRequest, where: Where) -> Any:
        from google.cloud.compute_v1.types import (
            BulkInsertInstanceRequest,
            InsertInstanceRequest,
        )

        zone, request_id = request.offer.zone, str(request_id_of(request))
        if request.nodes == 1:
            insert = InsertInstanceRequest(
                project=self._project,
                zone=zone,
                request_id=request_id,
                instance_resource=instance_body(request, self._project),
            )
            return self._calls.write(self._clients.instances.insert_unary, insert, where)
        bulk = BulkInsertInstanceRequest(
            project=self._project,
            zone=zone,
            request_id=request_id,
            bulk_insert_instance_resource_resource=bulk_body(request, self._project),
        )
        return self._calls.write(self._clients.instances.bulk_insert_unary, bulk, where)

    def _adopt(self, request: LaunchRequest, error: ProviderError) -> Launched:
        """The names are taken: by an earlier send of this request, or by something else."""
        zone = request.offer.zone
        found = [self._instances.message(zone, name) for name in request.names()]
        taken = [message for message in found if message is not None]
        if not taken:
            raise error
        ours = fingerprint(request)
        if any(message.labels.get(FINGERPRINT) != ours for message in taken):
            raise ProviderError(
                ErrorKind.IDEMPOTENCY,
                f"an instance of another request has the name {taken[0].name} in {zone}",
                code=error.code,
                scope=error.scope,
            ) from error
        seen = [shown(message) for message in taken]
        over = any(instance.state in _OVER for instance in seen)
        if over or len(taken) < request.nodes:
            raise ProviderError(
                ErrorKind.IDEMPOTENCY,
                f"only {len(taken)} of {request.nodes} instances exist in {zone}, or some are ending",
                code=error.code,
                scope=error.scope,
                ambiguous=not over,
                ended=over,
            ) from error
        return Launched(tuple(seen))

    def _validate(self, request: LaunchRequest) -> None:
        text = _fault_in(request)
        if text:
            scope = Scope(provider="gcp", account=self._account, instance_type=request.offer.instance_type)
            raise ProviderError(ErrorKind.INVALID_REQUEST, text, scope=scope)


def _fault_in(request: LaunchRequest) -> str:
    """What the API would refuse anyway, said before anything is sent; empty if nothing."""
    if request.image is None or resolved.DISK_GIB not in request.extra:
        return "the request was not prepared: no image or disk size"
    if request.nodes < 1:
        return f"nodes: {request.nodes}, expected 1 or more"
    if not all(valid_name(name) for name in request.names()):
        return f"token {request.token!r} makes no valid instance name: expected 32 hex digits"
    wrong = [f"{key}={value}" for key, value in request.tags.items() if not valid_label(key, value)]
    if wrong:
        return f"tags {', '.join(wrong)}: keys begin with a letter and take [a-z0-9_-], at most 63"
    size = len(request.user_data.encode())
    if size > _USER_DATA_LIMIT:
        return f"user data of {size} bytes, at most {_USER_DATA_LIMIT} are allowed"
    return ""


def own_policy(request: LaunchRequest) -> str | None:
    """The placement policy that the launch makes for itself."""
    return request.extra.get(resolved.PLACEMENT) if request.offer.reservation is None else None


def where_of(request: LaunchRequest, account: str) -> Where:
    """What errors of this launch can be about."""
    offer = request.offer
    return Where(
        account=account,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        family=family_of(offer.instance_type),
        capacity_type=offer.capacity_type,
        subnet=request.subnet,
        image=request.image,
        reservation=offer.reservation,
    )


def _promised(request: LaunchRequest, name: str) -> CloudInstance:
    """An instance that the API has accepted to make."""
    offer = request.offer
    return CloudInstance(
        provider_id=name,
        region=offer.region,
        zone=offer.zone,
        state=InstanceState.PENDING,
        name=name,
        node=node_of(name),
        tags=labels(request),
        instance_type=offer.instance_type,
        capacity_type=offer.capacity_type,
    )
