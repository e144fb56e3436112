"""InfiniBand between the nodes of a gang: one availability set, made for it and deleted after it.

Source: Azure documentation, "Set up InfiniBand on HPC VMs": machines reach each other over InfiniBand only
within one availability set, or one scale set of mode Uniform; an availability set holds 200 machines, lies in
no zone, and takes neither spot machines nor reserved capacity ("Azure Spot VM error codes", "On-demand
capacity reservation"). Sizes that can say so by their capability `RdmaEnabled`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from providers.azure.arm import Arm
from providers.azure.skus import INFINIBAND, Size
from providers.azure.versions import COMPUTE
from providers.azure.vm import AVAILABILITY_SET, TOKEN_TAG, VM_TAG
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import LaunchRequest, Scope

MOST = 200


class AvailabilitySets:
    """The sets of one account, named after the launch that they are for."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def resolved(self, request: LaunchRequest, size: Size | None) -> Mapping[str, str]:
        """For LaunchRequest.extra. ProviderError (unsupported) where a launch with fabric cannot be had; it
        says nothing about launches without, so nothing is avoided.
        """
        if not request.fabric:
            return {}
        offer, problem = request.offer, None
        if size is None or size.type_in(offer.region, offer.zone, offer.capacity_type).fabric != INFINIBAND:
            problem = (
                f"{offer.instance_type} has InfiniBand on demand only, in {offer.region} without a zone"
                if size is not None and size.rdma
                else f"{offer.instance_type} has no InfiniBand; ask for a size with it, or without `fabric`"
            )
        elif request.nodes > MOST:
            problem = f"{request.nodes} nodes: InfiniBand connects {MOST} at most"
        if problem is not None:
            scope = Scope("azure", self._arm.account, offer.region, offer.zone, offer.instance_type)
            raise ProviderError(
                ErrorKind.UNSUPPORTED, problem, code="Fabric", scope=scope, avoid_for=timedelta(0)
            )
        return {AVAILABILITY_SET: self._path(request)}

    def make(self, request: LaunchRequest) -> None:
        """Make the set of a launch with fabric, or find it made."""
        if request.fabric:
            path = request.extra[AVAILABILITY_SET]
            self._arm.put(path, COMPUTE, body(request), region=request.offer.region)

    def drop(self, request: LaunchRequest) -> None:
        """Delete it while nothing is in it. If that fails it is found as a leftover."""
        if not request.fabric:
            return
        try:
            self._arm.delete(request.extra[AVAILABILITY_SET], COMPUTE)
        except ProviderError:
            return

    def _path(self, request: LaunchRequest) -> str:
        name = f"corral-{request.token[:20]}"
        return f"{self._arm.group}/providers/Microsoft.Compute/availabilitySets/{name}"


def body(request: LaunchRequest) -> dict[str, Any]:
    """One fault domain: the nodes are to be close, and a gang that loses one is over anyway."""
    return {
        "location": request.offer.region,
        "tags": {**request.tags, TOKEN_TAG: request.token, VM_TAG: request.names()[0]},
        "sku": {"name": "Aligned"},
        "properties": {"platformFaultDomainCount": 1, "platformUpdateDomainCount": 1},
    }
