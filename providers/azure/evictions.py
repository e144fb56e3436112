"""Evidence that Azure, not a person, ended a spot machine.

An evicted machine has no state that says so; with eviction policy Delete it is simply gone. Azure Resource
Health annotates it `VirtualMachinePreempted`, which Resource Graph shows (Azure documentation, "Resource
Health virtual machine annotations"). No annotation proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from providers.azure.arm import Arm
from providers.azure.versions import RESOURCE_GRAPH
from providers.errors import ProviderError

_IDS_PER_QUESTION = 100


def preempted(arm: Arm, names: Iterable[str]) -> frozenset[str]:
    """Those of the machines named that were evicted, as far as Azure says so; empty if it cannot be asked."""
    wanted = {arm.vm_path(name).lower(): name for name in names}
    ids, found = sorted(wanted), set()
    try:
        for first in range(0, len(ids), _IDS_PER_QUESTION):
            found |= _annotated(arm, ids[first : first + _IDS_PER_QUESTION])
    except ProviderError:
        pass  # a hint only: whoever cannot read Resource Graph sees `absent` without a reason
    return frozenset(wanted[one] for one in found if one in wanted)


def _annotated(arm: Arm, ids: list[str]) -> set[str]:
    quoted = ", ".join(f"'{one}'" for one in ids)
    query = (
        "HealthResources | where type =~ 'microsoft.resourcehealth/resourceannotations' "
        "and properties.annotationName =~ 'VirtualMachinePreempted' "
        f"and properties.targetResourceId in~ ({quoted}) "
        "| project targetResourceId = tostring(properties.targetResourceId)"
    )
    body = {
        "subscriptions": [arm.subscription.rpartition("/")[2]],
        "query": query,
        "options": {"resultFormat": "objectArray"},
    }
    answer = arm.look_up("/providers/Microsoft.ResourceGraph/resources", RESOURCE_GRAPH, body)
    return {str(row.get("targetResourceId")).lower() for row in answer.get("data") or ()}
