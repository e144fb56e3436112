"""What the account's identity may do in its project, asked without doing any of it.

Source: Cloud Resource Manager API v1, projects.testIamPermissions: of the permissions asked about it answers
those that the caller has.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from providers.config import AccountConfig
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.rest import Rest

_BASE = "https://cloudresourcemanager.googleapis.com"
_AT_ONCE = 100  # permissions in one call

# What every account needs, beside what the other lines of the check look at.
LAUNCH = (
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.get",
    "compute.instances.list",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.disks.create",
    "compute.disks.delete",
    "compute.disks.list",
    "compute.disks.setLabels",
    "compute.subnetworks.use",
    "compute.zoneOperations.get",
    "compute.zoneOperations.list",
    "compute.resourcePolicies.list",
)
PUBLIC_ADDRESS = ("compute.subnetworks.useExternalIp",)
SERVICE_ACCOUNT = ("compute.instances.setServiceAccount",)
FABRIC = (
    "compute.resourcePolicies.create",
    "compute.resourcePolicies.delete",
    "compute.resourcePolicies.use",
    "compute.regionOperations.get",
)
# Without these something is not known or cannot be asked for; jobs run all the same.
OPTIONAL = {
    "compute.reservations.list": "reservations, and how much of the quotas of newer GPUs is in use",
    "compute.reservations.get": "launches into reservations",
    "compute.futureReservations.list": "future reservations",
    "compute.advice.capacity": "how likely spot capacity is",
    "cloudquotas.quotas.get": "limits of newer GPUs",
    "cloudquotas.quotas.update": "asking for more quota",
}


def needed(config: AccountConfig) -> tuple[str, ...]:
    """The permissions that the account's settings make necessary."""
    regions = config.regions.values()
    found = list(LAUNCH)
    if any(settings.public_address for settings in regions):
        found += PUBLIC_ADDRESS
    if any(settings.instance_role for settings in regions):
        found += SERVICE_ACCOUNT
    if any(settings.fabric_subnets for settings in regions):
        found += FABRIC
    return tuple(found)


class Permissions:
    """The permissions of one account's identity."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig) -> None:
        self._rest = Rest(clients, calls, config, _BASE)
        self._calls = calls
        self._path = f"/v1/projects/{config.project}:testIamPermissions"

    def missing(self, wanted: Iterable[str]) -> list[str]:
        """Which of these it lacks, in order. Raises ProviderError where that cannot be told."""
        asked = list(wanted)
        granted: set[str] = set()
        for start in range(0, len(asked), _AT_ONCE):
            body = {"permissions": asked[start : start + _AT_ONCE]}
            answer = self._calls.again(partial(self._rest.send, "POST", self._path, body=body))
            granted |= set(answer.get("permissions") or ())
        return [name for name in asked if name not in granted]
