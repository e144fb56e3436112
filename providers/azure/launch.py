"""Creating machines: one create-only PUT per node under its deterministic name, all nodes or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from providers.azure import operations
from providers.azure.arm import Arm
from providers.azure.errors import Attempt
from providers.azure.fabric import AvailabilitySets
from providers.azure.networks import Networks
from providers.azure.observe import Observer
from providers.azure.remembered import Remembered
from providers.azure.states import instance
from providers.azure.vm import SPEC_TAG, TOKEN_TAG, body
from providers.config import RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import (
    CloudInstance,
    InstanceState,
    Launched,
    LaunchRequest,
    Scope,
)

# Refusals that say that the name is taken.
_TAKEN = frozenset({"preconditionfailed", "http 412", "propertychangenotallowed", "invalidresourcelocation"})


class Launcher:
    """Sends what `prepare` returned."""

    def __init__(
        self,
        arm: Arm,
        observer: Observer,
        networks: Networks,
        sets: AvailabilitySets,
        remembered: Remembered,
    ) -> None:
        self._arm = arm
        self._sets = sets
        self._observer = observer
        self._networks = networks
        self._remembered = remembered

    def launch(self, request: LaunchRequest, settings: RegionConfig, attempt: Attempt) -> Launched:
        """Ask for every node. A refusal of one ends those before it; a doubt leaves them to be found."""
        made: list[CloudInstance] = []
        urls: dict[int, str] = {}
        if not all(self._remembered.knows(name) for name in request.names()):
            self._sets.make(request)
        for node in range(request.nodes):
            try:
                one, url = self._node(request, node, attempt)
            except ProviderError as error:
                raise self._withdrawn(error, made, request, settings) from error
            made.append(one)
            if url is not None:
                urls[node] = url
        return Launched(tuple(made), operations.handle(urls))

    def _node(self, request: LaunchRequest, node: int, attempt: Attempt) -> tuple[CloudInstance, str | None]:
        name, whole = request.names()[node], body(request, node)
        if self._remembered.knows(name):
            return self._adopted(request, name, whole, None)
        try:
            vm, url = self._arm.create_vm(name, whole, attempt)
        except ProviderError as error:
            if error.kind is not ErrorKind.CONFLICT:
                raise
            # 412, or 409 where the precondition is not looked at: something bears the name already.
            return self._adopted(request, name, whole, error)
        self._remembered.accept(name)
        return instance(vm, request.offer.region, InstanceState.PENDING), url

    def _adopted(
        self,
        request: LaunchRequest,
        name: str,
        whole: dict[str, Any],
        refusal: ProviderError | None,
    ) -> tuple[CloudInstance, str | None]:
        """A machine that was made before. While its create goes on, the machine itself is what tells of it:
        the operation's own address is not known any more.
        """
        one = self._adopt(request, name, whole, refusal)
        return one, self._arm.vm_path(name) if one.state is InstanceState.PENDING else None

    def _adopt(
        self,
        request: LaunchRequest,
        name: str,
        whole: dict[str, Any],
        refusal: ProviderError | None,
    ) -> CloudInstance:
        """The machine of that name if it is what this request made; the reason why not as an error."""
        try:
            vm = self._observer.get(name, request.offer.region)
        except ProviderError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                error.ambiguous = True
                raise
            raise self._nowhere(request, name, refusal) from error
        tags, region = vm.get("tags") or {}, request.offer.region
        if tags.get(TOKEN_TAG) != request.token:
            raise refusal or self._error(ErrorKind.CONFLICT, f"{name} is not of this launch", request)
        if tags.get(SPEC_TAG) != whole["tags"][SPEC_TAG]:
            message = f"{name} was asked for with other contents under the same token"
            raise self._error(ErrorKind.IDEMPOTENCY, message, request)
        state = str((vm.get("properties") or {}).get("provisioningState")).lower()
        if state == "deleting" or self._remembered.ended(name):
            raise self._over(request, name)
        self._remembered.accept(name)
        return self._observer.instance_of(vm, region)

    def _nowhere(self, request: LaunchRequest, name: str, refusal: ProviderError | None) -> ProviderError:
        """Why there is no machine of a name that was accepted, or is said to be taken."""
        if refusal is not None and refusal.code.lower() not in _TAKEN:
            return refusal
        if self._remembered.just_accepted(name):
            message = f"{name} was accepted and cannot be read yet"
            return self._error(ErrorKind.TRANSIENT, message, request, ambiguous=True)
        return self._over(request, name)

    def _withdrawn(
        self,
        error: ProviderError,
        made: Sequence[CloudInstance],
        request: LaunchRequest,
        settings: RegionConfig,
    ) -> ProviderError:
        """The refusal, once the nodes before it are on their way out."""
        if error.scope.subnet is not None:
            self._networks.subnet_is_full(error.scope.subnet)
            if len(settings.subnets) < 2:
                # The offers of a region with one subnet are no use without it.
                error.scope = replace(error.scope, subnet=None)
        if error.ambiguous or error.kind is ErrorKind.IDEMPOTENCY:
            return error
        if not made:
            self._sets.drop(request)
        for one in made:
            try:
                self._arm.delete_vm(one.provider_id, one.region)
            except ProviderError:
                error.ambiguous = True  # it may run: whoever looks for the token finds it
            else:
                self._remembered.end(one.provider_id, existed=True)
        return error

    def _over(self, request: LaunchRequest, name: str) -> ProviderError:
        message = f"{name} was made under this token and is over"
        return self._error(ErrorKind.IDEMPOTENCY, message, request, ended=True)

    def _error(self, kind: ErrorKind, message: str, request: LaunchRequest, **more: Any) -> ProviderError:
        offer = request.offer
        scope = Scope(
            "azure",
            self._arm.account,
            offer.region,
            offer.zone,
            offer.instance_type,
            capacity_type=offer.capacity_type,
        )
        return ProviderError(kind, message, code="LaunchToken", scope=scope, **more)
