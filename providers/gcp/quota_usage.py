"""How many GPUs a project has in a region, for the families whose quota comes without its usage."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.errors import ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.instances import partial_success, unreachable, within
from providers.gcp.machine_types import GPUS, family_of
from providers.gcp.observation import tail
from providers.vocabulary import CapacityType, InstanceType

# Machine types whose GPUs a region does not count by a metric of their own.
_COUNTED = r"(a3|a4|a4x|g4)-.*"
_PAGE = 500  # the API's maximum
_GPUS_IN_NAME = re.compile(r"-(\d+)g(-|$)")
# What is stopped gives its GPUs back; what is queued has none yet.
_WITHOUT = frozenset({"PENDING", "STOPPED", "TERMINATED", "SUSPENDED"})
_PREEMPTIBLE = frozenset({"SPOT", "FLEX_START"})


@dataclass(frozen=True, slots=True)
class Usage:
    """GPUs by family and by which quota they draw on, if the project has both; `unread`: the places that
    could not be read, which make every figure too low.
    """

    gpus: Mapping[tuple[str, CapacityType], int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def of(self, family: str, drawing: Iterable[CapacityType]) -> float | None:
        """GPUs of a family in use; None if that is not known."""
        if self.unread:
            return None
        return float(sum(self.gpus.get((family, capacity_type), 0) for capacity_type in drawing))


def with_reserved(usage: Usage, unused: Mapping[str, int], sizes: Mapping[str, InstanceType]) -> Usage:
    """The usage with reserved instances that nobody uses: a reservation draws on quota from its making on
    (Compute Engine: "Reservations of zonal resources", quota).
    """
    gpus = Counter(usage.gpus)
    for name, instances in unused.items():
        size = sizes.get(name)
        if size is not None and size.accelerator is not None:
            gpus[size.family, CapacityType.ON_DEMAND] += instances * size.accelerator.count
    return Usage(dict(gpus), usage.unread)


class UsageReader:
    """Counts whatever runs in the project, whoever started it."""

    def __init__(self, clients: Clients, calls: Calls, account: str, project: str) -> None:
        self._clients = clients
        self._calls = calls
        self._account = account
        self._project = project

    def read(self, region: str, sizes: Mapping[str, InstanceType]) -> Usage:
        """sizes: machine types by name, for those that do not tell their GPUs. Never raises ProviderError."""
        from google.cloud.compute_v1.types import AggregatedListInstancesRequest

        request = AggregatedListInstancesRequest(
            project=self._project,
            filter=f'machineType eq ".*/zones/{region}-[a-z0-9]+/machineTypes/{_COUNTED}"',
            max_results=_PAGE,
            **partial_success(AggregatedListInstancesRequest),
        )
        found: Counter[tuple[str, CapacityType]] = Counter()
        missing: set[str] = set()
        try:
            where = Where(self._account, region)
            for page in self._calls.pages(self._clients.instances.aggregated_list, request, where):
                missing |= unreachable(page)
                for scoped in page.items.values():
                    found += count(scoped.instances, sizes)
        except ProviderError:
            missing.add(region)
        return Usage(dict(found), tuple(sorted(within(region, missing))))


def count(instances: Iterable[Any], sizes: Mapping[str, InstanceType]) -> Counter[tuple[str, CapacityType]]:
    """GPUs of Instance messages. What runs on a reservation draws on no quota (Compute Engine: provisioning
    models).
    """
    found: Counter[tuple[str, CapacityType]] = Counter()
    for instance in instances:
        model = instance.scheduling.provisioning_model
        if instance.status in _WITHOUT or model == "RESERVATION_BOUND":
            continue
        spot = model in _PREEMPTIBLE or instance.scheduling.preemptible
        family, gpus = _gpus(instance, sizes)
        found[family, CapacityType.SPOT if spot else CapacityType.ON_DEMAND] += gpus
    return found


def _gpus(instance: Any, sizes: Mapping[str, InstanceType]) -> tuple[str, int]:
    """Family and number: as the instance lists them, as its type has them, or as its type's name says."""
    name = tail(instance.machine_type)
    for card in instance.guest_accelerators:
        gpu = GPUS.get(tail(card.accelerator_type))
        if gpu is not None:
            return gpu.family, card.accelerator_count
    size = sizes.get(name)
    if size is not None and size.accelerator is not None:
        return size.family, size.accelerator.count
    match = _GPUS_IN_NAME.search(name)
    return family_of(name), int(match[1]) if match else 1
